// Tokens drawn at random: as the request alone says, whatever is computed beside it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sched/policy/vllm_v1.h"
#include "tests/unit/exec/generation_case.h"
#include "tests/unit/exec/real_run.h"

namespace twin::exec {
namespace {

using testing::GenerationTest;
using ::testing::SizeIs;
using twin::testing::Asked;
using twin::testing::ListedSource;

std::string Texts(const std::vector<kernels::TokenLogprob>& logprobs) {
  std::string text;
  for (const kernels::TokenLogprob& each : logprobs) {
    text += fmt::format("{}:{} ", each.token, each.logprob);
  }
  return text;
}

// Each prompt its own parameters; the first one stays greedy.
std::vector<Generation> Sampled(std::vector<Generation> generations) {
  for (std::size_t i = 1; i < generations.size(); ++i) {
    generations[i].sampling = {.temperature = 0.5F + 0.25F * static_cast<float>(i),
                               .top_k = i % 2 == 0 ? 20 : 0,
                               .top_p = i % 3 == 0 ? 0.9F : 1.0F,
                               .min_p = i == 5 ? 0.05F : 0.0F,
                               .seed = 100 + i,
                               .logprobs = static_cast<std::int32_t>(i % 3)};
  }
  return generations;
}

// One at a time.
std::vector<Generation> Alone(CpuModel& model, std::vector<Generation> generations) {
  for (Generation& generation : generations) {
    Generate(model, std::span(&generation, 1), {.policy = VllmV1Config{.max_num_seqs = 1}});
  }
  return generations;
}

// Alone and in a batch, in chunks, preempted, from shared blocks, behind drafts.
void ExpectNoCompanyMatters(CpuModel& model, const std::vector<Generation>& asked) {
  const std::vector<Generation> alone = Alone(model, asked);
  VllmV1Config drafts{.max_num_batched_tokens = 16, .max_num_seqs = 4};
  drafts.speculation = {.method = SpecMethod::kNgram, .num_speculative_tokens = 3};
  const GenerationOptions runs[] = {
      {.policy = VllmV1Config{.max_num_batched_tokens = 16, .max_num_seqs = 4}, .block_size = 3},
      {.policy = VllmV1Config{.scheduler_reserve_full_isl = false}, .block_size = 4, .blocks = 24},
      {.policy = VllmV1Config{.enable_prefix_caching = true}, .block_size = 4},
      {.policy = VllmV1Config{.max_num_batched_tokens = 16, .async_scheduling = true}},
      {.policy = drafts, .block_size = 3, .ngram = {.lookup_min = 1, .lookup_max = 2}}};
  for (const GenerationOptions& options : runs) {
    std::vector<Generation> together = asked;
    Generate(model, together, options);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(together[i].output, alone[i].output) << "prompt " << i;
      ASSERT_EQ(together[i].logprobs.size(), alone[i].logprobs.size());
      for (std::size_t t = 0; t < alone[i].logprobs.size(); ++t) {
        EXPECT_EQ(Texts(together[i].logprobs[t]), Texts(alone[i].logprobs[t]));
      }
    }
  }
}

TEST_F(GenerationTest, CompanyChangesNoSampledToken) {
  ExpectNoCompanyMatters(model_, Sampled(Prompts()));
}

// Each prompt masks what it would begin with: the first two tokens of its output, for six tokens.
TEST_F(GenerationTest, MaskedTokensDoNotComeBeforeTheirPositionInAnyCompany) {
  constexpr std::size_t kMasked = 6;
  const std::vector<Generation> free = Alone(model_, Sampled(Prompts()));
  std::vector<Generation> asked = Sampled(Prompts());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    kernels::SamplingParameters& sampling = asked[i].sampling;
    sampling.unmasked_from = asked[i].prompt.size() + kMasked;
    sampling.masked[sampling.masked_count++] = free[i].output[0];
    if (free[i].output[1] != free[i].output[0]) {
      sampling.masked[sampling.masked_count++] = free[i].output[1];
    }
  }
  ExpectNoCompanyMatters(model_, asked);
  bool comes_later = false;
  for (const Generation& generation : Alone(model_, asked)) {
    const auto masked = std::span(generation.sampling.masked)
                            .first(static_cast<std::size_t>(generation.sampling.masked_count));
    const auto is_masked = [&](std::int32_t token) {
      return std::find(masked.begin(), masked.end(), token) != masked.end();
    };
    const auto begin = generation.output.begin();
    EXPECT_TRUE(std::none_of(begin, begin + kMasked, is_masked));
    comes_later |= std::any_of(begin + kMasked, generation.output.end(), is_masked);
  }
  EXPECT_TRUE(comes_later);
}

