// Replicas that prefill and replicas that decode, with a real copy of keys and values between them.
// No expectation depends on how long anything takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include "exec/forwarding_backend.h"
#include "sched/policy/distserve.h"
#include "sched/policy/splitwise.h"
#include "sched/policy/vllm_v1.h"
#include "tests/unit/exec/replicas_run.h"

namespace twin::exec {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Ge;
using testing::Generated;
using ::testing::Lt;
using testing::MakeTightExecutor;
using testing::ReplicasRun;
using testing::Requests;
using ::testing::SizeIs;
using twin::testing::Asked;
using twin::testing::ListedSource;

// The usual requests, and one whose only token comes from the replica that prefills it.
std::vector<TracedRequest> MoreRequests() {
  std::vector<TracedRequest> requests = Requests();
  requests.push_back(Asked(requests.back().arrival, 19, 1));
  return requests;
}

// Passes on to another backend, but copies nothing while it is told to hold.
class HoldingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  void CopyBlocks(const kernels::KvCacheView& from,
                  std::span<const kernels::BlockCopy> copies) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !holds_; });
    if (on_copy) on_copy();
    ForwardingBackend::CopyBlocks(from, copies);
    ++copies_;
  }

  void SetHolding(bool holds) {
    {
      const std::lock_guard lock(mutex_);
      holds_ = holds;
    }
    changed_.notify_all();
  }
  // Valid behind the run.
  [[nodiscard]] std::int64_t copies() const { return copies_; }

  std::function<void()> on_copy;  // set before the run; called by the backend's thread

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_ = false;
  std::int64_t copies_ = 0;
};

// Requests from a list, each of which arrives when the one before it has left.
class OneByOneSource final : public ArrivalSource {
 public:
  explicit OneByOneSource(std::vector<TracedRequest> requests) : requests_(std::move(requests)) {}

  const TracedRequest* Peek() override {
    return taken_ == done_ && taken_ < requests_.size() ? &requests_[taken_] : nullptr;
  }
  void Take() override { ++taken_; }
  void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {
    ++done_;
  }

 private:
  std::vector<TracedRequest> requests_;
  std::size_t taken_ = 0;
  std::size_t done_ = 0;
};

// Calls a test when a transfer begins.
class TransferWatcher final : public RunObserver {
 public:
  void OnInstant(const Instant& instant) override {
    for (const Event& event : instant.events) {
      if (std::holds_alternative<TransferFinished>(event)) ++ended;
    }
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& /*plan*/) override {}
  void OnTransfer(TimePoint /*now*/, const KvTransfer& transfer) override {
    begun.push_back(transfer.request);
    if (on_transfer) on_transfer(transfer);
  }

  std::function<void(const KvTransfer&)> on_transfer;
  std::vector<RequestId> begun;
  std::size_t ended = 0;
};

class RealDisaggregationTest : public ::testing::Test {
 protected:
  kernels::ThreadPool pools_[4] = {kernels::ThreadPool(1), kernels::ThreadPool(2),
                                   kernels::ThreadPool(1), kernels::ThreadPool(1)};
  CpuModel model_ = testing::MakeSmallModel(pools_[0]);
  std::unique_ptr<DeviceModel> others_[3] = {model_.WithSameWeights(pools_[1]),
                                             model_.WithSameWeights(pools_[2]),
                                             model_.WithSameWeights(pools_[3])};
  CpuExecutor executors_[4] = {MakeTightExecutor(model_),
                               MakeTightExecutor(dynamic_cast<CpuModel&>(*others_[0])),
                               MakeTightExecutor(dynamic_cast<CpuModel&>(*others_[1])),
                               MakeTightExecutor(dynamic_cast<CpuModel&>(*others_[2]))};
  HoldingBackend held_{executors_[1]};
};

struct Split {
  const char* name;
  std::int32_t replicas;  // half of them prefill
  RouterKind router;
  PolicyConfig policy;
};

void PrintTo(const Split& split, std::ostream* out) { *out << split.name; }

