// Coefficients of the closed forms for a device that nobody measured, from its data sheet.
//
// Beyond their peaks and bandwidths, devices differ mostly in the clock: launches, waves of
// tiles, and what an SM reads from L2 take a number of cycles that changes little from one device
// to the next. A key that a thread block reads waits for the memory, and takes a time instead.
// Kernels differ between libraries: tiles of prompts have 64 or 128 rows, and a fixed time that
// grows with these. All numbers were fitted by least absolute logarithms to several
// devices together: GEMM to A100, H100, H200, L40S, A30, RTX 4090 and RTX PRO 6000, attention to
// the first four. The spreads: of each of these devices, predicted from the other ones alone.
#pragma once

#include "core/dtype.h"
#include "core/hardware_spec.h"
#include "sim/devices/operations/attention_kernel.h"
#include "sim/devices/operations/gemm_profile.h"
#include "sim/devices/operations/kernel_library.h"

namespace twin::sim {

// Standard deviations of logarithms, so that 90 % intervals hold 90 % of the measurements of a
// device that was left out.
inline constexpr double kUnmeasuredGemmSd = 0.2;
[[nodiscard]] double UnmeasuredContextSd(KernelLibrary library);
[[nodiscard]] double UnmeasuredGenerationSd(KernelLibrary library);

// Cycles per second at which the fp32 peak is reached. An SM is taken to have 128 fp32 lanes, or 64
// if the clock would be below 1 GHz otherwise; 1.9 GHz if the number of SMs is unknown.
[[nodiscard]] double ClockHertz(const HardwareSpec& hardware);

// Large products take the data sheet's gemm_flops_fraction, which power limits decide.
[[nodiscard]] GemmCoefficients GemmCoefficientsOf(const HardwareSpec& hardware);
[[nodiscard]] ContextKernel ContextKernelOf(const HardwareSpec& hardware, DType compute_dtype,
                                            KernelLibrary library = KernelLibrary::kVllm);
[[nodiscard]] GenerationKernel GenerationKernelOf(const HardwareSpec& hardware,
                                                  KernelLibrary library = KernelLibrary::kVllm);

}  // namespace twin::sim
