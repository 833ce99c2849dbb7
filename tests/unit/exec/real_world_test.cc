// A model served on the machine's clock: what it emits, what it measures, and that the record
// decides again the same way. No expectation depends on how long anything takes.
#include "exec/real_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "exec/cpu/cpu_model.h"
#include "exec/generation.h"
#include "sched/policy/registry.h"
#include "tests/unit/exec/real_run.h"

namespace twin::exec {
namespace {

using ::testing::ElementsAre;
using testing::kPositions;
using testing::kVocab;
using testing::RealRun;
using ::testing::SizeIs;
using twin::testing::Asked;
using twin::testing::ListedSource;

constexpr KvPoolConfig kRoomy{.block_size = 4, .blocks = 400, .host_blocks = 40};
constexpr KvPoolConfig kTight{.block_size = 4, .blocks = 26, .host_blocks = 60};

TimePoint At(std::int64_t microseconds) {
  return kTimeZero + std::chrono::microseconds(microseconds);
}

// Prompts of 1 to 40 tokens that ask for 12 to 18 more, four of them at once.
std::vector<TracedRequest> Requests() {
  const std::int32_t prompts[] = {40, 13, 1, 22, 9, 31, 17};
  std::vector<TracedRequest> requests;
  for (const std::int32_t prompt : prompts) {
    const auto number = static_cast<std::int32_t>(requests.size());
    requests.push_back(Asked(number < 4 ? kTimeZero : At(100 * number), prompt, 12 + number));
  }
  return requests;
}

class RealWorldTest : public ::testing::Test {
 protected:
  CpuExecutor MakeBackend(const KvPoolConfig& kv, std::int32_t drafts_max = 0,
                          CpuModel* draft_model = nullptr) {
    return {model_,
            {.block_size = kv.block_size,
             .blocks = kv.blocks,
             .host_blocks = kv.host_blocks,
             .drafts_max = drafts_max,
             .draft_model = draft_model,
             .ngram = {.lookup_min = 1, .lookup_max = 2}}};
  }

  // The outputs of the same prompts, one request at a time.
  std::vector<std::vector<std::int32_t>> Generated(const std::vector<TracedRequest>& requests,
                                                   bool heeds_end_tokens = false) {
    RequestTokens tokens(/*seed=*/0, kVocab);
    std::vector<Generation> generations;
    for (const TracedRequest& request : requests) {
      const RequestId id{static_cast<std::uint32_t>(generations.size())};
      generations.push_back({tokens.Open(id, request), request.max_output_tokens});
    }
    Generate(model_, generations,
             {.policy = VllmV1Config{.max_num_seqs = 1}, .stops_at_end_tokens = heeds_end_tokens});
    std::vector<std::vector<std::int32_t>> outputs;
    for (const Generation& generation : generations) outputs.push_back(generation.output);
    return outputs;
  }

