// Measured peak rates of this machine: arithmetic and memory bandwidth.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/profile/spread.h"
#include "kernels/instruction_set.h"

namespace twin::exec {

// fp32 multiply-adds of all threads together, two floating-point operations each.
struct ComputeCeiling {
  kernels::InstructionSet set{};
  double flops_per_s = 0;       // median of the repeats
  double flops_per_s_best = 0;  // fastest of them: what other programs leave to this one varies
  double spread = 0;            // (p90 - p10) / median
};

struct CpuCeilings {
  std::int32_t threads = 0;
  std::vector<ComputeCeiling> compute;  // by instruction set, ascending
  double read_bytes_per_s = 0;          // likewise
  double read_bytes_per_s_best = 0;
  double read_spread = 0;
  std::int64_t read_bytes = 0;  // size of the array read

  // Of the fastest instruction set.
  [[nodiscard]] double flops_per_s_best() const;
};

// Memory that read bandwidth is measured on: four times the last-level cache and at least 1 GiB,
// but no more than a quarter of what is free.
std::int64_t ReadArrayBytes();

// Cost: some seconds, and ReadArrayBytes() of memory. REQUIRES: threads >= 1.
CpuCeilings MeasureCeilings(std::int32_t threads, std::int64_t read_bytes = ReadArrayBytes());

}  // namespace twin::exec
