// Closed forms of devices that nobody measured.
#include "sim/devices/operations/unmeasured_device.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/devices/operations/attention_model.h"
#include "sim/devices/operations/gemm_model.h"

namespace twin::sim {
namespace {

// Data sheets of the A100 SXM, the H100 SXM and the L40S.
HardwareSpec A100() {
  return {.name = "a100",
          .memory_bandwidth_bytes_per_s = 2.039e12,
          .sm_count = 108,
          .l2_bytes = 41'943'040,
          .peak_fp32_flops = 19.5e12,
          .peak_bf16_flops = 312e12,
          .gemm_flops_fraction = 0.75};
}
HardwareSpec H100() {
  return {.name = "h100",
          .memory_bandwidth_bytes_per_s = 3.35e12,
          .sm_count = 132,
          .l2_bytes = 52'428'800,
          .peak_fp32_flops = 67e12,
          .peak_bf16_flops = 989e12,
          .gemm_flops_fraction = 0.81};
}
HardwareSpec L40s() {
  return {.name = "l40s",
          .memory_bandwidth_bytes_per_s = 0.864e12,
          .sm_count = 142,
          .l2_bytes = 100'663'296,
          .peak_fp32_flops = 91.6e12,
          .peak_bf16_flops = 362.05e12};
}

TEST(UnmeasuredDeviceTest, TheClockFollowsFromTheFp32Peak) {
  // NVIDIA's white papers: 1,410 MHz with 64 fp32 lanes, 1,980 MHz with 128.
  EXPECT_NEAR(ClockHertz(A100()), 1.410e9, 0.002e9);
  EXPECT_NEAR(ClockHertz(H100()), 1.980e9, 0.005e9);
  EXPECT_GT(ClockHertz({}), 1e9);
}

TEST(UnmeasuredDeviceTest, LaunchesTakeEquallyManyCycles) {
  const double cycles = 1.9828e9 / 1.4106e9;
  EXPECT_NEAR(GenerationKernelOf(A100()).launch / GenerationKernelOf(H100()).launch, cycles, 0.01);
  EXPECT_NEAR(
      ContextKernelOf(A100(), DType::kBf16).launch / ContextKernelOf(H100(), DType::kBf16).launch,
      cycles, 0.01);
  EXPECT_NEAR(GemmCoefficientsOf(A100()).latency_s / GemmCoefficientsOf(H100()).latency_s, cycles,
              0.01);
}

// As the libraries' sources choose: vLLM has FlashAttention 2 on the A100 and 3 on the H100, SGLang
// FlashAttention 3 on both.
TEST(UnmeasuredDeviceTest, FlashAttention3PacksHeads) {
  EXPECT_FALSE(ContextKernelOf(A100(), DType::kBf16).packs_heads);
  EXPECT_TRUE(ContextKernelOf(H100(), DType::kBf16).packs_heads);
  EXPECT_TRUE(ContextKernelOf(A100(), DType::kBf16, KernelLibrary::kSglang).packs_heads);
  EXPECT_FALSE(ContextKernelOf(A100(), DType::kBf16, KernelLibrary::kTrtllm).packs_heads);
  EXPECT_FALSE(ContextKernelOf(H100(), DType::kBf16, KernelLibrary::kTrtllm).packs_heads);
}

// FlashAttention 2 takes 64 rows of keys in pages, of which 80 kB of shared memory fit into an SM
// of the A100 (164 kB) twice, into one of the L40S (100 kB) once.
TEST(UnmeasuredDeviceTest, TilesOfPromptsFollowTheKernel) {
  const ContextKernel a100 = ContextKernelOf(A100(), DType::kBf16);
  const ContextKernel h100 = ContextKernelOf(H100(), DType::kBf16);
  const ContextKernel l40s = ContextKernelOf(L40s(), DType::kBf16);
  EXPECT_EQ(a100.tile_rows, 64);
  EXPECT_EQ(l40s.tile_rows, 64);
  EXPECT_EQ(h100.tile_rows, 128);
  EXPECT_EQ(ContextKernelOf(A100(), DType::kBf16, KernelLibrary::kSglang).tile_rows, 128);
  EXPECT_EQ(a100.slots_per_multiprocessor, 2);
  EXPECT_EQ(l40s.slots_per_multiprocessor, 1);
  EXPECT_EQ(h100.slots_per_multiprocessor, 1);
  // Fixed cycles, and cycles of tensor cores per key, are proportional to the rows.
  EXPECT_NEAR(a100.tile * 1.4106e9 * 2, h100.tile * 1.9828e9, 1e-3 * h100.tile * 1.9828e9);
  const double flops_ratio = (312e12 / 108) / (989e12 / 132);
  EXPECT_NEAR(a100.key * flops_ratio * 2, h100.key, 1e-9);
}

// 32 query and 8 KV heads, vLLM. 90 % of all measurements lie within 1.645 standard deviations, a
// factor of 1.32.
TEST(UnmeasuredDeviceTest, PromptsTakeAboutTheMeasuredTime) {
  const auto microseconds = [](const HardwareSpec& hardware, double tokens) {
    return ContextMicroseconds(ContextKernelOf(hardware, DType::kBf16),
                               {.requests = 1,
                                .tokens = tokens,
                                .context_tokens = tokens,
                                .pairs = tokens * (tokens + 1) / 2,
                                .context_max = tokens,
                                .query_heads = 32,
                                .kv_heads = 8,
                                .head_dim = 128});
  };
  const auto expect_near = [&](const HardwareSpec& hardware, double tokens, double measured) {
    EXPECT_LT(std::abs(std::log(microseconds(hardware, tokens) / measured)),
              1.645 * UnmeasuredContextSd(KernelLibrary::kVllm))
        << hardware.name << ", " << tokens << " tokens";
  };
  expect_near(A100(), 1, 12.5);
  expect_near(H100(), 1, 11.6);
  expect_near(L40s(), 1, 8.7);
  expect_near(A100(), 1024, 96.7);
  expect_near(H100(), 1024, 35.5);
  expect_near(L40s(), 1024, 75.8);
  expect_near(A100(), 8192, 3120);
  expect_near(H100(), 8192, 912.2);
  expect_near(L40s(), 8192, 2992.8);
}

TEST(UnmeasuredDeviceTest, ModelsWithoutProfileUseItWithWideIntervals) {
  const TimeEstimate product = GemmModel(A100())({.m = 64, .n = 4096, .k = 4096});
  EXPECT_EQ(product.seconds,
            GemmClosedForm(A100(), GemmCoefficientsOf(A100()), {.m = 64, .n = 4096, .k = 4096}));
  EXPECT_EQ(product.log_sd, kUnmeasuredGemmSd);
  const AttentionModel attention(A100(), {.query_heads = 32, .kv_heads = 8, .head_dim = 128},
                                 KernelLibrary::kSglang);
  EXPECT_EQ(attention(GenerationAttention{.requests = 4, .context_tokens = 4096}).log_sd,
            UnmeasuredGenerationSd(KernelLibrary::kSglang));
}

// 64 query heads on one KV head, 64 requests of 4,096 tokens: 1,261 us were measured on the H100.
TEST(UnmeasuredDeviceTest, TensorRtLlmsLargeGroupsReadTheirKeysOncePerHead) {
  const AttentionWork work{.requests = 64,
                           .tokens = 64,
                           .context_tokens = 64 * 4096,
                           .pairs = 64 * 4096,
                           .context_max = 4096,
                           .query_heads = 64,
                           .kv_heads = 1,
                           .head_dim = 128,
                           .cold = true};
  const double us =
      GenerationMicroseconds(GenerationKernelOf(H100(), KernelLibrary::kTrtllm), work);
  EXPECT_NEAR(us, 1261, 0.4 * 1261);
  EXPECT_LT(GenerationMicroseconds(GenerationKernelOf(H100(), KernelLibrary::kVllm), work), 200);
}

}  // namespace
}  // namespace twin::sim
