#include "sim/world/clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "sched/policy/vllm_v1.h"
#include "sim/cost/constant_cost.h"
#include "tests/support/scripted_run.h"
#include "tests/support/simulated_run.h"

namespace twin::sim {
namespace {

using std::chrono::milliseconds;
using testing::Asked;
using testing::At;
using ::testing::ElementsAre;
using testing::ListedSource;
using ::testing::Pair;
using testing::R;
using testing::SimulatedRun;

constexpr KvPoolConfig kRoomyCache{.block_size = 4, .blocks = 1000};

VllmV1Config Policy() {
  VllmV1Config config;
  config.max_num_batched_tokens = 8;
  config.max_num_seqs = 4;
  config.max_model_len = 4096;
  return config;
}

DurationDistribution Constant(Duration time) { return {.mean = time}; }

// 3 ms there, 2 ms back, 1 ms to react.
SimWorldOptions ThreeTwoOne() {
  SimWorldOptions options;
  options.boundary = BoundaryConfig{.request = Constant(milliseconds(3)),
                                    .response = Constant(milliseconds(2)),
                                    .client_reaction = Constant(milliseconds(1))};
  return options;
}

std::vector<std::pair<double, std::string>> InstantsOf(const SimulatedRun& run) {
  std::vector<std::pair<double, std::string>> instants;
  for (const SimulatedRun::Reported& told : run.instants) {
    instants.emplace_back(Milliseconds(told.now.time_since_epoch()), told.events);
  }
  return instants;
}

const ConstantCost kTenMilliseconds({.host_time = {}, .step_time = milliseconds(10)}, 1);

TEST(BoundaryTest, RequestsReachTheEngineLaterAndTokensTheClient) {
  ListedSource source({Asked(At(5), 4, 2)});
  const SimulatedRun run(source, kTenMilliseconds, Policy(), kRoomyCache, ThreeTwoOne());
  EXPECT_THAT(InstantsOf(run), ElementsAre(Pair(8, "A"), Pair(18, "S"), Pair(28, "S")));
  const RequestLife& life = run.Life(0);
  EXPECT_EQ(life.arrival, At(5));
  EXPECT_EQ(life.reached, At(8));
  EXPECT_EQ(life.first_token, At(18));
  EXPECT_EQ(life.first_received(), At(20));
  EXPECT_EQ(life.last_received(), At(30));
  EXPECT_THAT(source.done, ElementsAre(Pair(R(0), At(31))));
  EXPECT_THAT(source.answers, ElementsAre(2));
}

TEST(BoundaryTest, ZeroDelaysGiveTheRunWithoutABoundary) {
  const std::vector<TracedRequest> requests = {Asked(At(5), 20, 3), Asked(At(12), 4, 2)};
  ListedSource plain(requests);
  ListedSource bounded(requests);
  SimWorldOptions options;
  options.boundary = BoundaryConfig{};
  const SimulatedRun without(plain, kTenMilliseconds, Policy(), kRoomyCache);
  const SimulatedRun with(bounded, kTenMilliseconds, Policy(), kRoomyCache, options);
  EXPECT_EQ(InstantsOf(with), InstantsOf(without));
  EXPECT_EQ(plain.done, bounded.done);
}

// Sends the second request when the first has come back.
class AnsweringSource final : public ArrivalSource {
 public:
  const TracedRequest* Peek() override { return known_ ? &request_ : nullptr; }
  void Take() override {
    known_ = false;
    ++taken_;
  }
  void OnDone(RequestId /*id*/, TimePoint now, std::int32_t /*answer_tokens*/) override {
    if (taken_ == 2) return;
    request_.arrival = now;
    known_ = true;
  }

