// Measured matrix products, as aiconfigurator's tables hold them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "run/run_control.h"
#include "sim/devices/operations/gemm_profile.h"

namespace twin::run {

struct GemmRow {
  sim::KernelLibrary library = sim::KernelLibrary::kVllm;
  sim::GemmFormat format = sim::GemmFormat::kBf16;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double seconds = 0;
};

struct GemmRows {
  std::vector<GemmRow> rows;
  std::vector<std::string> versions;  // "vllm 0.24.0", in the order of the file
  // How each library was measured, which the file does not state; a library without an entry:
  // single calls.
  std::map<sim::KernelLibrary, sim::BackToBackCalls> calls = {};
};

// Reads the columns backend, dtype, m, n, k, latency_us and, if it is there, version of a CSV file,
// plain or gzip. Throws InputError with file, line and field, and ends early as EndIfStopped()
// does.
GemmRows ReadGemmRows(const std::string& path, const RunControl& control);

}  // namespace twin::run
