// Closed forms of devices that nobody measured.
#include "sim/cost/operations/unmeasured_device.h"

#include <gtest/gtest.h>

#include "sim/cost/operations/attention_model.h"
#include "sim/cost/operations/gemm_model.h"

namespace twin::sim {
namespace {

// Data sheets of the A100 SXM and the H100 SXM.
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

TEST(UnmeasuredDeviceTest, OnlyVllmOnWideTensorCoresPacksHeads) {
  EXPECT_FALSE(ContextKernelOf(A100(), DType::kBf16).packs_heads);
  EXPECT_TRUE(ContextKernelOf(H100(), DType::kBf16).packs_heads);
  EXPECT_TRUE(ContextKernelOf(A100(), DType::kBf16, KernelLibrary::kSglang).packs_heads);
}

TEST(UnmeasuredDeviceTest, ModelsWithoutProfileUseItWithWideIntervals) {
  const Estimate product = GemmModel(A100())({.m = 64, .n = 4096, .k = 4096});
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
