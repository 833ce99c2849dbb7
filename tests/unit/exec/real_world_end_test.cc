// Requests that clients give up, runs that are stopped, devices that fail. No expectation depends
// on how long anything takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <new>
#include <thread>

#include "exec/cpu/cpu_model.h"
#include "exec/forwarding_backend.h"
#include "exec/real_world.h"
#include "sched/policy/vllm_v1.h"
#include "tests/unit/exec/real_run.h"

namespace twin::exec {
namespace {

using ::testing::ElementsAre;
using testing::GatedBackend;
using ::testing::IsEmpty;
using testing::RealRun;
using ::testing::SizeIs;
using twin::testing::Asked;
using twin::testing::ListedSource;

constexpr KvPoolConfig kRoomy{.block_size = 4, .blocks = 400};

class RealWorldEndTest : public ::testing::Test {
 protected:
  CpuExecutor MakeBackend(const KvPoolConfig& kv) {
    return {model_, {.block_size = kv.block_size, .blocks = kv.blocks}};
  }

  kernels::ThreadPool pool_{2};
  CpuModel model_ = testing::MakeSmallModel(pool_);
};

std::vector<TracedRequest> Requests() {
  std::vector<TracedRequest> requests;
  for (std::int32_t i = 0; i < 6; ++i) requests.push_back(Asked(kTimeZero, 5 + 4 * i, 12 + i));
  return requests;
}

class CancelTest : public RealWorldEndTest {
 protected:
  CpuExecutor cpu_ = MakeBackend(kRoomy);
  GatedBackend backend_{cpu_};
  ListedSource source_{{Asked(kTimeZero, 20, 10), Asked(kTimeZero, 20, 10)}};
  // One request at a time: the second waits for the first.
  const PolicyConfig policy_ = VllmV1Config{.max_num_seqs = 1};
};

TEST_F(CancelTest, WhileItWaits) {
  RealRun run(source_, backend_, policy_, kRoomy, {});
  run.watcher.on_plan = [&](const StepPlan& plan) {
    if (plan.id == StepId{1}) run.world().Cancel(RequestId{1});
  };
  run.Serve();
  run.engine().CheckDrained();
  EXPECT_THAT(run.watcher.cancelled, ElementsAre(RequestId{1}));
  EXPECT_THAT(run.outputs[RequestId{0}], SizeIs(10));
  EXPECT_THAT(run.outputs[RequestId{1}], IsEmpty());
  EXPECT_EQ(source_.done[0].first, RequestId{1});
  EXPECT_EQ(run.ReplayDifference(), "");
}

TEST_F(CancelTest, WhileAStepWithItIsInFlight) {
  for (const bool asynchronous : {false, true}) {
    ListedSource source({Asked(kTimeZero, 20, 10), Asked(kTimeZero, 20, 10)});
    CpuExecutor cpu = MakeBackend(kRoomy);
    GatedBackend backend(cpu);
    RealRun run(source, backend, VllmV1Config{.max_num_seqs = 1, .async_scheduling = asynchronous},
                kRoomy, {});
    run.watcher.on_plan = [&](const StepPlan& plan) {
      if (plan.id != StepId{3}) return;
      backend.SetOpen(false);
      run.world().Cancel(RequestId{0});
    };
    run.watcher.on_instant = [&](const Instant& /*instant*/) {
      if (!run.watcher.cancelled.empty()) backend.SetOpen(true);
    };
    run.Serve();
    run.engine().CheckDrained();
    EXPECT_THAT(run.watcher.cancelled, ElementsAre(RequestId{0}));
    EXPECT_LE(run.outputs[RequestId{0}].size(), 2U);
    EXPECT_THAT(run.outputs[RequestId{1}], SizeIs(10));
    EXPECT_EQ(run.ReplayDifference(), "");
  }
}

TEST_F(CancelTest, OfARequestThatIsNotThereIsNothing) {
  RealRun run(source_, backend_, policy_, kRoomy, {});
  run.watcher.on_plan = [&](const StepPlan& /*plan*/) {
    run.world().Cancel(RequestId{77});
    // Done by the time that the second one runs.
    if (!run.outputs[RequestId{1}].empty()) run.world().Cancel(RequestId{0});
  };
  run.Serve();
  EXPECT_THAT(run.watcher.cancelled, IsEmpty());
  EXPECT_THAT(run.outputs[RequestId{1}], SizeIs(10));
}

TEST_F(CancelTest, ClientsGoAwayWhenTheirPatienceEnds) {
  RealRun run(source_, backend_, policy_, kRoomy, {.client_timeout = std::chrono::milliseconds(1)});
  backend_.SetOpen(false);
  run.watcher.on_instant = [&](const Instant& instant) {
    if (run.watcher.cancelled.empty()) return;
    EXPECT_GE(instant.now, kTimeZero + std::chrono::milliseconds(1));
    backend_.SetOpen(true);
  };
  run.Serve();
  run.engine().CheckDrained();
  EXPECT_THAT(run.watcher.cancelled, ElementsAre(RequestId{0}, RequestId{1}));
  EXPECT_THAT(run.outputs, IsEmpty());
  EXPECT_EQ(run.ReplayDifference(), "");
}

TEST_F(RealWorldEndTest, StopEndsTheRunBehindTheStepsInFlight) {
  for (const bool asynchronous : {false, true}) {
    CpuExecutor backend = MakeBackend(kRoomy);
    std::vector<TracedRequest> requests = Requests();
    requests.push_back(Asked(kTimeZero + std::chrono::hours(1), 5, 5));
    ListedSource source(requests);
    RealRun run(source, backend, VllmV1Config{.async_scheduling = asynchronous}, kRoomy, {});
    run.watcher.on_plan = [&](const StepPlan& plan) {
      if (plan.id == StepId{4}) run.world().Stop();
    };
    run.Serve();
    EXPECT_TRUE(run.world().stopped_early());
    EXPECT_GE(run.steps.size(), 4U);
    EXPECT_LE(run.steps.size(), asynchronous ? 6U : 5U);
    EXPECT_EQ(run.ReplayDifference(), "");
  }
}

TEST_F(RealWorldEndTest, StopEndsTheWaitForAnArrival) {
  CpuExecutor backend = MakeBackend(kRoomy);
  ListedSource source({Asked(kTimeZero + std::chrono::hours(10), 5, 5)});
  RealRun run(source, backend, VllmV1Config{}, kRoomy, {});
  std::thread stopper([&] { run.world().Stop(); });
  run.Serve();
  stopper.join();
  EXPECT_TRUE(run.world().stopped_early());
  EXPECT_EQ(run.watcher.arrived, 0U);
}

TEST_F(RealWorldEndTest, StopBehindTheLastAnswerKeepsNothingFromHappening) {
  CpuExecutor backend = MakeBackend(kRoomy);
  ListedSource source({Asked(kTimeZero, 5, 2)});
  RealRun run(source, backend, VllmV1Config{}, kRoomy, {});
  run.watcher.on_instant = [&](const Instant& /*instant*/) {
    if (run.outputs[RequestId{0}].size() == 2) run.world().Stop();
  };
  run.Serve();
  EXPECT_FALSE(run.world().stopped_early());
}

// Computes two steps, then fails.
class FailingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  ComputedStep Collect() override {
    if (++steps_ > 2) throw std::bad_alloc();
    return ForwardingBackend::Collect();
  }

