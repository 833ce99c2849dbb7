// Loads the model that `bench` and `profile` measure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model_options.h"
#include "run/real/model_device.h"
#include "run/real/rank_model.h"
#include "run/real/served_model.h"
#include "run/run_control.h"

namespace twin::run {

struct MeasuredModelOptions {
  std::string model;  // as ModelArgument::model (run/real/served_model.h)
  bool dummy_weights = false;
  ModelDevice device = ModelDevice::kCpu;
  std::int32_t threads = 0;  // 0 = one per core
  ModelOptions model_options = {};
};

std::int32_t ThreadsOf(const MeasuredModelOptions& options);

// A model on one rank, with everything that it borrows.
struct MeasuredModel {
  std::vector<std::unique_ptr<exec::Communicator>> group;
  RankModel rank;
  std::string machine;          // description in one line
  std::string instruction_set;  // of the CPU, or of the CUDA device, such as "sm_90"

  [[nodiscard]] exec::DeviceModel& model() const { return *rank.model; }
};

// Finds the model that the options name (run/real/served_model.h).
ComputedModel ReadMeasuredModel(const MeasuredModelOptions& options);

// Loads the model on the device of the options, with weights packed as `format`. Reports the
// loader's warnings. REQUIRES: RequireModelOptions(). Throws InputError (data), std::bad_alloc,
// kernels::cuda::DeviceError. `decode_batches` as in exec::CudaModelOptions.
MeasuredModel LoadMeasuredModel(const MeasuredModelOptions& options, const ComputedModel& model,
                                DType format, std::int32_t positions,
                                const exec::StepSizes& largest_step, RunControl& control,
                                std::vector<std::int64_t> decode_batches = {});

// Parses the name of one of the `allowed` formats; an empty name means the first one. Throws
// InputError (usage) naming the option.
DType ParseDTypeOption(const std::string& option, const std::string& name,
                       std::span<const DType> allowed);

}  // namespace twin::run
