// Which table stands in for heads and windows that were not measured, and how sure that is.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sim/devices/operations/attention_model.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

constexpr AttentionKind kKinds[] = {AttentionKind::kContext, AttentionKind::kGeneration};
constexpr double kSpread = 0.02;

// Times of `ratio` over the closed form, for 32/8 heads of this size.
void AddTables(AttentionProfile& profile, std::int32_t head_dim, std::int32_t window,
               double ratio) {
  profile.grids = {{.batches = {1, 64}, .lengths = {64, 65536}}};
  for (const AttentionKind kind : kKinds) {
    AttentionTable table;
    table.kind = kind;
    table.head_dim = head_dim;
    table.window = window;
    table.spread = kSpread;
    table.rows = {
        PrintAttentionRow(profile.grids[0], {32, 8, std::vector<double>(4, std::log(ratio))})};
    profile.tables.push_back(table);
  }
}

AttentionModel ModelOf(const AttentionProfile& profile, std::int32_t head_dim,
                       std::int32_t window = 0) {
  HardwareSpec hardware = IdealHardware();
  hardware.memory_bandwidth_bytes_per_s = 1e13;  // what the kernels' 3 TB/s never reach
  hardware.peak_bf16_flops = 2e15;               // tensor cores as wide as FlashAttention 3 needs
  return AttentionModel(hardware,
                        {.query_heads = 32, .kv_heads = 8, .head_dim = head_dim, .window = window},
                        KernelLibrary::kVllm, profile);
}

TimeEstimate Decode(const AttentionModel& model) {
  return model(GenerationAttention{
      .requests = 64, .context_tokens = 64 * 1024, .context_tokens_max = 1024, .cold = false});
}

TimeEstimate Prompt(const AttentionModel& model) {
  return model(ContextAttention{
      .chunks = 1, .tokens = 64, .context_tokens = 64, .pairs = 32 * 65, .context_tokens_max = 64});
}

// Decodes of heads of 256 on the H100 took the times of heads of 512, 3.3 times as long in the
// median, because larger tables were nearer.
TEST(AttentionChoiceTest, HeadsOfFlashAttentionTakeNoTimesOfLargerKernels) {
  AttentionProfile plain;
  AddTables(plain, 128, 0, 1.0);
  AttentionProfile both = plain;
  AddTables(both, 512, 0, 3.0);
  for (const std::int32_t head_dim : {64, 192, 256}) {
    EXPECT_EQ(Decode(ModelOf(both, head_dim)).seconds, Decode(ModelOf(plain, head_dim)).seconds);
    EXPECT_EQ(Prompt(ModelOf(both, head_dim)).seconds, Prompt(ModelOf(plain, head_dim)).seconds);
    // 0.3 for the other head size.
    EXPECT_NEAR(Decode(ModelOf(both, head_dim)).log_sd, std::hypot(kSpread, 0.3), 0.02);
  }
}

TEST(AttentionChoiceTest, LargeHeadsTakeTheTableOfLargeHeads) {
  AttentionProfile profile;
  AddTables(profile, 128, 0, 1.0);
  AddTables(profile, 512, 0, 1.0);
  AttentionProfile slower;
  AddTables(slower, 128, 0, 1.0);
  AddTables(slower, 512, 0, 3.0);
  // Characters of a row stand for steps of up to 10 %.
  for (const std::int32_t head_dim : {320, 512}) {
    EXPECT_NEAR(
        Decode(ModelOf(slower, head_dim)).seconds / Decode(ModelOf(profile, head_dim)).seconds, 3,
        0.15);
  }
}

// Nothing measured is like them: the data sheet's closed form, with an interval of e^(1.645 x
// 0.57), 2.6 times either way.
TEST(AttentionChoiceTest, LatentsAndUnmeasuredLargeHeadsAreUnsure) {
  AttentionProfile profile;
  AddTables(profile, 128, 0, 3.0);
  for (const std::int32_t head_dim : {512, 576}) {
    const TimeEstimate unknown = Decode(ModelOf({}, head_dim));
    EXPECT_EQ(Decode(ModelOf(profile, head_dim)).seconds, unknown.seconds);
    EXPECT_NEAR(Decode(ModelOf(profile, head_dim)).log_sd, std::hypot(0.28, 1), 1e-9);
    EXPECT_NEAR(Prompt(ModelOf(profile, head_dim)).log_sd, std::hypot(0.17, 1), 1e-9);
  }
  EXPECT_NEAR(Decode(ModelOf({}, 128)).log_sd, 0.28, 1e-9);
}

// 0.1 for another window, and 0.025 for each of the octaves.
TEST(AttentionChoiceTest, IntervalsGrowWithTheOctavesBetweenWindows) {
  AttentionProfile profile;
  AddTables(profile, 128, 8192, 1.0);
  const double own = Prompt(ModelOf(profile, 128, 8192)).log_sd;
  EXPECT_NEAR(Prompt(ModelOf(profile, 128, 2048)).log_sd, std::hypot(own, 0.15), 1e-6);
  EXPECT_NEAR(Prompt(ModelOf(profile, 128, 128)).log_sd, std::hypot(own, 0.25), 1e-6);
}

// 0.2 for a window that the table does not have, and 0.06 for decodes.
TEST(AttentionChoiceTest, DecodesWithAWindowAreLessSureThanPrompts) {
  AttentionProfile profile;
  AddTables(profile, 128, 0, 1.0);
  const AttentionModel windowed = ModelOf(profile, 128, 2048);
  EXPECT_NEAR(Prompt(windowed).log_sd, std::hypot(Prompt(ModelOf(profile, 128)).log_sd, 0.2), 1e-6);
  EXPECT_NEAR(Decode(windowed).log_sd, std::hypot(Decode(ModelOf(profile, 128)).log_sd, 0.26),
              1e-6);
}

}  // namespace
}  // namespace twin::sim
