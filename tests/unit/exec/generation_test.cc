// The engine's decisions carried out by a model: whatever the policy, its chunks, preemptions,
// swaps and shared blocks, the same tokens and bits of logits come out.
#include "exec/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/input_error.h"
#include "exec/cpu/cpu_model.h"
#include "sched/policy/registry.h"
#include "tests/support/relative_distance.h"
#include "tests/unit/exec/generation_case.h"

namespace twin::exec {
namespace {

using testing::GenerationTest;
using ::testing::HasSubstr;

TEST_F(GenerationTest, FillsEveryOutputToItsLimit) {
  const Result result = RunPlainly();
  for (std::size_t i = 0; i < result.generations.size(); ++i) {
    EXPECT_EQ(result.generations[i].output.size(), 12 + i);
    EXPECT_EQ(result.generations[i].last_logits.size(), 29U);
  }
  EXPECT_EQ(result.counts.steps, 7 * 12 + 21);  // a step a token, one request at a time
}

TEST_F(GenerationTest, ChunksAndCompanyChangeNoBit) {
  const Result plain = RunPlainly();
  for (const std::int32_t budget : {7, 16, 33}) {
    const Result chunked = Run({.policy = VllmV1Config{.max_num_batched_tokens = budget,
                                                       .max_num_seqs = std::min(budget, 5)},
                                .keep = KeptLogits::kLast,
                                .block_size = 3});
    ExpectEqual(chunked, plain);
    EXPECT_LT(chunked.counts.steps, plain.counts.steps);
  }
}

TEST_F(GenerationTest, CompanyChangesNoBitOfAMixtureInAnyFormat) {
  for (const char* const text : {testing::kMixtureConfig, testing::kMixtralConfig}) {
    for (const DType format : {DType::kFp32, DType::kBf16, DType::kInt8}) {
      CpuModel model = MakeModel(pool_, format, text);
      const Result plain =
          Run(model, {.policy = VllmV1Config{.max_num_seqs = 1}, .keep = KeptLogits::kLast});
      for (const std::int32_t budget : {7, 33}) {
        const Result chunked =
            Run(model, {.policy = VllmV1Config{.max_num_batched_tokens = budget, .max_num_seqs = 5},
                        .keep = KeptLogits::kLast,
                        .block_size = 3});
        ExpectEqual(chunked, plain);
        EXPECT_LT(chunked.counts.steps, plain.counts.steps);
      }
    }
  }
}

TEST_F(GenerationTest, EveryPolicyGivesTheSameTokens) {
  const Result plain = RunPlainly();
  const PolicyConfig policies[] = {
      StaticConfig{},
      OrcaConfig{.max_bs = 3},
      VllmV0Config{},
      VllmV0Config{.max_num_batched_tokens = 16, .max_num_seqs = 4, .enable_chunked_prefill = true},
      SarathiConfig{.chunk_size = 10},
      SplitFuseConfig{},
      VllmV1Config{.release = VllmV1Release::k0_15_1}};
  for (const PolicyConfig& policy : policies) {
    SCOPED_TRACE(TraitsOf(policy).name);
    ExpectEqual(Run({.policy = policy, .keep = KeptLogits::kLast}), plain);
  }
}

TEST_F(GenerationTest, PreemptedRequestsRecomputeTheirTokens) {
  const Result plain = RunPlainly();
  const Result tight = Run({.policy = VllmV1Config{.scheduler_reserve_full_isl = false},
                            .keep = KeptLogits::kLast,
                            .block_size = 4,
                            .blocks = 24});
  EXPECT_GT(tight.counts.preemptions, 0);
  ExpectEqual(tight, plain);
}

TEST_F(GenerationTest, SwappedBlocksComeBackAsTheyWere) {
  const Result plain = RunPlainly();
  const Result swapped =
      Run({.policy = VllmV0Config{.preemption_mode = VllmV0Config::PreemptionMode::kSwap},
           .keep = KeptLogits::kLast,
           .block_size = 4,
           .blocks = 24,
           .host_blocks = 64});
  EXPECT_GT(swapped.counts.swapped_blocks, 0);
  ExpectEqual(swapped, plain);
}

TEST_F(GenerationTest, SharedPrefixesAreNotComputedAgain) {
  const Result plain = RunPlainly();
  for (const std::int32_t blocks : {0, 24}) {
    const Result shared = Run({.policy = VllmV1Config{.max_num_batched_tokens = 16,
                                                      .max_num_seqs = 4,
                                                      .enable_prefix_caching = true},
                               .keep = KeptLogits::kLast,
                               .block_size = 4,
                               .blocks = blocks});
    EXPECT_GE(shared.counts.cached_tokens, 3 * 16);  // of the three that begin like the first
    ExpectEqual(shared, plain);
  }
}

TEST_F(GenerationTest, StepsInFlightSeeTheTokensOfEarlierOnes) {
  const Result plain = RunPlainly();
  for (const VllmV1Release release : {VllmV1Release::k0_15_1, VllmV1Release::k0_33_0}) {
    for (const std::int32_t blocks : {0, 24}) {
      SCOPED_TRACE(blocks);
      ExpectEqual(Run({.policy = VllmV1Config{.release = release,
                                              .max_num_batched_tokens = 16,
                                              .max_num_seqs = 4,
                                              .async_scheduling = true,
                                              .scheduler_reserve_full_isl = false},
                       .keep = KeptLogits::kLast,
                       .block_size = 4,
                       .blocks = blocks}),
                  plain);
    }
  }
}

TEST_F(GenerationTest, NumberOfThreadsChangesNoBit) {
  kernels::ThreadPool three(3);
  CpuModel model = MakeModel(three);
  Result result{{}, Prompts()};
  result.counts = Generate(model, result.generations,
                           {.policy = VllmV1Config{.max_num_seqs = 1}, .keep = KeptLogits::kLast});
  ExpectEqual(result, RunPlainly());
}

TEST_F(GenerationTest, LogitsOfAllTokensEndWithThoseOfTheLast) {
  const Result result = Run({.policy = VllmV1Config{.max_num_batched_tokens = 9, .max_num_seqs = 2},
                             .keep = KeptLogits::kAll});
  for (const Generation& generation : result.generations) {
    ASSERT_EQ(generation.all_logits.size(), generation.prompt.size());
    EXPECT_EQ(generation.all_logits.back(), generation.last_logits);
    for (const auto& row : generation.all_logits) EXPECT_EQ(row.size(), 29U);
  }
}

TEST_F(GenerationTest, StopsBehindAnEndToken) {
  // Token 3 ends a sequence by the config; outputs in which it does not come stay whole.
  const Result whole = RunPlainly();
  for (const bool asynchronous : {false, true}) {
    const Result stopped =
        Run({.policy = VllmV1Config{.max_num_seqs = 3, .async_scheduling = asynchronous},
             .stops_at_end_tokens = true});
    std::int32_t stops = 0;
    for (std::size_t i = 0; i < whole.generations.size(); ++i) {
      std::vector<std::int32_t> expected = whole.generations[i].output;
      const auto end = std::find(expected.begin(), expected.end(), 3);
      if (end != expected.end()) {
        ++stops;
        expected.erase(end + 1, expected.end());
      }
      EXPECT_EQ(stopped.generations[i].output, expected);
    }
    EXPECT_GT(stops, 0);
  }
}

TEST_F(GenerationTest, RefusesWhatThePolicyCannotServe) {
  const auto refusal = [&](const GenerationOptions& options) -> std::string {
    try {
      Run(options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal({.policy = VllmV1Config{.max_num_seqs = 1, .max_model_len = 30}}),
              HasSubstr("prompt number 0: 52 tokens with its output; the policy allows 30"));
  EXPECT_THAT(
      refusal({.policy = VllmV1Config{.enable_prefix_caching = true}, .keep = KeptLogits::kAll}),
      HasSubstr("without prefix caching"));
}

TEST(QuantisedGenerationTest, Int8WeightsStayCloseToFp32) {
  kernels::ThreadPool pool(2);
  const ModelConfig config = ParseModelConfig(testing::kLlamaConfig, "config.json");
  const testing::ModelFolder folder("int8");
  folder.WriteWeights(testing::RandomTensors(config, "model."));
  std::vector<std::vector<float>> logits;
  for (const DType format : {DType::kFp32, DType::kInt8}) {
    CpuModel model(config, LoadWeights(folder.path(), config, format, pool).weights, 64, pool);
    std::vector<Generation> generations = {{.prompt = {1, 2, 3, 4, 5}, .tokens_max = 1}};
    Generate(model, generations, {.keep = KeptLogits::kLast});
    logits.push_back(generations[0].last_logits);
  }
  const double distance = twin::testing::RelativeDistance(logits[1], logits[0]);
  EXPECT_GT(distance, 0);
  // Rounding to 1/254 of the largest of 32 weights, some ten matrices deep.
  EXPECT_LT(distance, 0.05);
}

// Prompts of one token are padded, drafts are cut off by the budget and by the context, and most of
// those of a random model are wrong.
TEST_F(GenerationTest, DraftsChangeNoBit) {
  const Result plain = RunPlainly();
  for (const std::int32_t drafts : {1, 3, 5}) {
    VllmV1Config policy{.max_num_batched_tokens = 16, .max_num_seqs = 4};
    const Result one_by_one = Run({.policy = policy, .keep = KeptLogits::kLast});
    policy.speculation = {.method = SpecMethod::kNgram, .num_speculative_tokens = drafts};
    const Result drafted = Run({.policy = policy,
                                .keep = KeptLogits::kLast,
                                .block_size = 3,
                                .ngram = {.lookup_min = 1, .lookup_max = 3}});
    ExpectEqual(drafted, plain);
    EXPECT_LT(drafted.counts.steps, one_by_one.counts.steps);
  }
}

TEST_F(GenerationTest, DraftsOfSharedAndPreemptedRequestsChangeNoBit) {
  const Result plain = RunPlainly();
  VllmV1Config policy{.enable_prefix_caching = true, .scheduler_reserve_full_isl = false};
  policy.speculation = {.method = SpecMethod::kNgram, .num_speculative_tokens = 4};
  const Result tight = Run({.policy = policy,
                            .keep = KeptLogits::kLast,
                            .block_size = 4,
                            .blocks = 24,
                            .ngram = {.lookup_min = 1, .lookup_max = 2}});
  EXPECT_GT(tight.counts.preemptions, 0);
  EXPECT_GT(tight.counts.cached_tokens, 0);
  ExpectEqual(tight, plain);
}

// Blocks for the largest request and little more, so that lookahead slots preempt.
TEST_F(GenerationTest, DraftsOfOtherPoliciesChangeNoBit) {
  const Result plain = RunPlainly();
  using Capacity = TrtllmConfig::Capacity;
  const PolicyConfig policies[] = {
      VllmV0Config{},
      VllmV0Config{.max_num_batched_tokens = 16, .max_num_seqs = 4, .enable_chunked_prefill = true},
      TrtllmConfig{}, TrtllmConfig{.capacity_scheduler_policy = Capacity::kMaxUtilization}};
  for (PolicyConfig policy : policies) {
    SCOPED_TRACE(TraitsOf(policy).name);
    const Result one_by_one =
        Run({.policy = policy, .keep = KeptLogits::kLast, .block_size = 4, .blocks = 24});
    ASSERT_TRUE(
        SetSpeculation(policy, {.method = SpecMethod::kNgram, .num_speculative_tokens = 3}));
    const Result drafted = Run({.policy = policy,
                                .keep = KeptLogits::kLast,
                                .block_size = 4,
                                .blocks = 24,
                                .ngram = {.lookup_min = 1, .lookup_max = 3}});
    ExpectEqual(one_by_one, plain);
    ExpectEqual(drafted, plain);
  }
}

// The model drafts for itself, so that every draft is accepted: outputs of n = 12, ..., 18 tokens
// take 1 + ceil((n - 1) / 4) steps each, one request at a time: 4 + 4 + 5 + 5 + 5 + 5 + 6.
TEST_F(GenerationTest, DraftsOfTheModelItselfAreAllAccepted) {
  const Result plain = RunPlainly();
  CpuModel draft = MakeModel(pool_);
  VllmV1Config policy{.max_num_seqs = 1};
  policy.speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = 3};
  const Result drafted = Run({.policy = policy, .keep = KeptLogits::kLast, .draft_model = &draft});
  ExpectEqual(drafted, plain);
  EXPECT_EQ(drafted.counts.steps, 34);
  VllmV0Config v0{.max_num_seqs = 1};
  v0.speculation = policy.speculation;
  const Result by_v0 = Run({.policy = v0, .keep = KeptLogits::kLast, .draft_model = &draft});
  ExpectEqual(by_v0, plain);
  // V0 takes the slots of drafts with the step that verifies them: some drafts end with the block.
  EXPECT_GE(by_v0.counts.steps, 34);
  EXPECT_LT(by_v0.counts.steps, plain.counts.steps / 2);
}

// A draft model in another format mostly agrees. Requests share blocks and lose them.
TEST_F(GenerationTest, DraftsOfAnotherModelChangeNoBit) {
  const Result plain = RunPlainly();
  CpuModel draft = MakeModel(pool_, DType::kBf16);
  for (const std::int32_t drafts : {1, 4}) {
    VllmV1Config policy{.max_num_batched_tokens = 16,
                        .max_num_seqs = 4,
                        .enable_prefix_caching = true,
                        .scheduler_reserve_full_isl = false};
    const Result one_by_one =
        Run({.policy = policy, .keep = KeptLogits::kLast, .block_size = 4, .blocks = 18});
    policy.speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = drafts};
    const Result drafted = Run({.policy = policy,
                                .keep = KeptLogits::kLast,
                                .block_size = 4,
                                .blocks = 18,
                                .draft_model = &draft});
    ExpectEqual(drafted, plain);
    EXPECT_GT(drafted.counts.preemptions, 0);
    EXPECT_GT(drafted.counts.cached_tokens, 0);
    EXPECT_LT(drafted.counts.steps, one_by_one.counts.steps);
  }
}

}  // namespace
}  // namespace twin::exec