TEST_F(GenerationTest, SeedsAndTemperaturesMatterToSampledTokensAlone) {
  const Result greedy = RunPlainly();
  std::vector<Generation> sampled = Sampled(Prompts());
  std::vector<Generation> reseeded = Sampled(Prompts());
  for (Generation& generation : reseeded) generation.sampling.seed += 1000;
  Generate(model_, sampled, {});
  Generate(model_, reseeded, {});
  EXPECT_EQ(sampled[0].output, greedy.generations[0].output);
  EXPECT_EQ(reseeded[0].output, greedy.generations[0].output);
  for (std::size_t i = 1; i < sampled.size(); ++i) {
    EXPECT_NE(sampled[i].output, greedy.generations[i].output);
    EXPECT_NE(sampled[i].output, reseeded[i].output);
  }
}

// What was generated as a prompt: the logits behind each token give its successor's probability.
TEST_F(GenerationTest, LogprobsAreThoseOfTheLogits) {
  std::vector<Generation> sampled = Sampled(Prompts());
  Generate(model_, sampled, {});
  std::vector<Generation> again(sampled.size());
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    again[i].prompt = sampled[i].prompt;
    again[i].prompt.insert(again[i].prompt.end(), sampled[i].output.begin(),
                           sampled[i].output.end());
    again[i].tokens_max = 1;
  }
  Generate(model_, again, {.keep = KeptLogits::kAll});
  EXPECT_TRUE(sampled[0].logprobs.empty());  // not asked for
  for (std::size_t i = 1; i < sampled.size(); ++i) {
    const Generation& generation = sampled[i];
    ASSERT_EQ(generation.logprobs.size(), generation.output.size());
    for (std::size_t t = 0; t < generation.output.size(); ++t) {
      const auto& logits = again[i].all_logits[generation.prompt.size() - 1 + t];
      double sum = 0;
      for (const float logit : logits) sum += std::exp(double{logit});
      const auto& told = generation.logprobs[t];
      ASSERT_EQ(told.size(), 1U + i % 3);
      EXPECT_EQ(told[0].token, generation.output[t]);
      for (const kernels::TokenLogprob& each : told) {
        const double logit{logits[static_cast<std::size_t>(each.token)]};
        EXPECT_NEAR(each.logprob, logit - std::log(sum), 1e-5);
      }
      if (told.size() > 1) {
        EXPECT_EQ(told[1].token, kernels::Argmax(logits));
      }
    }
  }
}

constexpr KvPoolConfig kTight{.block_size = 4, .blocks = 26};

