#include "sim/devices/operations/unmeasured_device.h"

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

bool HasWideTensorCores(const HardwareSpec& hardware) {
  return PeakOf(hardware) / SmsOf(hardware) / ClockHertz(hardware) > kWideTensorCore;
}

// Cycles per second if an SM has 128 fp32 lanes.
double ClockOf128Lanes(const HardwareSpec& hardware) {
  constexpr double kFlopsPerCycle = 2 * 128;
  return hardware.peak_fp32_flops / hardware.sm_count / kFlopsPerCycle;
}
constexpr double kLeastClock = 1e9;

// True for the SMs of the A100 and the A30. Their shared memory, 164 kB instead of the 100 kB of
// other devices with narrow tensor cores, holds two thread blocks of a prompt kernel.
bool Has64Lanes(const HardwareSpec& hardware) {
  return hardware.sm_count > 0 && hardware.peak_fp32_flops > 0 &&
         ClockOf128Lanes(hardware) < kLeastClock;
}

// FlashAttention 3 and TensorRT-LLM's kernels for Hopper compute tiles of 128 rows. FlashAttention
// 2 takes 64 where keys lie in pages, and so do FlashInfer (16 to 128, by length) and
// TensorRT-LLM's kernels for Ampere. SGLang has FlashAttention 3 on the A100 too.
double TileRows(const HardwareSpec& hardware, KernelLibrary library) {
  const bool flash3 = library == KernelLibrary::kSglang && Has64Lanes(hardware);
  return HasWideTensorCores(hardware) || flash3 ? 128 : 64;
}

bool PacksHeads(const HardwareSpec& hardware, KernelLibrary library) {
  return library == KernelLibrary::kSglang ||
         (library == KernelLibrary::kVllm && HasWideTensorCores(hardware));
}

// FlashAttention 3, which vLLM and SGLang call where operands come from shared memory, sorts the
// requests of a call by length (vllm-project/vllm pull request 23465). Other kernels start thread
// blocks in the order of the batch.
bool StartsWithLongest(const HardwareSpec& hardware, KernelLibrary library) {
  return library != KernelLibrary::kTrtllm && HasWideTensorCores(hardware);
}

// Cycles of an SM, fractions of the data sheet, and nanoseconds.
struct ContextUnits {
  double launch;
  double per_request;
  double tile;  // of 128 rows
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
      return {8908, 1, 6873, 0.671, 0.262, 0.715, 0.72, 64, 0.979};
    case KernelLibrary::kTrtllm:
      return {16760, 3.9, 4001, 0.458, 0.0794, 0.686, 0.239, 64, 0.981};
  }
  return {10520, 24.8, 9412, 0.586, 0.804, 0.527, 0.736, 5.73, 1.46};
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
  switch (library) {
    case KernelLibrary::kVllm:
      break;
    case KernelLibrary::kSglang:
      return 0.2;
    case KernelLibrary::kTrtllm:
      return 0.27;
  }
  return 0.17;
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
  if (hardware.sm_count <= 0) return kUnknownClock;
  const double clock = ClockOf128Lanes(hardware);
  return std::clamp(Has64Lanes(hardware) ? 2 * clock : clock, kLeastClock, 4 * kLeastClock);
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
  kernel.tile_rows = TileRows(hardware, library);
  kernel.slots_per_multiprocessor = Has64Lanes(hardware) && !HasWideTensorCores(hardware) ? 2 : 1;
  kernel.tile = kernel.tile_rows / 128 * units.tile / cycles;
  // Two products of the tile's queries with one key of 128 numbers.
  const double flops = 4.0 * 128 * kernel.tile_rows;
  kernel.key = 1e6 * flops * kernel.multiprocessors / (units.flops_fraction * peak);
  kernel.sharpness = units.sharpness;
  kernel.write_rate = units.write_fraction * bandwidth;
  kernel.query_rate = units.query_fraction * bandwidth;
  kernel.l2_rate = units.l2_bytes_per_cycle * cycles * kernel.multiprocessors;
  if (hardware.l2_bytes > 0) {
    kernel.l2_bytes = units.l2_fraction * static_cast<double>(hardware.l2_bytes);
  }
  kernel.packs_heads = PacksHeads(hardware, library);
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
  kernel.splits_single_heads = library != KernelLibrary::kVllm || HasWideTensorCores(hardware);
  kernel.slots_per_multiprocessor = 2;
  if (StartsWithLongest(hardware, library)) kernel.straggler = 0;
  if (library == KernelLibrary::kTrtllm) kernel.packed_group_max = 32;
  return kernel;
}

}  // namespace twin::sim