const Split kSplits[] = {
    {"Pair", 2, RouterKind::kRoundRobin, VllmV1Config{}},
    {"PairCaching", 2, RouterKind::kRoundRobin, VllmV1Config{.enable_prefix_caching = true}},
    {"PairAsync", 2, RouterKind::kRoundRobin, VllmV1Config{.async_scheduling = true}},
    {"PairChunkedAsyncCaching", 2, RouterKind::kRoundRobin,
     VllmV1Config{
         .max_num_batched_tokens = 24, .enable_prefix_caching = true, .async_scheduling = true}},
    {"PairFewAtATime", 2, RouterKind::kRoundRobin, VllmV1Config{.max_num_seqs = 2}},
    {"TwoAndTwo", 4, RouterKind::kLeastTokens, VllmV1Config{}},
    {"TwoAndTwoCaching", 4, RouterKind::kPrefixAffinity,
     VllmV1Config{.enable_prefix_caching = true}},
    {"TwoAndTwoAsync", 4, RouterKind::kLeastKv, VllmV1Config{.async_scheduling = true}},
    {"TwoAndTwoAsyncCaching", 4, RouterKind::kRoundRobin,
     VllmV1Config{.enable_prefix_caching = true, .async_scheduling = true}},
    {"PairDistServe", 2, RouterKind::kRoundRobin, DistServeConfig{}},
    {"PairDistServeMoreWaiting", 2, RouterKind::kRoundRobin,
     DistServeConfig{.waiting_block_prop_threshold = 0.8}},
    {"TwoAndTwoDistServe", 4, RouterKind::kLeastKv,
     DistServeConfig{.context_max_batch_size = 2, .decoding_max_batch_size = 3}},
    {"PairSplitwise", 2, RouterKind::kRoundRobin, SplitwiseConfig{}},
    {"TwoAndTwoSplitwise", 4, RouterKind::kLeastTokens,
     SplitwiseConfig{.max_batch_size = 3, .max_batch_tokens = 24}}};

class EverySplitTest : public RealDisaggregationTest,
                       public ::testing::WithParamInterface<Split> {};

TEST_P(EverySplitTest, GivesTheTokensOfOneReplicaAndReplaysToTheSamePlans) {
  const Split& split = GetParam();
  std::vector<Backend*> backends;
  for (std::int32_t i = 0; i < split.replicas; ++i) backends.push_back(&executors_[i]);
  ListedSource source(MoreRequests());
  const std::int32_t prefilling = split.replicas / 2;
  ReplicasRun run(source, backends, split.policy, split.router, {.prefill_replicas = prefilling});
  run.Serve();
  run.cluster().CheckDrained();
  EXPECT_EQ(run.ReplayDifference(), "");
  const auto expected = Generated(model_, MoreRequests());
  for (std::uint32_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    const RequestId id{i};
    EXPECT_EQ(run.outputs[id], expected[i]);
    EXPECT_THAT(run.places.worked[id], Contains(Lt(prefilling)).Times(1));
    const std::size_t decoding = expected[i].size() > 1 ? 1 : 0;
    EXPECT_THAT(run.places.worked[id], Contains(Ge(prefilling)).Times(decoding));
  }
  EXPECT_THAT(source.done, SizeIs(expected.size()));
  EXPECT_GT(run.places.transfers, 0);
  EXPECT_EQ(run.places.ended, run.steps);
  EXPECT_FALSE(run.world().stopped_early());
}

INSTANTIATE_TEST_SUITE_P(RealDisaggregationTest, EverySplitTest, ::testing::ValuesIn(kSplits),
                         [](const auto& split) { return std::string(split.param.name); });

// Replicas that prefill and decode, here for themselves and there for others.
class MixedPoolTest : public RealDisaggregationTest,
                      public ::testing::WithParamInterface<std::int32_t> {};

TEST_P(MixedPoolTest, GivesTheTokensOfOneReplicaAndReplaysToTheSamePlans) {
  std::vector<Backend*> backends;
  for (std::int32_t i = 0; i < GetParam(); ++i) backends.push_back(&executors_[i]);
  ListedSource source(MoreRequests());
  ReplicasRun run(source, backends, SplitwiseConfig{.max_batch_tokens = 48},
                  RouterKind::kRoundRobin, {.prefill_replicas = GetParam() / 2},
                  MixedPoolConfig{.prompt_max_pending_batch_tokens = 40});
  run.Serve();
  run.cluster().CheckDrained();
  EXPECT_EQ(run.ReplayDifference(), "");
  const auto expected = Generated(model_, MoreRequests());
  int at_one = 0;
  for (std::uint32_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    const RequestId id{i};
    EXPECT_EQ(run.outputs[id], expected[i]);
    if (run.places.worked[id].size() == 1 && expected[i].size() > 1) ++at_one;
  }
  EXPECT_THAT(source.done, SizeIs(expected.size()));
  EXPECT_GT(run.places.transfers, 0);
  EXPECT_GT(at_one, 0);
  EXPECT_FALSE(run.world().stopped_early());
}