// Every request has its own temperature and seed; the listener hears of probabilities.
TEST(SampledRealWorldTest, SamplesAsEachRequestSays) {
  const auto sampling_of = [](RequestId id) {
    return kernels::SamplingParameters{.temperature = 0.5F + 0.5F * static_cast<float>(Index(id)),
                                       .top_p = 0.95F,
                                       .seed = 7 + Index(id),
                                       .logprobs = 2};
  };
  kernels::ThreadPool pool(2);
  CpuModel model = testing::MakeSmallModel(pool);
  CpuExecutor backend(model, {.block_size = kTight.block_size, .blocks = kTight.blocks});
  std::vector<TracedRequest> requests;
  for (const std::int32_t prompt : {40, 13, 1, 22, 9}) {
    requests.push_back(Asked(kTimeZero, prompt, 12));
  }
  ListedSource source(requests);
  testing::RealRun run(source, backend, VllmV1Config{.scheduler_reserve_full_isl = false}, kTight,
                       {.max_model_length = testing::kPositions, .sampling_of = sampling_of});
  run.Serve();
  EXPECT_EQ(run.ReplayDifference(), "");
  RequestTokens tokens(/*seed=*/0, testing::kVocab);
  std::vector<Generation> expected;
  for (const TracedRequest& request : requests) {
    const RequestId id{static_cast<std::uint32_t>(expected.size())};
    expected.push_back({.prompt = tokens.Open(id, request),
                        .tokens_max = request.max_output_tokens,
                        .sampling = sampling_of(id)});
  }
  Generate(model, expected, {.policy = VllmV1Config{.max_num_seqs = 1}});
  for (std::uint32_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(run.outputs[RequestId{i}], expected[i].output) << "request " << i;
    const auto& told = run.told_logprobs[RequestId{i}];
    ASSERT_EQ(told.size(), expected[i].logprobs.size());
    for (std::size_t t = 0; t < told.size(); ++t) {
      ASSERT_THAT(told[t], SizeIs(3));
      EXPECT_EQ(told[t][0].token, expected[i].output[t]);
      EXPECT_EQ(told[t][0].logprob, expected[i].logprobs[t][0].logprob);
    }
  }
}

// Contents from a list.
class ListedContents final : public ContentSource {
 public:
  explicit ListedContents(std::vector<RequestContent> contents) : contents_(std::move(contents)) {}
  RequestContent Take(RequestId id) override { return contents_.at(Index(id)); }

 private:
  std::vector<RequestContent> contents_;
};

// Two tokens end outputs, as end token and as stop token: those that the greedy outputs begin with.
// With a minimum of 5, neither is among the first 5.
TEST(SampledRealWorldTest, NothingEndsAnOutputBeforeItsMinimum) {
  kernels::ThreadPool pool(2);
  CpuModel model = testing::MakeSmallModel(pool);
  constexpr std::int32_t kMinimum = 5;
  std::vector<Generation> greedy(2);
  greedy[0] = {.prompt = {1, 2, 3, 4, 5, 6, 7}, .tokens_max = 30};
  greedy[1] = {.prompt = {9, 8, 7}, .tokens_max = 30};
  Generate(model, greedy, {});
  const std::int32_t end = greedy[0].output[0];
  const std::int32_t stop = greedy[1].output[0];
  for (const std::int32_t minimum : {0, kMinimum}) {
    CpuExecutor backend(model, {.block_size = 4, .blocks = 16});
    std::vector<TracedRequest> requests;
    std::vector<RequestContent> contents;
    for (const Generation& generation : greedy) {
      requests.push_back(Asked(kTimeZero, static_cast<std::int32_t>(generation.prompt.size()), 30));
      contents.push_back(
          {.prompt = generation.prompt, .stop_tokens = {stop, end}, .tokens_min = minimum});
    }
    ListedSource source(requests);
    ListedContents listed(contents);
    testing::RealRun run(source, backend, VllmV1Config{.scheduler_reserve_full_isl = false},
                         {.block_size = 4, .blocks = 16},
                         {.max_model_length = testing::kPositions,
                          .pins_output_lengths = false,
                          .end_tokens = {end, testing::kVocab + 7},
                          .contents = &listed});
    run.Serve();
    EXPECT_EQ(run.ReplayDifference(), "");
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::vector<std::int32_t>& output = run.outputs[RequestId{i}];
      const auto is_end = [&](std::int32_t token) { return token == end || token == stop; };
      if (minimum == 0) {
        EXPECT_THAT(output, SizeIs(1));
        continue;
      }
      ASSERT_GT(output.size(), static_cast<std::size_t>(kMinimum));
      EXPECT_TRUE(std::none_of(output.begin(), output.begin() + kMinimum, is_end));
      EXPECT_TRUE(output.size() == 30 || is_end(output.back()));
    }
  }
}

}  // namespace
}  // namespace twin::exec
