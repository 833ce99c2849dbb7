// No operation of any shipped profile is faster than its device, however far beyond the tables, and
// more tokens take no less time.
#include "sim/devices/operations/physical_limits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>

#include "config/hardware_file.h"
#include "config/profile_folder.h"
#include "sim/devices/operations/attention_model.h"
#include "sim/devices/operations/gemm_model.h"
#include "sim/devices/operations/memory_bound_model.h"
#include "sim/devices/operations/moe_model.h"

namespace twin {
namespace {

using sim::KernelLibrary;

constexpr KernelLibrary kLibraries[] = {KernelLibrary::kVllm, KernelLibrary::kSglang,
                                        KernelLibrary::kTrtllm};
constexpr double kBoost = 1.1;  // clocks above those of the data sheet
constexpr double kRounding = 1 - 1e-9;
// Sizes that are several times larger take at least this share of the time. (Between neighbouring
// measured sizes times do fall: products in 18 % of the steps of m.)
constexpr double kFall = 0.75;
constexpr std::int64_t kLargestMeasuredM = 16'384;

// All numbers here are worked out from the data sheet, without PhysicalLimits.
class ShippedDeviceTest : public ::testing::TestWithParam<std::string> {
 protected:
  ShippedDeviceTest() : sheet_(HardwarePreset(GetParam())), profile_(ProfilePreset(GetParam())) {}

  [[nodiscard]] double SecondsBeyondL2(double bytes) const {
    return std::max(0.0, bytes - static_cast<double>(sheet_.l2_bytes)) /
           sheet_.memory_bandwidth_bytes_per_s;
  }
  [[nodiscard]] double SecondsAtBoost(double flops, bool fp8 = false) const {
    const bool unit = fp8 && sheet_.peak_fp8_flops > 0;
    return flops / (kBoost * (unit ? sheet_.peak_fp8_flops : sheet_.peak_bf16_flops));
  }