 private:
  TracedRequest request_ = Asked(At(0), 4, 1);
  bool known_ = true;
  int taken_ = 0;
};

// 0 + 3 there, 10 of a step, 2 back, 1 to react, 3 there, 10 of a step.
TEST(BoundaryTest, AClosedLoopTurnsAtTheClient) {
  AnsweringSource source;
  const SimulatedRun run(source, kTenMilliseconds, Policy(), kRoomyCache, ThreeTwoOne());
  EXPECT_THAT(InstantsOf(run),
              ElementsAre(Pair(3, "A"), Pair(13, "S"), Pair(19, "A"), Pair(29, "S")));
}

TEST(ClientTimeoutTest, TheRequestIsCancelledARequestDelayAfterTheClientGaveUp) {
  ListedSource source({Asked(At(0), 4, 10)});
  SimWorldOptions options = ThreeTwoOne();
  options.client_timeout = milliseconds(24);
  const SimulatedRun run(source, kTenMilliseconds, Policy(), kRoomyCache, options);
  // The step that runs at 27 ends without it.
  EXPECT_THAT(InstantsOf(run), ElementsAre(Pair(3, "A"), Pair(13, "S"), Pair(23, "S"),
                                           Pair(27, "C"), Pair(33, "S")));
  EXPECT_EQ(run.Life(0).status, RequestStatus::kCancelled);
  EXPECT_THAT(source.done, ElementsAre(Pair(R(0), At(30))));
  EXPECT_THAT(source.answers, ElementsAre(0));
}

TEST(ClientTimeoutTest, NeedsNoBoundaryAndSparesRequestsThatEndInTime) {
  ListedSource source({Asked(At(0), 4, 1), Asked(At(0), 4, 10)});
  SimWorldOptions options;
  options.client_timeout = milliseconds(10);
  const SimulatedRun run(source, kTenMilliseconds, Policy(), kRoomyCache, options);
  EXPECT_THAT(InstantsOf(run), ElementsAre(Pair(0, "AA"), Pair(10, "SC")));
  EXPECT_EQ(run.Life(0).status, RequestStatus::kCompleted);
  EXPECT_EQ(run.Life(1).status, RequestStatus::kCancelled);
}

// The second step that only decodes begins with the request and ends without it. In replicas but
// the first the world once looked for it among the living.
TEST(ClientTimeoutTest, ARequestOfAnyReplicaMayLeaveDuringItsSecondDecode) {
  ListedSource source({Asked(At(0), 4, 10)});
  SimWorldOptions options;
  options.client_timeout = milliseconds(25);
  options.replicas = 2;
  SimWorld world(source, kTenMilliseconds, options);
  ASSERT_EQ(world.Advance(kTimeNever).events.size(), 1u);
  StepPlan steps[3];
  for (std::int32_t i = 0; i < 3; ++i) {
    StepPlan& step = steps[i];
    step.id = StepId{static_cast<std::uint64_t>(i + 1)};
    step.replica = 1;
    step.running = 1;
    step.totals.emitting_items = 1;
    step.totals.decode_items = i > 0 ? 1 : 0;
    const Phase phase = i > 0 ? Phase::kDecode : Phase::kPrefill;
    step.work.push_back({R(0), i > 0 ? 3 + i : 0, i > 0 ? 1 : 4, 0, phase, true});
    world.Launch(step);
    if (i == 2) {
      EXPECT_TRUE(
          std::holds_alternative<RequestCancelled>(world.Advance(kTimeNever).events.front()));
    }
    const Instant instant = world.Advance(kTimeNever);
    EXPECT_EQ(instant.now, At(10 * (i + 1)));
    EXPECT_TRUE(std::holds_alternative<StepFinished>(instant.events.front()));
  }
  EXPECT_TRUE(world.Advance(kTimeNever).events.empty());
}

std::vector<std::pair<TimePoint, Duration>> Reaches(std::uint64_t seed) {
  std::vector<TracedRequest> requests;
  for (int i = 0; i < 200; ++i) requests.push_back(Asked(At(i), 4, 1));
  ListedSource source(requests);
  Clients clients(source,
                  {.request = {DurationDistribution::Kind::kExponential, milliseconds(50)},
                   .response = {DurationDistribution::Kind::kLogNormal, milliseconds(4), 0.5}},
                  std::nullopt, seed);
  std::vector<std::pair<TimePoint, Duration>> reached;
  while (clients.next_time() != kTimeNever) {
    const TimePoint now = clients.next_time();
    clients.AdvanceTo(now);
    while (const auto request = clients.TakeReached(now)) {
      EXPECT_GE(now, request->request.arrival);
      reached.emplace_back(now, request->response_delay);
    }
  }
  return reached;
}

TEST(ClientsTest, DelaysBeyondTheClockAreRefused) {
  ListedSource source({Asked(TimePoint{Duration{9'000'000'000'000'000'000}}, 4, 1)});
  Clients clients(source, {.request = Constant(std::chrono::hours(24 * 365 * 30))}, std::nullopt,
                  1);
  EXPECT_THROW(clients.AdvanceTo(clients.next_time()), InputError);
}

TEST(ClientsTest, RequestsKeepTheirOrderAndDelaysFollowFromTheSeed) {
  const auto reached = Reaches(1);
  ASSERT_EQ(reached.size(), 200u);
  for (std::size_t i = 1; i < reached.size(); ++i) {
    EXPECT_GE(reached[i].first, reached[i - 1].first);
  }
  EXPECT_EQ(Reaches(1), reached);
  EXPECT_NE(Reaches(2), reached);
}

}  // namespace
}  // namespace twin::sim
