// Groups of layers as the grouping of vLLM 0.33.0 makes them; numbers by its own classes, for bf16.
#include "sim/devices/kv_grouping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "config/models/model_names.h"
#include "core/input_error.h"

namespace twin::sim {
namespace {

KvGrouping Grouping(const char* model, std::int32_t tensor = 1,
                    const KvGroupingConfig& config = {}) {
  return GroupAsVllm(ModelPreset(model), {.tensor = tensor}, 0, config);
}

// Layers and block size of each group, as "F12/16": F all tokens, W window, C chunk, S state.
std::string TextOf(const KvGrouping& grouping) {
  std::string text;
  for (const KvGroup& group : grouping.groups.groups) {
    if (!text.empty()) text += ' ';
    text += "FWCS"[static_cast<int>(group.kind)];
    text += std::to_string(group.layers) + '/' + std::to_string(group.block_size);
  }
  return text;
}

struct Worked {
  const char* model;
  std::int32_t tensor;
  std::int64_t block_bytes;
  const char* groups;
  std::int32_t block_size = 16;  // that is asked for
};
constexpr Worked kWorked[] = {
    {"gpt-oss-120b", 1, 589'824, "W18/16 F18/16"},
    {"gpt-oss-20b", 1, 393'216, "W12/16 F12/16"},
    {"gemma-3-27b", 1, 1'310'720, "W9/16 W9/16 W9/16 W9/16 W8/16 W8/16 F10/16"},
    {"mistral-7b-v0.1", 1, 2'097'152, "W32/16"},
    {"command-a-111b", 8, 131'072, "W16/16 W16/16 W16/16 F16/16"},
    {"llama-4-scout", 8, 98'304, "C12/16 C12/16 C12/16 F12/16"},
    {"mimo-v2-flash", 4, 184'320, "F9/32 W8/16 W8/16 W8/16 W8/16 W7/16"},
    {"gemma-4-31b", 1, 2'621'440, "W10/16 W10/16 W10/16 W10/16 W10/16 F10/32"},
    {"step-3.7-flash", 8, 98'304, "F12/16 W11/16 W11/16 W11/16"},
    {"deepseek-v3", 1, 4'497'408, "F61/64", 64},
    {"deepseek-v3.2", 1, 5'012'736, "F61/64", 64},
    {"qwen3.5-397b-a17b", 1, 15 * 4'292'608LL, "S15/2096 S15/2096 S15/2096 F15/2096"},
    {"qwen3.5-397b-a17b", 2, 15 * 2'146'304LL, "S15/2096 S15/2096 S15/2096 F15/2096"},
    {"qwen3.5-397b-a17b", 4, 15 * 1'081'344LL, "S15/1056 S15/1056 S15/1056 F15/1056"},
    {"qwen3.5-397b-a17b", 8, 8'110'080, "S15/528 S15/528 S15/528 F15/528"},
    {"qwen3-next-80b-a3b", 1, 13'369'344, "S12/544 S12/544 S12/544 F12/544"},
    {"nemotron-3-nano-30b-a3b", 1, 12'877'824, "S6/2096 S6/2096 S6/2096 S5/2096 F6/2096"},
    {"kimi-linear-48b-a3b", 1, 15'482'880, "S7/1920 S7/1920 S6/1920 F7/1920"},
    {"llama-3.1-8b", 1, 16 * 131'072LL, "F32/16"},
};

TEST(KvGroupingTest, GroupsAreThoseOfTheOriginal) {
  for (const Worked& worked : kWorked) {
    const KvGrouping grouping =
        Grouping(worked.model, worked.tensor, {.block_size = worked.block_size});
    EXPECT_EQ(grouping.block_bytes, worked.block_bytes) << worked.model;
    EXPECT_EQ(TextOf(grouping), worked.groups) << worked.model;
  }
}

// A cache in fp8 halves a page of attention: as long a state fills twice as many of its tokens.
TEST(KvGroupingTest, AnFp8CacheHalvesPagesAndDoublesTheBlockBesideStates) {
  ModelSpec model = ModelPreset("qwen3.5-397b-a17b");
  model.kv_dtype = DType::kFp8;
  const KvGrouping grouping = GroupAsVllm(model, {.tensor = 8}, 0, {});
  EXPECT_EQ(TextOf(grouping), "S15/1056 S15/1056 S15/1056 F15/1056");
  ModelSpec gemma = ModelPreset("gemma-3-27b");
  gemma.kv_dtype = DType::kFp8;
  EXPECT_EQ(GroupAsVllm(gemma, {}, 0, {}).block_bytes, 655'360);
}

TEST(KvGroupingTest, CommonBlocksAreMultipleAndDivisorOfTheGroups) {
  const KvGroups groups = Grouping("mimo-v2-flash", 4).groups;
  EXPECT_EQ(groups.scheduler_block, 32);
  EXPECT_EQ(groups.hash_block, 16);
  EXPECT_EQ(groups.groups[1].span, 128);
}

// Without prefix caching a state lives in one block of the longest request: 32,768 tokens, of which
// 528 divide none but 16: the common multiple is 33 x 32,768.
TEST(KvGroupingTest, WithoutPrefixCachingAStateHasOneBlock) {
  const KvGroups groups =
      Grouping("qwen3.5-397b-a17b", 8, {.prefix_caching = false, .max_model_length = 32'768})
          .groups;
  EXPECT_EQ(groups.groups.front().states, StateBlocks::kOne);
  EXPECT_EQ(groups.groups.front().block_size, 32'768);
  EXPECT_EQ(groups.groups.back().block_size, 528);
  EXPECT_EQ(groups.scheduler_block, 33 * 32'768);
  EXPECT_EQ(groups.hash_block, groups.scheduler_block);
}

TEST(KvGroupingTest, WithoutTheHybridManagerWindowsAreKeptLikeAllTokens) {
  const KvGrouping grouping = Grouping("gpt-oss-120b", 1, {.hybrid = false});
  EXPECT_EQ(TextOf(grouping), "F36/16");
  EXPECT_EQ(grouping.block_bytes, 2 * 589'824);
  EXPECT_THROW(Grouping("qwen3.5-397b-a17b", 8, {.hybrid = false}), InputError);
}

// 36 layers on two stages: 18 of each, 9 with the window and 9 without.
TEST(KvGroupingTest, AStageHoldsItsLayersOfEachGroup) {
  const KvGrouping grouping = GroupAsVllm(ModelPreset("gpt-oss-120b"), {.pipeline = 2}, 1, {});
  EXPECT_EQ(TextOf(grouping), "W18/16 F18/16");
  EXPECT_EQ(grouping.block_bytes, 589'824 / 2);
}

}  // namespace
}  // namespace twin::sim
