// What a simulated world knows and the engine does not: output lengths, and the names of content.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "core/input_error.h"
#include "core/prefix_keys.h"
#include "sched/policy/registry.h"
#include "sim/cost/constant_cost.h"
#include "sim/cost/linear_cost.h"
#include "sim/world/sim_world.h"
#include "tests/support/scripted_run.h"
#include "tests/support/simulated_run.h"

namespace twin::sim {
namespace {

using std::chrono::milliseconds;
using testing::Asked;
using testing::At;
using testing::Decode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::ListedSource;
using testing::Prefill;
using testing::R;
using testing::SimulatedRun;

TracedRequest Limited(std::int32_t prompt, std::int32_t output, std::int32_t limit) {
  TracedRequest request = Asked(kTimeZero, prompt, output);
  request.max_output_tokens = limit;
  return request;
}

TracedRequest Named(std::int32_t prompt, std::int32_t output, std::vector<std::uint64_t> chunks,
                    std::int32_t chunk_tokens = 4) {
  TracedRequest request = Asked(kTimeZero, prompt, output);
  request.prefix_chunks = std::move(chunks);
  request.prefix_chunk_tokens = chunk_tokens;
  return request;
}

// A world whose steps a test plans by hand, one at a time.
class TruthTest : public ::testing::Test {
 protected:
  void Start(std::vector<TracedRequest> requests, const SimWorldOptions& options) {
    source_ = std::make_unique<ListedSource>(std::move(requests));
    world_ = std::make_unique<SimWorld>(*source_, cost_, options);
    Tell();
  }

  void Run(std::vector<WorkItem> work) {
    plan_.Clear();
    plan_.id = StepId{++steps_};
    plan_.work = std::move(work);
    world_->Launch(plan_);
    Tell();
  }

  // Prefills request 0, then decodes until it ends; the number of its tokens and why it ended.
  std::pair<std::int32_t, FinishReason> Serve(std::int32_t prompt) {
    Run({Prefill(R(0), 0, prompt)});
    std::int32_t tokens = 1;
    while (finished_.outcomes.empty()) {
      Run({Decode(R(0), prompt + tokens - 1)});
      ++tokens;
      CHECK(tokens < 1000);
    }
    EXPECT_THAT(source_->answers, ElementsAre(tokens));
    return {tokens, finished_.outcomes[0].finish};
  }

  std::vector<Request> arrived_;
  StepFinished finished_;  // the latest

 private:
  void Tell() {
    for (const Event& event : world_->Advance(kTimeNever).events) {
      if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
        arrived_.push_back(arrived->request);
      } else {
        finished_ = std::get<StepFinished>(event);
      }
    }
  }

