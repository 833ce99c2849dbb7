// Turns rows of an operation table into questions to the operation models, one file per model.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "core/files/csv.h"
#include "core/hardware_spec.h"
#include "sim/devices/operations/device_profile.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/kernel_library.h"

namespace twin::run {

// One kind of operation. Implementations keep the models of the formats and libraries that occurred
// before, so that a row costs a few lookups.
class OperationPredictor {
 public:
  virtual ~OperationPredictor() = default;
  // Throws InputError with file, line and field.
  virtual sim::Estimate Predict(const CsvTable& row) = 0;
};

// The library that the column `backend` names; vLLM without it.
inline sim::KernelLibrary LibraryOf(const CsvTable& row) {
  static const std::vector<std::pair<std::string_view, sim::KernelLibrary>> words = {
      {"vllm", sim::KernelLibrary::kVllm},
      {"sglang", sim::KernelLibrary::kSglang},
      {"trtllm", sim::KernelLibrary::kTrtllm}};
  return row.Word("backend", words, sim::KernelLibrary::kVllm);
}

}  // namespace twin::run