INSTANTIATE_TEST_SUITE_P(RealDisaggregationTest, MixedPoolTest, ::testing::Values(2, 4));

TEST_F(RealDisaggregationTest, BlocksCachedAtTheTargetAreNotCopied) {
  std::vector<TracedRequest> requests;
  for (std::int32_t i = 0; i < 3; ++i) {
    TracedRequest& request = requests.emplace_back(Asked(kTimeZero, 18, 3));
    request.prefix_chunk_tokens = 8;
    request.prefix_chunks = {11, 12};
  }
  OneByOneSource source(requests);
  ReplicasRun run(source, {&executors_[0], &executors_[1]},
                  VllmV1Config{.enable_prefix_caching = true}, RouterKind::kRoundRobin,
                  {.prefill_replicas = 1});
  run.Serve();
  // Four full blocks are alike; the fifth holds the last two tokens.
  EXPECT_EQ(run.places.transfers, 3);
  EXPECT_EQ(run.places.copied_tokens, 18 + 2 + 2);
  const auto expected = Generated(model_, requests);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(run.outputs[RequestId{i}], expected[i]);
}

// The first transfer begins before any step of its target. Behind the third one steps wait.
class CancelledTransferTest : public RealDisaggregationTest,
                              public ::testing::WithParamInterface<std::size_t> {};

TEST_P(CancelledTransferTest, EndsBeforeItsBlocksAreUsedAgain) {
  ListedSource source(MoreRequests());
  ReplicasRun run(source, {&executors_[0], &held_}, VllmV1Config{}, RouterKind::kRoundRobin,
                  {.prefill_replicas = 1});
  TransferWatcher transfers;
  RequestId cancelled{};
  transfers.on_transfer = [&](const KvTransfer& transfer) {
    if (transfers.begun.size() != GetParam()) return;
    held_.SetHolding(true);
    cancelled = transfer.request;
    run.world().Cancel(cancelled);
  };
  run.watcher.on_instant = [&](const Instant& /*instant*/) {
    if (!run.watcher.cancelled.empty()) held_.SetHolding(false);
  };
  run.Serve({&transfers});
  run.cluster().CheckDrained();
  EXPECT_THAT(run.watcher.cancelled, ElementsAre(cancelled));
  EXPECT_EQ(transfers.ended, transfers.begun.size());
  EXPECT_EQ(run.ReplayDifference(), "");
  const auto expected = Generated(model_, MoreRequests());
  EXPECT_THAT(source.done, SizeIs(expected.size()));
  for (std::uint32_t i = 0; i < expected.size(); ++i) {
    if (RequestId{i} == cancelled) {
      EXPECT_THAT(run.outputs[cancelled], ElementsAre(expected[i].front()));
    } else {
      EXPECT_EQ(run.outputs[RequestId{i}], expected[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RealDisaggregationTest, CancelledTransferTest,
                         ::testing::Values(1, 2, 3, 6));

TEST_F(RealDisaggregationTest, StopEndsTheRunBehindATransferUnderWay) {
  ListedSource source(MoreRequests());
  ReplicasRun run(source, {&executors_[0], &held_}, VllmV1Config{}, RouterKind::kRoundRobin,
                  {.prefill_replicas = 1});
  held_.on_copy = [&] { run.world().Stop(); };
  TransferWatcher transfers;
  run.Serve({&transfers});
  EXPECT_TRUE(run.world().stopped_early());
  EXPECT_GE(transfers.ended, 1u);
  // Those of the instant in which the world learned of it are not made any more.
  EXPECT_EQ(transfers.ended, static_cast<std::size_t>(held_.copies()));
  EXPECT_EQ(run.ReplayDifference(), "");
}

TEST_F(RealDisaggregationTest, ACopyThatThrowsEndsTheRun) {
  held_.on_copy = [] { throw std::bad_alloc(); };
  ListedSource source(MoreRequests());
  ReplicasRun run(source, {&executors_[0], &held_}, VllmV1Config{}, RouterKind::kRoundRobin,
                  {.prefill_replicas = 1});
  EXPECT_THROW(run.Serve(), std::bad_alloc);
}

}  // namespace
}  // namespace twin::exec