  ConstantCost cost_{{}, 1};
  std::unique_ptr<ListedSource> source_;
  std::unique_ptr<SimWorld> world_;
  StepPlan plan_;
  std::uint64_t steps_ = 0;
};

TEST_F(TruthTest, AnOutputBelowTheLimitStops) {
  Start({Limited(5, 3, 8)}, {});
  EXPECT_EQ(arrived_[0].max_output_tokens, 8);
  EXPECT_EQ(Serve(5), std::pair(3, FinishReason::kStop));
}

TEST_F(TruthTest, AnOutputAsLongAsItsLimitEndsByLength) {
  Start({Limited(5, 8, 8)}, {});
  EXPECT_EQ(Serve(5), std::pair(8, FinishReason::kLength));
}

// 16 - 10 tokens of room.
TEST_F(TruthTest, AnOutputEndsWhereTheModelEnds) {
  Start({Limited(10, 20, 30)}, {.max_model_length = 16});
  EXPECT_EQ(Serve(10), std::pair(6, FinishReason::kLength));
}

TEST_F(TruthTest, ALimitBeyondTheModelIsToldAsTheClientSentIt) {
  Start({Limited(10, 4, 30)}, {.max_model_length = 16});
  EXPECT_EQ(arrived_[0].max_output_tokens, 30);
  EXPECT_EQ(Serve(10), std::pair(4, FinishReason::kStop));
}

// The token that the prompt's own step brings is given, as by vLLM V0; nothing comes behind it.
TEST_F(TruthTest, APromptThatFillsTheModelGetsOneToken) {
  Start({Limited(16, 20, 30)}, {.max_model_length = 16});
  EXPECT_EQ(arrived_[0].prompt_tokens, 16);
  EXPECT_EQ(Serve(16), std::pair(1, FinishReason::kLength));
}

TEST_F(TruthTest, TheEngineIsToldNothingOfTheOutput) {
  TracedRequest request = Limited(5, 3, 8);
  request.priority = -2;
  request.tenant = 7;
  request.predicted_output_tokens = 4;
  Start({request}, {});
  EXPECT_EQ(arrived_[0].predicted_output_tokens, 4);
  EXPECT_EQ(arrived_[0].priority, -2);
  EXPECT_EQ(arrived_[0].tenant, 7u);
  EXPECT_THAT(arrived_[0].prefix_keys, IsEmpty());
}

// Requests share the first chunk only; the third brings no names.
TEST_F(TruthTest, PromptsBringTheKeysOfTheirFullBlocks) {
  Start({Named(10, 4, {11, 12}), Named(9, 4, {11, 22}), Asked(kTimeZero, 8, 4)},
        {.named_block_size = 4});
  ASSERT_EQ(arrived_.size(), 3u);
  for (const Request& request : arrived_) EXPECT_EQ(request.prefix_keys.size(), 2u);
  EXPECT_EQ(arrived_[0].prefix_keys[0], arrived_[1].prefix_keys[0]);
  EXPECT_NE(arrived_[0].prefix_keys[1], arrived_[1].prefix_keys[1]);
  EXPECT_NE(arrived_[0].prefix_keys[0], arrived_[2].prefix_keys[0]);
}

TEST_F(TruthTest, ContentHasNoNamesUnlessAskedFor) {
  Start({Named(10, 4, {11, 12})}, {});
  EXPECT_THAT(arrived_[0].prefix_keys, IsEmpty());
}

TEST_F(TruthTest, KeysOfManyArrivalsLiveThroughTheirInstant) {
  std::vector<TracedRequest> requests;
  for (std::uint64_t i = 0; i < 50; ++i) requests.push_back(Named(8, 1, {i + 1, i + 101}));
  Start(requests, {.named_block_size = 4});
  ASSERT_EQ(arrived_.size(), 50u);
  for (std::uint32_t i = 0; i < 50; ++i) {
    const NamedContent content = NamedContent::Of(requests[i].prefix_chunks, 4, 8, 1);
    EXPECT_THAT(arrived_[i].prefix_keys,
                ElementsAre(KeyOfBlock(content, R(i), 0, 4), KeyOfBlock(content, R(i), 1, 4)));
  }
}

// Prompt 6 and output 6 in blocks of 4: block 1 is full with the second token, block 2 with the
// sixth. The chunks name prompt and output alike.
TEST_F(TruthTest, GeneratedTokensNameTheBlocksThatTheyFill) {
  const std::vector<std::uint64_t> chunks{11, 12, 13};
  Start({Named(6, 7, chunks)}, {.named_block_size = 4});
  const NamedContent content = NamedContent::Of(chunks, 4, 6, 7);
  Run({Prefill(R(0), 0, 6)});
  std::vector<std::pair<int, BlockFilled>> filled;
  for (int token = 2; token <= 6; ++token) {
    Run({Decode(R(0), 4 + token)});
    for (const BlockFilled& block : finished_.filled) filled.emplace_back(token, block);
  }
  EXPECT_THAT(filled,
              ElementsAre(std::pair(2, BlockFilled{R(0), KeyOfBlock(content, R(0), 1, 4)}),
                          std::pair(6, BlockFilled{R(0), KeyOfBlock(content, R(0), 2, 4)})));
}

// A step whose token is nobody's any more: planned before the end was known.
TEST_F(TruthTest, TokensBehindTheEndAreDropped) {
  Start({Limited(5, 1, 8)}, {});
  EXPECT_EQ(Serve(5), std::pair(1, FinishReason::kStop));
  Run({Decode(R(0), 5)});
  EXPECT_THAT(finished_.outcomes, IsEmpty());
}

VllmV1Config CachingPrefixes(std::int32_t max_model_len) {
  VllmV1Config config;
  config.max_num_batched_tokens = 64;
  config.max_num_seqs = 4;
  config.max_model_len = max_model_len;
  config.enable_prefix_caching = true;
  return config;
}

TEST(SimWorldServingTest, PromptsTooLongForTheModelAreRejected) {
  ListedSource source({Limited(16, 20, 30), Limited(15, 20, 30)});
  const ConstantCost cost({}, 1);
  const SimulatedRun run(source, cost, CachingPrefixes(16), {.block_size = 4, .blocks = 100},
                         {.max_model_length = 16});
  EXPECT_EQ(run.Life(0).status, RequestStatus::kRejected);
  EXPECT_EQ(run.Life(1).status, RequestStatus::kCompleted);
  EXPECT_EQ(run.Life(1).output_tokens, 1);
}

// Three requests with a prompt of 10 tokens in a context of 16: 6 output tokens fit.
TEST(SimWorldServingTest, AnOutputThatTheContextEndsIsCut) {
  ListedSource source({Limited(10, 20, 30), Limited(10, 6, 6), Limited(10, 4, 30)});
  const ConstantCost cost({}, 1);
  const SimulatedRun run(source, cost, CachingPrefixes(16), {.block_size = 4, .blocks = 100},
                         {.max_model_length = 16});
  EXPECT_EQ(run.Life(0).output_tokens, 6);
  EXPECT_EQ(run.Life(0).max_output_tokens, 30);
  EXPECT_TRUE(run.Life(0).output_cut);
  EXPECT_FALSE(run.Life(1).output_cut);
  EXPECT_FALSE(run.Life(2).output_cut);
}

// Text Generation Inference and SGLang refuse prompt + limit beyond the context, whatever the
// output would be.
TEST(SimWorldServingTest, ServersThatCheckTheLimitRefuseIt) {
  TgiV3Config tgi;
  tgi.max_total_tokens = 16;
  SglangConfig sglang;
  sglang.context_length = 16;
  for (const PolicyConfig& policy : {PolicyConfig(tgi), PolicyConfig(sglang)}) {
    ListedSource source({Limited(10, 4, 7), Limited(10, 4, 6)});
    const ConstantCost cost({}, 1);
    const SimulatedRun run(source, cost, policy, {.block_size = 4, .blocks = 100},
                           {.max_model_length = 16});
    EXPECT_EQ(run.Life(0).status, RequestStatus::kRejected);
    EXPECT_EQ(run.Life(1).status, RequestStatus::kCompleted);
  }
}

// A limit far beyond the context takes no more memory than the context: 4 blocks of 4 suffice.
TEST(SimWorldServingTest, PoliciesThatReserveTheLimitReserveNoMoreThanTheContext) {
  OrcaConfig orca;
  orca.max_model_len = 16;
  TrtllmConfig trtllm;
  trtllm.max_seq_len = 16;
  FastServeConfig fastserve;
  fastserve.max_model_len = 16;
  fastserve.proactive_offloading = false;
  for (const PolicyConfig& policy :
       {PolicyConfig(orca), PolicyConfig(trtllm), PolicyConfig(fastserve)}) {
    ListedSource source({Limited(10, 20, 1000)});
    const ConstantCost cost({}, 1);
    const SimulatedRun run(source, cost, policy, {.block_size = 4, .blocks = 4},
                           {.max_model_length = 16});
    EXPECT_EQ(run.Life(0).status, RequestStatus::kCompleted);
    EXPECT_EQ(run.Life(0).output_tokens, 6);
  }
}

// Three policies that allow a prompt of exactly the model's length, two of which reserve for no
// token beyond it.
TEST(SimWorldServingTest, APromptThatFillsTheModelIsServed) {
  OrcaConfig orca;
  orca.reservation = OrcaConfig::Reservation::kModel;
  orca.max_model_len = 16;
  StaticConfig trimmed;
  trimmed.padded = false;
  trimmed.max_model_len = 16;
  SarathiConfig sarathi;
  sarathi.max_model_len = 16;
  for (const PolicyConfig& policy :
       {PolicyConfig(orca), PolicyConfig(trimmed), PolicyConfig(sarathi)}) {
    ListedSource source({Limited(16, 20, 30)});
    const ConstantCost cost({}, 1);
    const SimulatedRun run(source, cost, policy, {.block_size = 4, .blocks = 5},
                           {.max_model_length = 16});
    EXPECT_EQ(run.Life(0).status, RequestStatus::kCompleted);
    EXPECT_EQ(run.Life(0).output_tokens, 1);
  }
}

// SplitFuse gives up the blocks of what has finished in a plan of its own.
TEST(SimWorldServingTest, AReleaseAloneTakesNoDeviceTime) {
  ListedSource source({Limited(4, 1, 1)});
  const ConstantCost cost({.host_time = {}, .step_time = milliseconds(10)}, 1);
  const SimulatedRun run(source, cost, SplitFuseConfig{}, {.block_size = 4, .blocks = 5}, {});
  ASSERT_EQ(run.launches.size(), 2u);
  EXPECT_EQ(run.launches[1].plan.released.size(), 1u);
  EXPECT_TRUE(run.launches[1].stages.empty());
  EXPECT_EQ(run.launches[1].finished, run.launches[0].finished);
}

TEST(SimWorldServingTest, RefusesToRunBeyondItsClock) {
  ListedSource source({Limited(4, 100, 100)});
  const ConstantCost cost({.host_time = {}, .step_time = std::chrono::seconds(1'000'000'000)}, 1);
  EXPECT_THROW(SimulatedRun(source, cost, OrcaConfig{}, {.block_size = 4, .blocks = 50}, {}),
               InputError);
}

// 1 ms a token of prompt. The second request finds two of its blocks of 4 in the cache and computes
// the other 4 of 12 tokens.
TEST(SimWorldServingTest, SharedChunksAreComputedOnce) {
  TracedRequest second = Named(12, 1, {11, 12, 99});
  second.arrival = At(100);
  ListedSource source({Named(12, 1, {11, 12, 13}), second});
  const LinearCost cost({.per_prefill_token_s = 1e-3}, 1);
  const SimulatedRun run(source, cost, CachingPrefixes(64), {.block_size = 4, .blocks = 100},
                         {.named_block_size = 4});
  EXPECT_EQ(run.Life(0).ended, At(12));
  EXPECT_EQ(run.Life(1).cached_tokens, 8);
  EXPECT_EQ(run.Life(1).ended, At(104));
}

// The second turn says all of the first, prompt and answer, and 6 tokens more: 8 + 8 of its 22
// tokens are cached, but the last token of the first answer was never computed: 12 hit.
TEST(SimWorldServingTest, ATurnFindsTheAnswerOfTheTurnBefore) {
  TracedRequest second = Named(22, 1, {11, 12, 13, 14, 15});
  second.arrival = At(1000);
  ListedSource source({Named(8, 8, {11, 12, 13, 14}), second});
  const LinearCost cost({.per_prefill_token_s = 1e-3}, 1);
  const SimulatedRun run(source, cost, CachingPrefixes(64), {.block_size = 4, .blocks = 100},
                         {.named_block_size = 4});
  EXPECT_EQ(run.Life(1).cached_tokens, 12);
}

}  // namespace
}  // namespace twin::sim
