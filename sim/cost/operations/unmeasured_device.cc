#include "sim/cost/operations/unmeasured_device.h"

#include <algorithm>

namespace twin::sim {
namespace {

constexpr double kUnknownClock = 1.9e9;
constexpr double kUnknownSmCount = 132;

double SmsOf(const HardwareSpec& hardware) {
  return hardware.sm_count > 0 ? hardware.sm_count : kUnknownSmCount;
}

double PeakOf(const HardwareSpec& hardware) {
  return std::max(hardware.peak_bf16_flops, hardware.peak_fp32_flops);
}

// Tensor operations per cycle and SM: 512 to 2,048 where operands come from registers, as on Ampere
// and Ada, and more where they come from shared memory, for which libraries have other kernels.
constexpr double kWideTensorCore = 3000;
constexpr double kNarrowTensorCore = 1500;

double TensorWidth(const HardwareSpec& hardware) {
  return PeakOf(hardware) / SmsOf(hardware) / ClockHertz(hardware);
}

bool PacksHeads(KernelLibrary library, double width) {
  switch (library) {
    case KernelLibrary::kVllm:
      return width > kWideTensorCore;
    case KernelLibrary::kSglang:
      return true;
    case KernelLibrary::kTrtllm:
      return width < kNarrowTensorCore;
  }
  return true;
}

// Cycles of an SM, fractions of the data sheet, and nanoseconds.
struct ContextUnits {
  double launch;
  double per_request;
  double tile;
  double flops_fraction;
  double sharpness;
  double write_fraction;
  double query_fraction;
  double l2_bytes_per_cycle;
  double l2_fraction;
};

struct GenerationUnits {
  double launch;
  double per_block;
  double bandwidth_fraction;
  double l2_bytes_per_cycle;
  double key_ns;
  double split;
  double l2_fraction;
};

ContextUnits ContextUnitsOf(KernelLibrary library) {
  switch (library) {
    case KernelLibrary::kVllm:
      break;
    case KernelLibrary::kSglang:
      return {11530, 30.6, 5655, 0.644, 0.971, 0.674, 0.71, 31.4, 0.947};
    case KernelLibrary::kTrtllm:
      return {18600, 34.5, 3774, 0.481, 0.663, 0.726, 0.247, 49.2, 0.721};
  }
  return {15620, 49.2, 5181, 0.616, 3.85, 0.383, 0.872, 5.7, 1.38};
}

GenerationUnits GenerationUnitsOf(KernelLibrary library) {
  switch (library) {
    case KernelLibrary::kVllm:
      break;
    case KernelLibrary::kSglang:
      return {17540, 5317, 0.888, 26.2, 3.94, 5867, 0.944};
    case KernelLibrary::kTrtllm:
      return {18000, 2628, 0.809, 27.3, 13.9, 10990, 0.9};
  }
  return {21560, 6919, 0.828, 21, 15.6, 5277, 0.89};
}

}  // namespace

double UnmeasuredContextSd(KernelLibrary library) {
  return library == KernelLibrary::kSglang ? 0.3 : 0.33;
}

double UnmeasuredGenerationSd(KernelLibrary library) {
  switch (library) {
    case KernelLibrary::kVllm:
      break;
    case KernelLibrary::kSglang:
      return 0.38;
    case KernelLibrary::kTrtllm:
      return 0.42;
  }
  return 0.28;
}

double ClockHertz(const HardwareSpec& hardware) {
  constexpr double kFlopsPerCycle = 2 * 128;
  constexpr double kLeast = 1e9;
  if (hardware.sm_count <= 0) return kUnknownClock;
  const double clock = hardware.peak_fp32_flops / hardware.sm_count / kFlopsPerCycle;
  return std::clamp(clock < kLeast ? 2 * clock : clock, kLeast, 4 * kLeast);
}

GemmCoefficients GemmCoefficientsOf(const HardwareSpec& hardware) {
  const double clock = ClockHertz(hardware);
  return {.flops_fraction = hardware.gemm_flops_fraction,
          .bandwidth_fraction = 0.856,
          .latency_s = 4144 / clock,
          .tile_loss = 73.3,
          .wave_s = 1387 / clock,
          .saturating_tiles = 0.459,
          .split_s = 4263 / clock,
          .l2_bytes_per_s = 162 * clock,
          .overlap = 2.1,
          .wave_rounding = 0.233,
          .weight_copies = 6.64,
          .resident_bytes_per_s = 11.5 * clock};
}

ContextKernel ContextKernelOf(const HardwareSpec& hardware, DType compute_dtype,
                              KernelLibrary library) {
  const bool fp8 = compute_dtype == DType::kFp8 && hardware.peak_fp8_flops > 0;
  const double peak = fp8 ? hardware.peak_fp8_flops : PeakOf(hardware);
  const double bandwidth = hardware.memory_bandwidth_bytes_per_s * 1e-6;
  const double cycles = ClockHertz(hardware) * 1e-6;  // per microsecond
  const ContextUnits units = ContextUnitsOf(library);
  ContextKernel kernel;
  kernel.multiprocessors = SmsOf(hardware);
  kernel.launch = units.launch / cycles;
  kernel.per_request = units.per_request / cycles;
  kernel.tile = units.tile / cycles;
  // Two products of 128 queries with one key of 128 numbers.
  constexpr double kFlops = 4.0 * 128 * 128;
  kernel.key = 1e6 * kFlops * kernel.multiprocessors / (units.flops_fraction * peak);
  kernel.sharpness = units.sharpness;
  kernel.write_rate = units.write_fraction * bandwidth;
  kernel.query_rate = units.query_fraction * bandwidth;
  kernel.l2_rate = units.l2_bytes_per_cycle * cycles * kernel.multiprocessors;
  if (hardware.l2_bytes > 0) {
    kernel.l2_bytes = units.l2_fraction * static_cast<double>(hardware.l2_bytes);
  }
  kernel.packs_heads = PacksHeads(library, TensorWidth(hardware));
  return kernel;
}

GenerationKernel GenerationKernelOf(const HardwareSpec& hardware, KernelLibrary library) {
  const double cycles = ClockHertz(hardware) * 1e-6;
  const GenerationUnits units = GenerationUnitsOf(library);
  GenerationKernel kernel;
  kernel.multiprocessors = SmsOf(hardware);
  kernel.launch = units.launch / cycles;
  kernel.per_block = units.per_block / cycles;
  kernel.rate = units.bandwidth_fraction * hardware.memory_bandwidth_bytes_per_s * 1e-6;
  kernel.l2_rate = units.l2_bytes_per_cycle * cycles * kernel.multiprocessors;
  kernel.key = 1e-3 * units.key_ns;
  kernel.split = units.split / cycles;
  if (hardware.l2_bytes > 0) {
    kernel.l2_bytes = units.l2_fraction * static_cast<double>(hardware.l2_bytes);
  }
  kernel.splits_single_heads =
      library != KernelLibrary::kVllm || TensorWidth(hardware) > kWideTensorCore;
  kernel.slots_per_multiprocessor = 2;
  if (library == KernelLibrary::kTrtllm) kernel.packed_group_max = 32;
  return kernel;
}

}  // namespace twin::sim
