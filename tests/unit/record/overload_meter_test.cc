// Overload: what counts as growth of the backlog, and what does not.
#include "run/record/overload_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"

namespace twin {
namespace {

TimePoint At(double seconds) { return kTimeZero + DurationFromSeconds(seconds); }

// Feeds requests of a queue with one server, in the order of their events. Each has a prompt of 3
// tokens and an output of 7.
class SingleServer {
 public:
  explicit SingleServer(const RequestMetrics::Config& config = {}) : meter(config) {}

  void Arrive(double at, double service, bool measured = true) {
    while (!leaving_.empty() && leaving_.front().ended <= At(at)) Leave();
    RequestLife life;
    life.measured = measured;
    life.arrival = At(at);
    life.prompt_tokens = 3;
    life.output_tokens = 7;
    meter.OnArrived(life.arrival, life);
    const double start = std::max(free_, at);
    free_ = start + service;
    life.scheduled = At(start);
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
  EXPECT_EQ(EstimateTrend(std::vector<double>{0, 1, 2, 3, 4, 5}, 1, 10, true), Overload::kYes);
  // Half a percent of the arrivals stays: less than counts.
  EXPECT_EQ(EstimateTrend(std::vector<double>{0, 1, 2, 3, 4, 5}, 1, 200, false), Overload::kNo);
  EXPECT_EQ(EstimateTrend(std::vector<double>{3, 3, 3, 3}, 1, 10, false), Overload::kNo);
}

// Slope by least squares (-2*0 - 1*2 + 0*1 + 1*3 + 2*2) / 10 = 0.5. Increments 2, -1, 2, -1: mean
// 0.5, variance (10 - 4 * 0.25) / 3 = 3. z = 0.5 * sqrt(4) / sqrt(3) = 0.58. The slope is below
// 0.5 + 2.33 * sqrt(3) / sqrt(4) = 2.518: 5.04 % of 50, 4.94 % of 51.
TEST(OverloadMeterTest, NoiseIsComparedWithThatOfARandomWalk) {
  const std::vector<double> backlog = {0, 2, 1, 3, 2};
  EXPECT_EQ(EstimateTrend(backlog, 1, 1, true), Overload::kNo);
  EXPECT_EQ(EstimateTrend(backlog, 1, 50, false), Overload::kUndecided);
  EXPECT_EQ(EstimateTrend(backlog, 1, 51, false), Overload::kNo);
  // Increments 1, 2, 1, 2: slope 1.5, deviation 0.577, z = 1.5 * 2 / 0.577 = 5.2.
  EXPECT_EQ(EstimateTrend(std::vector<double>{0, 1, 3, 4, 6}, 1, 1, true), Overload::kYes);
  // Increments 2, -1, 3, 0: slope 1, deviation 1.826, z = 1 * 2 / 1.826 = 1.1.
  EXPECT_EQ(EstimateTrend(std::vector<double>{0, 2, 1, 4, 4}, 1, 1, true), Overload::kUndecided);
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

// 100 runs each: at most 5 % of the overloaded ones may say no, 5 with a standard deviation of 2.2.
TEST(OverloadMeterTest, NoIsSaidOnlyWhereAnOverloadWouldHaveBeenSeen) {
  const auto count = [](double load, int requests) {
    int no = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      no += PoissonQueue(load, requests, seed).verdict() == Overload::kNo ? 1 : 0;
    }
    return no;
  };
  for (const int requests : {300, 1000, 3000}) EXPECT_LE(count(1.05, requests), 9) << requests;
  EXPECT_GE(count(0.3, 500), 95);
  EXPECT_GE(count(0.7, 2000), 80);
}

// 2 arrivals per second, 1 departure per second, for 100 s; then the drain. The last request is
// first scheduled at 200 s.
TEST(OverloadMeterTest, ASaturatedServerHasTheRateOfItsService) {
  SingleServer server;
  for (int i = 0; i <= 200; ++i) server.Arrive(0.5 * i, 1);
  server.Drain();
  EXPECT_DOUBLE_EQ(server.meter.offered_rate(), 2);
  EXPECT_NEAR(server.meter.SteadyRate(OverloadMeter::kRequests), 1, 1e-9);
  EXPECT_NEAR(server.meter.SteadyRate(OverloadMeter::kOutputTokens), 7, 1e-8);
  EXPECT_NEAR(server.meter.SteadyRate(OverloadMeter::kTokens), 10, 1e-8);
  EXPECT_EQ(server.meter.verdict(), Overload::kYes);
  Summary summary;
  server.meter.Summarise(MetricWriter(summary));
  EXPECT_EQ(summary.Find("good_rate"), nullptr);
  EXPECT_THAT(OverloadWarning(summary),
              ::testing::StartsWith("offered rate exceeds capacity: latencies grow with the length "
                                    "of the run, or clients leave without an answer (2 requests/s "
                                    "arrive, "));
}

// All requests come at once: the rates are those until the last one is first scheduled, at 99 s.
TEST(OverloadMeterTest, RequestsThatComeAtOnceHaveASteadyRate) {
  SingleServer server;
  for (int i = 0; i < 100; ++i) server.Arrive(0, 1);
  server.Drain();
  EXPECT_NEAR(server.meter.SteadyRate(OverloadMeter::kRequests), 1, 1e-9);
  EXPECT_TRUE(std::isnan(server.meter.offered_rate()));
}

// A request each 2 s, which takes 1 s, or 1.5 s from 60 s on. The filling takes 20 s, a fifth of
// the 100 s up to the last arrival: 20 good requests and 20 others in the 80 s of load. With the
// first 30 requests left out, the load begins at 60 s.
TEST(OverloadMeterTest, GoodRequestsAndRequestsThatAreLeftOutAreTold) {
  for (const bool leaves_out : {false, true}) {
    RequestMetrics::Config config;
    config.goal.e2el = DurationFromSeconds(1.2);
    SingleServer server(config);
    for (int i = 0; i <= 50; ++i) {
      server.Arrive(2 * i, i >= 30 ? 1.5 : 1, !leaves_out || i >= 30);
    }
    server.Drain();
    Summary summary;
    server.meter.Summarise(MetricWriter(summary));
    EXPECT_NEAR(summary.Number("completed_rate"), 0.5, 0.01);
    EXPECT_NEAR(summary.Number("good_rate"), leaves_out ? 0 : 0.25, 0.01);
  }
}

// Requests that take 30 s each and wait for nothing, for 60 s: the system fills for half of it.
TEST(OverloadMeterTest, ASystemThatFillsIsNotOverloaded) {
  OverloadMeter meter;
  std::vector<RequestLife> lives;
  for (int i = 0; i < 600; ++i) {
    RequestLife life;
    life.arrival = At(0.1 * i);
    life.scheduled = life.arrival;
    life.ended = At(0.1 * i + 30);
    life.status = RequestStatus::kCompleted;
    if (i >= 300) meter.OnEnded(lives[static_cast<std::size_t>(i - 300)]);
    meter.OnArrived(life.arrival, life);
    lives.push_back(life);
  }
  for (std::size_t i = 300; i < 600; ++i) meter.OnEnded(lives[i]);
  EXPECT_EQ(meter.verdict(), Overload::kNo);
  EXPECT_NEAR(meter.SteadyRate(OverloadMeter::kRequests), 10, 0.02);
}

// Requests that take 100 s each, for 60 s: all that arrive are still there. Where all wait for
// their first step, the queue grows; where all run, the system still fills.
TEST(OverloadMeterTest, ARunThatEndsBeforeTheSystemHasFilledIsNotCalledOverloaded) {
  for (const bool waits : {false, true}) {
    OverloadMeter meter;
    std::vector<RequestLife> lives;
    for (int i = 0; i < 600; ++i) {
      RequestLife life;
      life.arrival = At(0.1 * i);
      life.scheduled = waits ? At(0.1 * i + 99) : life.arrival;
      life.ended = At(0.1 * i + 100);
      life.status = RequestStatus::kCompleted;
      meter.OnArrived(life.arrival, life);
      lives.push_back(life);
    }
    for (const RequestLife& life : lives) meter.OnEnded(life);
    EXPECT_EQ(meter.verdict(), waits ? Overload::kYes : Overload::kUndecided);
  }
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
  EXPECT_NEAR(WithEveryThird(RequestStatus::kCompleted).SteadyRate(OverloadMeter::kRequests), 10,
              0.05);
  EXPECT_NEAR(WithEveryThird(RequestStatus::kRejected).SteadyRate(OverloadMeter::kRequests),
              20.0 / 3, 0.05);
  EXPECT_NEAR(WithEveryThird(RequestStatus::kCancelled).SteadyRate(OverloadMeter::kRequests),
              20.0 / 3, 0.05);
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
  none.Summarise(MetricWriter(summary));
  EXPECT_EQ(OverloadWarning(summary), "");
}

}  // namespace
}  // namespace twin
