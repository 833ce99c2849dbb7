// Overload: what counts as growth of the backlog, and what does not.
#include "run/record/overload_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"

namespace twin {
namespace {

TimePoint At(double seconds) { return kTimeZero + DurationFromSeconds(seconds); }

// Feeds requests of a queue with one server, in the order of their events.
class SingleServer {
 public:
  void Arrive(double at, double service) {
    while (!leaving_.empty() && leaving_.front().ended <= At(at)) Leave();
    RequestLife life;
    life.arrival = At(at);
    meter.OnArrived(life.arrival, life);
    free_ = std::max(free_, at) + service;
    life.ended = At(free_);
    life.status = RequestStatus::kCompleted;
    leaving_.push_back(life);
  }
  void Drain() {
    while (!leaving_.empty()) Leave();
  }
  OverloadMeter meter;

 private:
  void Leave() {
    meter.OnEnded(leaving_.front());
    leaving_.erase(leaving_.begin());
  }
  std::vector<RequestLife> leaving_;
  double free_ = 0;
};

OverloadMeter PoissonQueue(double rate, int requests, std::uint64_t seed) {
  Random random(seed, "queue");
  SingleServer server;
  double at = 0;
  for (int i = 0; i < requests; ++i) {
    at += random.Exponential(1 / rate);
    server.Arrive(at, random.Exponential(1));
  }
  server.Drain();
  return server.meter;
}

TEST(OverloadMeterTest, ABacklogThatGrowsSteadilyIsAnOverload) {
  EXPECT_EQ(EstimateTrend(std::vector<double>{0, 1, 2, 3, 4, 5}, 1, 10), Overload::kYes);
  // Half a percent of the arrivals stays: less than counts.
  EXPECT_EQ(EstimateTrend(std::vector<double>{0, 1, 2, 3, 4, 5}, 1, 200), Overload::kNo);
  EXPECT_EQ(EstimateTrend(std::vector<double>{3, 3, 3, 3}, 1, 10), Overload::kNo);
}

// Slope by least squares (-2*0 - 1*2 + 0*1 + 1*3 + 2*2) / 10 = 0.5. Increments 2, -1, 2, -1: mean
// 0.5, variance (10 - 4 * 0.25) / 3 = 3. z = 0.5 * sqrt(4) / sqrt(3) = 0.58.
TEST(OverloadMeterTest, NoiseIsComparedWithThatOfARandomWalk) {
  const std::vector<double> backlog = {0, 2, 1, 3, 2};
  EXPECT_EQ(EstimateTrend(backlog, 1, 1), Overload::kNo);
  // Increments 1, 2, 1, 2: slope 1.5, deviation 0.577, z = 1.5 * 2 / 0.577 = 5.2.
  EXPECT_EQ(EstimateTrend(std::vector<double>{0, 1, 3, 4, 6}, 1, 1), Overload::kYes);
  // Increments 2, -1, 3, 0: slope 1, deviation 1.826, z = 1 * 2 / 1.826 = 1.1.
  EXPECT_EQ(EstimateTrend(std::vector<double>{0, 2, 1, 4, 4}, 1, 1), Overload::kUndecided);
}

TEST(OverloadMeterTest, AQueueBelowCapacityIsHardlyEverSaturatedAndOneAboveIs) {
  int wrong = 0;
  int missed = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    wrong += PoissonQueue(0.7, 1000, seed).verdict() == Overload::kYes ? 1 : 0;
    missed += PoissonQueue(1.3, 1000, seed).verdict() == Overload::kYes ? 0 : 1;
  }
  EXPECT_LE(wrong, 1);
  EXPECT_LE(missed, 2);
}

TEST(OverloadMeterTest, RatesAreThoseOfTheTimeUpToTheLastArrival) {
  // 2 arrivals per second, 1 departure per second, for 100 s; then the drain.
  SingleServer server;
  for (int i = 0; i <= 200; ++i) server.Arrive(0.5 * i, 1);
  server.Drain();
  EXPECT_DOUBLE_EQ(server.meter.offered_rate(), 2);
  EXPECT_NEAR(server.meter.completed_rate(), 1, 0.03);
  EXPECT_EQ(server.meter.verdict(), Overload::kYes);
  Summary summary;
  server.meter.Summarise(summary);
  EXPECT_THAT(OverloadWarning(summary),
              ::testing::StartsWith("offered rate exceeds capacity: latencies grow with the length "
                                    "of the run, or clients leave without an answer (2 requests/s "
                                    "arrive, "));
}

// Requests that take 30 s each and wait for nothing, for 60 s: the system fills for half of it.
TEST(OverloadMeterTest, ASystemThatFillsIsNotOverloaded) {
  OverloadMeter meter;
  std::vector<RequestLife> lives;
  for (int i = 0; i < 600; ++i) {
    RequestLife life;
    life.arrival = At(0.1 * i);
    life.ended = At(0.1 * i + 30);
    if (i >= 300) meter.OnEnded(lives[static_cast<std::size_t>(i - 300)]);
    meter.OnArrived(life.arrival, life);
    lives.push_back(life);
  }
  for (std::size_t i = 300; i < 600; ++i) meter.OnEnded(lives[i]);
  EXPECT_EQ(meter.verdict(), Overload::kNo);
}

// 10 requests arrive per second for 60 s and leave a second later; every third one was rejected or
// cancelled. All wait for `waited_s` before they are first scheduled.
OverloadMeter WithEveryThird(RequestStatus status, double waited_s = 0,
                             RejectReason reason = RejectReason::kTooLongForModel) {
  OverloadMeter meter;
  std::vector<RequestLife> lives;
  for (int i = 0; i < 600; ++i) {
    RequestLife life;
    life.arrival = At(0.1 * i);
    life.ended = At(0.1 * i + 1);
    life.scheduled = At(0.1 * i + waited_s);
    life.reject_reason = reason;
    life.status = i % 3 == 0 ? status : RequestStatus::kCompleted;
    if (i >= 10) meter.OnEnded(lives[static_cast<std::size_t>(i - 10)]);
    meter.OnArrived(life.arrival, life);
    lives.push_back(life);
  }
  for (std::size_t i = 590; i < 600; ++i) meter.OnEnded(lives[i]);
  return meter;
}

TEST(OverloadMeterTest, RejectedAndCancelledRequestsAreNotCompleted) {
  EXPECT_NEAR(WithEveryThird(RequestStatus::kCompleted).completed_rate(), 10, 0.2);
  EXPECT_NEAR(WithEveryThird(RequestStatus::kRejected).completed_rate(), 20.0 / 3, 0.2);
  EXPECT_NEAR(WithEveryThird(RequestStatus::kCancelled).completed_rate(), 20.0 / 3, 0.2);
}

TEST(OverloadMeterTest, ABacklogThatClientsKeepShortDecidesNothing) {
  EXPECT_EQ(WithEveryThird(RequestStatus::kRejected).verdict(), Overload::kNo);
  EXPECT_EQ(WithEveryThird(RequestStatus::kCancelled).verdict(), Overload::kUndecided);
}

// A third of the clients leave after they have waited for most of their time, or are turned away
// because the system is full.
TEST(OverloadMeterTest, ASystemThatTurnsClientsAwayIsSaturated) {
  EXPECT_EQ(WithEveryThird(RequestStatus::kCancelled, 0.6).verdict(), Overload::kYes);
  EXPECT_EQ(WithEveryThird(RequestStatus::kCancelled, 0.4).verdict(), Overload::kUndecided);
  EXPECT_EQ(WithEveryThird(RequestStatus::kRejected, 0, RejectReason::kOverloaded).verdict(),
            Overload::kYes);
}

TEST(OverloadMeterTest, FewRequestsDecideNothing) {
  EXPECT_EQ(PoissonQueue(5, 15, 1).verdict(), Overload::kUndecided);
  const OverloadMeter none;
  EXPECT_EQ(none.verdict(), Overload::kUndecided);
  EXPECT_TRUE(std::isnan(none.offered_rate()));
  Summary summary;
  none.Summarise(summary);
  EXPECT_EQ(OverloadWarning(summary), "");
}

}  // namespace
}  // namespace twin