  kernels::ThreadPool pool_{2};
  CpuModel model_ = testing::MakeSmallModel(pool_);
  CpuModel nearly_equal_model_ = testing::MakeSmallModel(pool_, DType::kBf16);
};

struct Served {
  const char* name;
  PolicyConfig policy;
  KvPoolConfig kv = kRoomy;
  bool preempts = false;
};

void PrintTo(const Served& served, std::ostream* out) { *out << served.name; }

const Served kServed[] = {
    {"StaticPadded", StaticConfig{.max_batch_size = 3}},
    {"StaticTrimmed", StaticConfig{.padded = false, .max_batch_size = 3, .max_model_len = 100}},
    {"TritonWithAWindow", TritonConfig{.max_batch_size = 3, .max_queue_delay_microseconds = 2000}},
    {"Lightllm", LightllmConfig{.max_waiting_iters = 3, .max_model_len = 100}},
    {"Splitwise", SplitwiseConfig{.max_batch_tokens = 24, .max_preemptions = 2}},
    {"Orca", OrcaConfig{.max_bs = 3, .max_model_len = 100}},
    {"OrcaTwoWorkers", OrcaConfig{.n_workers = 2, .max_bs = 2, .max_model_len = 100}},
    {"VllmV0", VllmV0Config{}, kTight, true},
    {"VllmV0Swap", VllmV0Config{.preemption_mode = VllmV0Config::PreemptionMode::kSwap}, kTight,
     true},
    {"VllmV1", VllmV1Config{.max_num_batched_tokens = 16, .max_num_seqs = 4}},
    {"VllmV1Preempting",
     VllmV1Config{.max_num_batched_tokens = 64, .scheduler_reserve_full_isl = false}, kTight, true},
    {"VllmV1PrefixCaching",
     VllmV1Config{.max_num_batched_tokens = 16, .max_num_seqs = 4, .enable_prefix_caching = true}},
    {"VllmV1Asynchronous",
     VllmV1Config{.max_num_batched_tokens = 64,
                  .enable_prefix_caching = true,
                  .async_scheduling = true,
                  .scheduler_reserve_full_isl = false},
     kTight, true},
    {"VllmV1Drafts",
     VllmV1Config{.max_num_batched_tokens = 64,
                  .enable_prefix_caching = true,
                  .scheduler_reserve_full_isl = false,
                  .speculation = {.num_speculative_tokens = 3}},
     kTight, true},
    {"VllmV1DraftModel",
     VllmV1Config{.max_num_batched_tokens = 64,
                  .enable_prefix_caching = true,
                  .scheduler_reserve_full_isl = false,
                  .speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = 3}},
     kTight, true},
    {"VllmV0DraftModel",
     VllmV0Config{.max_model_len = 100,
                  .preemption_mode = VllmV0Config::PreemptionMode::kSwap,
                  .speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = 2}},
     kTight, true},
    {"TrtllmDraftModel",
     TrtllmConfig{.max_num_tokens = 64,
                  .speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = 4}}},
    {"Sarathi", SarathiConfig{.chunk_size = 10, .max_model_len = 100}},
    {"SarathiPipeline",
     SarathiConfig{.chunk_size = 10, .max_model_len = 100, .pipeline_parallel_size = 2}},
    {"Ship", ShipConfig{.pipeline_parallel_size = 3, .fill_tokens = 10}},
    {"ShipPreempting", ShipConfig{.pipeline_parallel_size = 2, .fill_tokens = 64}, kTight, true},
    {"SplitFuse", SplitFuseConfig{.max_ragged_batch_size = 16, .max_ragged_sequence_count = 8}},
    {"TgiTwo", TgiV2Config{.max_batch_prefill_tokens = 40, .max_total_tokens = 100}},
    {"TgiThree", TgiV3Config{.max_batch_prefill_tokens = 16, .max_total_tokens = 100}},
    {"TrtllmNoEvict", TrtllmConfig{.max_num_tokens = 64}},
    {"TrtllmMaxUtilization",
     TrtllmConfig{.capacity_scheduler_policy = TrtllmConfig::Capacity::kMaxUtilization,
                  .context_chunking_policy = TrtllmConfig::Chunking::kFirstComeFirstServed,
                  .max_num_tokens = 64},
     kTight, true},
    {"Sglang", SglangConfig{.chunked_prefill_size = 16, .max_running_requests = 4}},
    {"SglangRetracting",
     SglangConfig{.enable_mixed_chunk = true,
                  .overlap = false,
                  .init_new_token_ratio = 0.0,
                  .clip_max_new_tokens = 1},
     kTight, true},
    {"SglangOverlapRetracting", SglangConfig{.init_new_token_ratio = 0.0, .clip_max_new_tokens = 1},
     kTight, true}};

bool DraftsByModel(const PolicyConfig& policy) {
  return VisitPolicy(policy, [](const auto& config) {
    if constexpr (requires { config.speculation; }) {
      return config.speculation.on() && config.speculation.method == SpecMethod::kDraftModel;
    }
    return false;
  });
}

class EveryPolicyTest : public RealWorldTest, public ::testing::WithParamInterface<Served> {};