  void SweepProducts(KernelLibrary library, bool fp8) const {
    const sim::GemmModel model(sheet_, profile_.gemm, library);
    const double size = fp8 ? 1 : 2;
    const auto format = fp8 ? sim::GemmFormat::kFp8 : sim::GemmFormat::kBf16;
    for (const std::int64_t n : {1, 32, 4096, 262'144}) {
      for (const std::int64_t k : {16, 4096, 262'144}) {
        double before = 0;
        for (const std::int64_t m : {1, 128, 8192, 32'768, 262'144}) {
          SCOPED_TRACE(fmt::format("m {} n {} k {} fp8 {}", m, n, k, fp8));
          const sim::GemmShape shape{.m = m, .n = n, .k = k, .format = format};
          const double seconds = model(shape).seconds;
          const double mn = static_cast<double>(m * n);
          const double weights = size * static_cast<double>(n * k);
          const double bytes = weights + size * static_cast<double>(m * k) + 2 * mn;
          EXPECT_GE(seconds, kRounding * SecondsAtBoost(2 * mn * static_cast<double>(k), fp8));
          EXPECT_GE(seconds, kRounding * SecondsBeyondL2(bytes));
          EXPECT_GE(model.EstimateFromMemory(shape).seconds,
                    kRounding * weights / sheet_.memory_bandwidth_bytes_per_s);
          EXPECT_GE(seconds, kFall * before);
          if (m >= kLargestMeasuredM / 2) before = seconds;
        }
      }
    }
  }

  void SweepPrompts(const sim::AttentionModel& model, const sim::AttentionHeads& heads) const {
    for (const double prompts : {1, 64, 4096}) {
      double before = 0;
      for (const double length : {128, 2048, 16'384, 131'072, 1'048'576}) {
        SCOPED_TRACE(fmt::format("{} prompts of {}", prompts, length));
        const double tokens = prompts * length;
        const double pairs = tokens * (length + 1) / 2;
        const double seconds = model(sim::ContextAttention{.chunks = prompts,
                                                           .tokens = tokens,
                                                           .context_tokens = tokens,
                                                           .pairs = pairs,
                                                           .context_tokens_max = length})
                                   .seconds;
        const double numbers = tokens * heads.head_dim * 2.0 * (heads.query_heads + heads.kv_heads);
        EXPECT_GE(seconds,
                  kRounding * SecondsAtBoost(4 * pairs * heads.query_heads * heads.head_dim));
        EXPECT_GE(seconds, kRounding * SecondsBeyondL2(2 * numbers));
        EXPECT_GE(seconds, kFall * before);
        before = seconds;
      }
    }
  }

  void SweepDecodes(const sim::AttentionModel& model, const sim::AttentionHeads& heads,
                    bool cold) const {
    for (const double requests : {1, 8, 512, 4096}) {
      double before = 0;
      for (const double length : {128, 2048, 131'072, 1'048'576}) {
        SCOPED_TRACE(fmt::format("{} decodes of {}, cold {}", requests, length, cold));
        const double keys = requests * length;
        const double seconds = model(sim::GenerationAttention{.requests = requests,
                                                              .context_tokens = keys,
                                                              .context_tokens_max = length,
                                                              .cold = cold})
                                   .seconds;
        const double bytes = keys * heads.kv_heads * heads.head_dim * 2 * 2;
        const bool beyond = length > 131'072 || requests > 2048;
        EXPECT_GE(seconds,
                  kRounding * SecondsAtBoost(4 * keys * heads.query_heads * heads.head_dim));
        if (cold) {
          EXPECT_GE(seconds, kRounding * bytes / sheet_.memory_bandwidth_bytes_per_s);
        } else if (beyond) {
          EXPECT_GE(seconds, kRounding * SecondsBeyondL2(bytes));
        }
        EXPECT_GE(seconds, kFall * before);
        before = seconds;
      }
    }
  }

  HardwareSpec sheet_;
  sim::DeviceProfile profile_;
};

TEST_P(ShippedDeviceTest, ProductsRespectThePeakAndTheMemory) {
  for (const KernelLibrary library : kLibraries) {
    SweepProducts(library, false);
    SweepProducts(library, true);
  }
}

// The smallest measured n is 32, or 128.
TEST_P(ShippedDeviceTest, ProductsOfFewColumnsTakeNoLongerThanThoseOfMore) {
  using enum sim::GemmFormat;
  for (const KernelLibrary library : kLibraries) {
    const sim::GemmModel model(sheet_, profile_.gemm, library);
    for (const sim::GemmFormat format : {kBf16, kFp8, kFp8Block}) {
      for (const std::int64_t k : {16, 1024, 16'384}) {
        for (const std::int64_t m : {1, 1024, 8192}) {
          const auto seconds = [&](std::int64_t n) {
            return model({.m = m, .n = n, .k = k, .format = format}).seconds;
          };
          for (const std::int64_t n : {1, 8, 24}) {
            EXPECT_LE(seconds(n), seconds(32) / kRounding) << "m " << m << " n " << n << " k " << k;
          }
        }
      }
    }
  }
}

TEST_P(ShippedDeviceTest, AttentionRespectsThePeakAndTheMemory) {
  for (const KernelLibrary library : kLibraries) {
    for (const std::int32_t head_dim : {64, 128, 256}) {
      if (library != KernelLibrary::kVllm && head_dim != 128) continue;
      for (const sim::AttentionHeads& heads :
           {sim::AttentionHeads{.query_heads = 32, .kv_heads = 8, .head_dim = head_dim},
            sim::AttentionHeads{.query_heads = 128, .kv_heads = 1, .head_dim = head_dim}}) {
        SCOPED_TRACE(fmt::format("heads {}/{} of {}, library {}", heads.query_heads, heads.kv_heads,
                                 head_dim, static_cast<int>(library)));
        const sim::AttentionModel model(sheet_, heads, library, profile_.attention);
        SweepPrompts(model, heads);
        SweepDecodes(model, heads, true);
        SweepDecodes(model, heads, false);
      }
    }
  }
}

// A table whose long contexts were measured for few requests says nothing of many: 16 requests of
// 65,536 keys in 8 heads of 64 and one byte each read 1.07 GB.
TEST_P(ShippedDeviceTest, DecodesBeyondTheMeasuredOnesReadWhatTheMemoryAllows) {
  for (const KernelLibrary library : kLibraries) {
    for (const DType cache : {DType::kBf16, DType::kFp8}) {
      const sim::AttentionModel model(
          sheet_, {.query_heads = 32, .kv_heads = 8, .head_dim = 64, .kv_dtype = cache}, library,
          profile_.attention);
      const double length = 65'536;
      const double bytes = 16 * length * 8 * 64 * 2 * static_cast<double>(ByteSize(cache));
      const sim::GenerationAttention decodes{
          .requests = 16, .context_tokens = 16 * length, .cold = false};
      EXPECT_GE(model(decodes).seconds, kRounding * SecondsBeyondL2(bytes));
    }
  }
}

// Mixtral 8x7B: 8 experts of 4096 x 14336, of which 65,536 tokens touch all.
TEST_P(ShippedDeviceTest, ExpertsRespectThePeakAndTheMemory) {
  const sim::MoeModel model(
      sheet_, {.hidden = 4096, .intermediate = 14336, .experts = 8, .experts_per_token = 2},
      profile_.moe);
  const double expert = 3.0 * 4096 * 14336;
  double before = 0;
  for (const std::int64_t tokens : {1, 64, 4096, 65'536, 1'048'576}) {
    const double seconds = model(tokens).seconds;
    EXPECT_GE(seconds, kRounding * SecondsAtBoost(2 * 2 * expert * static_cast<double>(tokens)));
    // At random, 4,096 tokens leave no expert out.
    if (tokens >= 4096) {
      EXPECT_GE(seconds, kRounding * SecondsBeyondL2(8 * 2 * expert));
    }
    EXPECT_GE(seconds, kFall * before);
    before = seconds;
  }
}

// Fitted to activations that were in L2.
TEST_P(ShippedDeviceTest, SmallKernelsRespectTheMemoryBeyondL2) {
  const sim::MemoryBoundModel model(sheet_, profile_.attention.memory_bound);
  for (int kernel = 0; kernel < sim::kMemoryBoundKernels; ++kernel) {
    const double gigabytes = 10e9;
    EXPECT_GE(model(static_cast<sim::MemoryBoundKernel>(kernel), gigabytes).seconds,
              kRounding * SecondsBeyondL2(gigabytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, ShippedDeviceTest,
                         ::testing::Values("a100-80gb-sxm", "h100-sxm", "h200-sxm", "l40s",
                                           "rtx-4090", "rtx-pro-6000-server", "b200"),
                         [](const auto& device) {
                           std::string name = device.param;
                           std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
                           return name;
                         });

// 1 PFLOP/s, 1 TB/s, 50 MB of L2.
HardwareSpec RoundSheet() {
  HardwareSpec sheet;
  sheet.memory_bandwidth_bytes_per_s = 1e12;
  sheet.l2_bytes = 50'000'000;
  sheet.peak_fp32_flops = 1e14;
  sheet.peak_bf16_flops = 1e15;
  return sheet;
}

TEST(PhysicalLimitsTest, ProductsMultiplyAtTheBoostedPeakAndReadWhatExceedsTheCache) {
  const sim::PhysicalLimits limits(RoundSheet());
  // 2 x 11,000^3 flops at 1.1 PFLOP/s; 726 MB take 0.676 ms at most.
  EXPECT_NEAR(limits.Gemm({.m = 11'000, .n = 11'000, .k = 11'000}), 2.42e-3, 1e-9);
  // 200 MB of weights and 0.04 MB of activations, 50 MB of which the cache may hold.
  EXPECT_NEAR(limits.Gemm({.m = 1, .n = 10'000, .k = 10'000}), 150.04e-6, 1e-9);
  EXPECT_NEAR(limits.Gemm({.m = 1, .n = 10'000, .k = 10'000}, true), 200e-6, 1e-9);
}

TEST(PhysicalLimitsTest, DecodesReadEachKeyInTheWindowOnce) {
  const sim::PhysicalLimits limits(RoundSheet());
  // 10 requests of 100,000 keys, 8 heads of 128, 2 + 2 bytes: 4.096 GB.
  sim::AttentionWork work{.requests = 10,
                          .tokens = 10,
                          .context_tokens = 1e6,
                          .pairs = 1e6,
                          .context_max = 1e5,
                          .query_heads = 32,
                          .kv_heads = 8,
                          .head_dim = 128,
                          .cold = true};
  EXPECT_NEAR(limits.Attention(work, DType::kBf16), 4.096e-3, 1e-9);
  work.cold = false;  // 0.16 MB of queries and results more, 50 MB less
  EXPECT_NEAR(limits.Attention(work, DType::kBf16), 4.04616384e-3, 1e-9);
  work.cold = true;
  work.window = 25'000;
  EXPECT_NEAR(limits.Attention(work, DType::kBf16), 1.024e-3, 1e-9);
}

TEST(PhysicalLimitsTest, PromptsMultiplyPairsWithinTheWindow) {
  const sim::PhysicalLimits limits(RoundSheet());
  // 100,000 tokens, 1 head of 110: 4 x 110 flops for each of 5,000,050,000 pairs at 1.1 PFLOP/s.
  sim::AttentionWork work{.requests = 1,
                          .tokens = 1e5,
                          .context_tokens = 1e5,
                          .pairs = 5'000'050'000,
                          .context_max = 1e5,
                          .query_heads = 1,
                          .kv_heads = 1,
                          .head_dim = 110};
  EXPECT_NEAR(limits.Attention(work, DType::kBf16), 2.00002e-3, 1e-9);
  // The first half sees 25,000 keys in the mean, the second half 50,000: 3.75e9 pairs.
  work.window = 50'000;
  EXPECT_NEAR(limits.Attention(work, DType::kBf16), 1.5e-3, 1e-9);
}

TEST(PhysicalLimitsTest, IntervalsGrowByWhatALimitChanges) {
  const sim::TimeEstimate kept = sim::AtLeast({2e-6, 0.1, 0.05}, 1e-6);
  EXPECT_EQ(kept.seconds, 2e-6);
  EXPECT_EQ(kept.log_sd, 0.1);
  // From 1 to 2 us: ln 2 = 0.6931; hypot(0.1, 0.6931) = 0.7003.
  const sim::TimeEstimate raised = sim::AtLeast({1e-6, 0.1, 0.05}, 2e-6);
  EXPECT_EQ(raised.seconds, 2e-6);
  EXPECT_NEAR(raised.log_sd, 0.7003, 1e-4);
  EXPECT_NEAR(raised.lasting_sd, 0.6949, 1e-4);
}

}  // namespace
}  // namespace twin