 private:
  int steps_ = 0;
};

TEST_F(RealWorldEndTest, WhatTheBackendThrowsComesOutOfAdvance) {
  CpuExecutor cpu = MakeBackend(kRoomy);
  FailingBackend backend(cpu);
  ListedSource source(Requests());
  RealRun run(source, backend, VllmV1Config{}, kRoomy, {});
  EXPECT_THROW(run.Serve(), std::bad_alloc);
  EXPECT_THROW(run.world().Advance(kTimeNever), std::bad_alloc);
  EXPECT_LE(run.steps.size(), 2U);
}

TEST_F(RealWorldEndTest, WakesTheEngineAtItsTimeOrBehindIt) {
  CpuExecutor backend = MakeBackend(kRoomy);
  ListedSource source({});
  RealRun run(source, backend, VllmV1Config{}, kRoomy, {});
  const TimePoint wake_at{Duration{2'000'000}};
  const Instant instant = run.world().Advance(wake_at);
  EXPECT_GE(instant.now, wake_at);
  ASSERT_EQ(instant.events.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<WakeUp>(instant.events[0]));
  run.world().Stop();
  EXPECT_TRUE(run.world().Advance(kTimeNever).events.empty());
}

TEST_F(RealWorldEndTest, CanGoWhileStepsAreInFlight) {
  CpuExecutor backend = MakeBackend(kRoomy);
  ListedSource source(Requests());
  RealRun run(source, backend, VllmV1Config{.async_scheduling = true}, kRoomy, {});
  const Instant instant = run.world().Advance(kTimeNever);
  for (const Event& event : instant.events) run.engine().Handle(event);
  while (const StepPlan* plan = run.engine().PlanStep(instant.now)) run.world().Launch(*plan);
  EXPECT_EQ(run.engine().steps_in_flight(), 2);
}

}  // namespace
}  // namespace twin::exec
