// Measures the time of each kernel of a step, and the gap before it (twinserve bench
// --kernel-times).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exec/cuda/kernel_trace.h"

namespace twin::run {

struct KernelTime {
  std::string name;
  double us = 0;
  // Time from the end of the kernel before it; negative if the two overlap, 0 for the first kernel.
  double gap_us = 0;
};

// The medians for each kernel, over the repeats that ran the most frequent number of kernels.
std::vector<KernelTime> MedianKernelTimes(std::span<const std::vector<exec::KernelRun>> repeats);

// The step that kernels belong to.
struct TracedStep {
  std::string phase;
  std::int32_t batch = 0;
  std::int32_t length = 0;  // context of decodes, or tokens of a prefill
};

class KernelTimesFile {
 public:
  // REQUIRES: nothing has run on a device yet. Throws as exec::KernelTrace.
  explicit KernelTimesFile(std::filesystem::path path) : path_(std::move(path)) {}

  // Runs the step five times. Rewrites the file: a row for each kernel of all steps so far. Throws
  // InputError (data) if it cannot be written, kernels::cuda::DeviceError.
  void Add(const TracedStep& step, const std::function<void()>& run);

 private:
  std::filesystem::path path_;
  exec::KernelTrace trace_;
  std::string text_ = "phase,batch,length,node,name,us,gap_us\n";
};

}  // namespace twin::run