TEST_P(EveryPolicyTest, GivesTheTokensOfGenerateAndReplaysToTheSamePlans) {
  CpuExecutor backend =
      MakeBackend(GetParam().kv, TraitsOf(GetParam().policy).drafts_max,
                  DraftsByModel(GetParam().policy) ? &nearly_equal_model_ : nullptr);
  ListedSource source(Requests());
  RealRun run(source, backend, GetParam().policy, GetParam().kv, {.max_model_length = kPositions});
  run.Serve();
  run.engine().CheckDrained();
  EXPECT_EQ(run.ReplayDifference(), "");
  const auto expected = Generated(Requests());
  for (std::uint32_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(run.outputs[RequestId{i}], expected[i]) << "request " << i;
  }
  EXPECT_THAT(source.done, SizeIs(expected.size()));
  EXPECT_FALSE(run.world().stopped_early());
  if (GetParam().preempts) {
    EXPECT_GT(run.watcher.preemptions, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(RealWorldTest, EveryPolicyTest, ::testing::ValuesIn(kServed),
                         [](const auto& served) { return std::string(served.param.name); });

// The model drafts for itself, so that every draft is accepted, also where the draft model's keys
// and values were on the host meanwhile.
TEST_F(RealWorldTest, ADraftModelFollowsSwaps) {
  CpuModel draft = testing::MakeSmallModel(pool_);
  VllmV0Config policy{.max_model_len = 100, .preemption_mode = VllmV0Config::PreemptionMode::kSwap};
  policy.speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = 2};
  CpuExecutor backend = MakeBackend(kTight, 2, &draft);
  ListedSource source(Requests());
  RealRun run(source, backend, policy, kTight, {});
  std::int64_t verified = 0;
  std::int64_t accepted = 0;
  std::int64_t swaps = 0;
  run.watcher.on_plan = [&](const StepPlan& plan) {
    verified += plan.totals.draft_tokens;
    for (const KvOperation& operation : plan.kv) {
      if (operation.kind == KvOperation::Kind::kSwapIn) ++swaps;
    }
  };
  run.watcher.on_instant = [&](const Instant& instant) {
    for (const Event& event : instant.events) {
      const auto* finished = std::get_if<StepFinished>(&event);
      if (finished == nullptr) continue;
      for (const ItemOutcome& outcome : finished->outcomes) accepted += outcome.accepted_drafts;
    }
  };
  run.Serve();
  EXPECT_GT(swaps, 0);
  EXPECT_GT(verified, 0);
  EXPECT_EQ(accepted, verified);
}

TEST_F(RealWorldTest, PartsOfEveryStepAddUpToItsTimes) {
  CpuExecutor backend = MakeBackend(kRoomy);
  ListedSource source(Requests());
  RealRun run(source, backend, VllmV1Config{.async_scheduling = true}, kRoomy, {});
  run.Serve();
  ASSERT_FALSE(run.steps.empty());
  TimePoint device_free = kTimeZero;
  for (const StepTimes& step : run.steps) {
    EXPECT_EQ(step.parts.device(), step.finished - step.started);
    EXPECT_EQ(step.parts[StepPart::kSchedule], step.started - std::max(step.planned, device_free));
    EXPECT_EQ(step.parts[StepPart::kDelivery], step.told - step.finished);
    EXPECT_LE(step.planned, step.started);
    EXPECT_LE(step.started, step.finished);
    EXPECT_LE(step.finished, step.told);
    device_free = step.finished;
  }
}

TEST_F(RealWorldTest, TheRecordHasTheTimesThatTheDeviceMeasured) {
  CpuExecutor backend = MakeBackend(kRoomy);
  ListedSource source(Requests());
  RealRun run(source, backend, VllmV1Config{}, kRoomy, {});
  run.Serve();
  std::size_t told = 0;
  for (const RecordedRun::Moment& moment : run.record().moments()) {
    for (const Event& event : moment.events) {
      const auto* finished = std::get_if<StepFinished>(&event);
      if (finished == nullptr) continue;
      ASSERT_LT(told, run.steps.size());
      EXPECT_EQ(Index(finished->step), told + 1);
      EXPECT_EQ(finished->started, run.steps[told].started);
      EXPECT_EQ(moment.now, run.steps[told].told);
      ++told;
    }
  }
  EXPECT_EQ(told, run.steps.size());
}

TEST_F(RealWorldTest, ArrivalsAreToldWhenTheyAreDueAndNotBefore) {
  CpuExecutor backend = MakeBackend(kRoomy);
  ListedSource source({Asked(At(0), 3, 2), Asked(At(3000), 3, 2), Asked(At(3000), 3, 2)});
  RealRun run(source, backend, VllmV1Config{}, kRoomy, {});
  std::vector<TimePoint> due;
  run.watcher.on_instant = [&](const Instant& instant) {
    for (const Event& event : instant.events) {
      const auto* arrived = std::get_if<RequestArrived>(&event);
      if (arrived == nullptr) continue;
      due.push_back(arrived->request.arrival);
      EXPECT_GE(instant.now, arrived->request.arrival);
    }
  };
  run.Serve();
  EXPECT_THAT(due, ElementsAre(At(0), At(3000), At(3000)));
}

// Users who send their next request when the last one is answered.
class OneAtATime final : public ArrivalSource {
 public:
  const TracedRequest* Peek() override { return ready_ ? &next_ : nullptr; }
  void Take() override {
    ready_ = false;
    ++taken;
  }
  void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) override {
    EXPECT_EQ(Index(id) + 1, taken);
    EXPECT_EQ(answer_tokens, 3);
    if (taken == 5) return;
    next_.arrival = now + std::chrono::microseconds(50);
    ready_ = true;
  }
  std::uint32_t taken = 0;

 private:
  TracedRequest next_ = Asked(kTimeZero, 6, 3);
  bool ready_ = true;
};

TEST_F(RealWorldTest, ClosedLoopsHearWhenTheirRequestsAreDone) {
  CpuExecutor backend = MakeBackend(kRoomy);
  OneAtATime source;
  RealRun run(source, backend, SarathiConfig{.max_model_len = 100}, kRoomy, {});
  run.Serve();
  run.engine().CheckDrained();
  EXPECT_EQ(source.taken, 5U);
  EXPECT_THAT(run.outputs, SizeIs(5));
}

// Token 3 ends a sequence by the model's config.
TEST_F(RealWorldTest, OutputsEndAtTheEndOfSequenceOrWherePinned) {
  const auto whole = Generated(Requests());
  const auto stopped = Generated(Requests(), /*heeds_end_tokens=*/true);
  ASSERT_NE(whole, stopped);
  std::vector<TracedRequest> requests = Requests();
  for (TracedRequest& request : requests) request.output_tokens = 5;
  for (const bool pins : {false, true}) {
    CpuExecutor backend = MakeBackend(kRoomy);
    ListedSource source(requests);
    RealRun run(source, backend, VllmV1Config{}, kRoomy,
                {.pins_output_lengths = pins, .end_tokens = model_.config().end_tokens});
    run.Serve();
    for (std::uint32_t i = 0; i < whole.size(); ++i) {
      std::vector<std::int32_t> expected = stopped[i];
      if (pins) expected.assign(whole[i].begin(), whole[i].begin() + 5);
      EXPECT_EQ(run.outputs[RequestId{i}], expected) << "request " << i;
    }
    EXPECT_EQ(run.ReplayDifference(), "");
  }
}

TEST_F(RealWorldTest, OutputsEndAtTheContextAndLongerPromptsAreRejectedUnseen) {
  CpuExecutor backend = MakeBackend(kRoomy);
  // The last prompt could not even be written down: 8 GiB.
  ListedSource source({Asked(kTimeZero, 30, 50), Asked(kTimeZero, 40, 50), Asked(kTimeZero, 41, 50),
                       Asked(kTimeZero, 2'147'483'647, 1)});
  RealRun run(source, backend, VllmV1Config{}, kRoomy, {.max_model_length = 40});
  run.Serve();
  run.engine().CheckDrained();
  EXPECT_THAT(run.outputs[RequestId{0}], SizeIs(10));
  EXPECT_THAT(run.outputs[RequestId{1}], SizeIs(1));
  EXPECT_THAT(run.watcher.rejected, ElementsAre(RequestId{2}, RequestId{3}));
  EXPECT_THAT(source.done, SizeIs(4));
  EXPECT_EQ(run.ReplayDifference(), "");
}

TEST_F(RealWorldTest, SharedContentIsTakenFromThePrefixCache) {
  std::vector<TracedRequest> requests = {Asked(kTimeZero, 24, 4), Asked(kTimeZero, 26, 4),
                                         Asked(kTimeZero, 26, 4)};
  for (TracedRequest& request : requests) request.prefix_chunk_tokens = 8;
  requests[0].prefix_chunks = {11, 12, 13};
  requests[1].prefix_chunks = {11, 12, 14, 15};
  CpuExecutor backend = MakeBackend(kRoomy);
  ListedSource source(requests);
  // One at a time, so that the first is in the cache when the others come.
  RealRun run(source, backend, VllmV1Config{.max_num_seqs = 1, .enable_prefix_caching = true},
              kRoomy, {});
  run.Serve();
  EXPECT_EQ(run.watcher.cached_tokens, 16);
  const auto expected = Generated(requests);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(run.outputs[RequestId{i}], expected[i]);
  EXPECT_EQ(run.ReplayDifference(), "");
}

// The second turn's prompt: 12 tokens of the first, its answer of 8, and 5 new ones. Of the first
// turn's 20 tokens all but the last answer token are in the cache, so four full blocks of four.
TEST_F(RealWorldTest, AConversationFindsItsLastAnswerInThePrefixCache) {
  std::vector<TracedRequest> requests = {Asked(kTimeZero, 12, 8), Asked(kTimeZero, 25, 3)};
  for (TracedRequest& request : requests) request.prefix_chunk_tokens = 4;
  requests[0].prefix_chunks = {1, 2, 3, 4, 5};
  requests[1].prefix_chunks = {1, 2, 3, 4, 5, 6, 7};
  CpuExecutor backend = MakeBackend(kRoomy);
  class Turns final : public ArrivalSource {
   public:
    explicit Turns(std::vector<TracedRequest> turns) : turns_(std::move(turns)) {}
    const TracedRequest* Peek() override { return taken_ == done_ ? Turn() : nullptr; }
    void Take() override { ++taken_; }
    void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {
      ++done_;
    }

   private:
    const TracedRequest* Turn() { return taken_ < turns_.size() ? &turns_[taken_] : nullptr; }
    std::vector<TracedRequest> turns_;
    std::size_t taken_ = 0;
    std::size_t done_ = 0;
  } source(requests);
  RealRun run(source, backend, VllmV1Config{.enable_prefix_caching = true}, kRoomy, {});
  run.Serve();
  EXPECT_EQ(run.watcher.cached_tokens, 16);
  EXPECT_EQ(run.ReplayDifference(), "");
}

}  // namespace
}  // namespace twin::exec
