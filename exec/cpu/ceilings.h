// Measured peak rates of this machine: arithmetic and memory bandwidth.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/profile/spread.h"
#include "kernels/instruction_set.h"

namespace twin::exec {

// Rate of fp32 multiply-adds of all threads together; each counts as two floating-point operations.
struct ComputeCeiling {
  kernels::InstructionSet set{};
  double flops_per_s = 0;       // median of the repeats
  double flops_per_s_best = 0;  // of the fastest repeat: other programs take varying shares
  double spread = 0;            // (p90 - p10) / median
};

struct CpuCeilings {
  std::int32_t threads = 0;
  std::vector<ComputeCeiling> compute;  // by instruction set, ascending
  double read_bytes_per_s = 0;          // median of the repeats
  double read_bytes_per_s_best = 0;
  double read_spread = 0;
  std::int64_t read_bytes = 0;  // size of the array read

  // The best rate of the fastest instruction set.
  [[nodiscard]] double flops_per_s_best() const;
};

// Size of the array on which read bandwidth is measured: four times the last-level cache and at
// least 1 GiB, but no more than a quarter of the free memory.
std::int64_t ReadArrayBytes();

// Cost: some seconds, and ReadArrayBytes() of memory. REQUIRES: threads >= 1.
CpuCeilings MeasureCeilings(std::int32_t threads, std::int64_t read_bytes = ReadArrayBytes());

}  // namespace twin::exec
