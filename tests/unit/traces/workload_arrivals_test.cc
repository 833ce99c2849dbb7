// When drawn requests arrive: processes, closed loops, conversations, a cap on those in flight.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "tests/unit/traces/drawn_workload.h"
#include "tests/unit/traces/trace_samples.h"
#include "traces/arrival_process.h"

namespace twin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

struct Gaps {
  double mean = 0;
  double cv = 0;
};
Gaps MeasureGaps(const std::vector<TracedRequest>& requests) {
  double sum = 0;
  double squares = 0;
  TimePoint last = kTimeZero;
  for (const TracedRequest& request : requests) {
    const double gap = Seconds(request.arrival - last);
    last = request.arrival;
    sum += gap;
    squares += gap * gap;
  }
  const auto n = static_cast<double>(requests.size());
  const double mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean) / mean};
}

// The mean of n gaps has the relative standard error cv/sqrt(n). The squared cv of n gaps has one
// of about sqrt((kurtosis - 1)/n) relative; gamma: kurtosis 3 + 6 cv^2, and a bound of 5 of them.
void ExpectGaps(const ArrivalConfig& arrivals, double rate, double cv, double kurtosis) {
  constexpr std::int64_t kRequests = 200'000;
  const Gaps gaps = MeasureGaps(DrawAll(Drawn(kRequests, arrivals), 5));
  const double root = std::sqrt(static_cast<double>(kRequests));
  EXPECT_NEAR(gaps.mean * rate, 1, 5 * cv / root);
  const double mean_part = 2 * cv / root;  // of dividing by the measured mean
  EXPECT_NEAR(gaps.cv / cv, 1, 5 * (std::sqrt(kurtosis - 1) / root / 2 + mean_part));
}

TEST(ArrivalsTest, PoissonHasItsRateAndUnitCv) { ExpectGaps(Poisson(50), 50, 1, 9); }

TEST(ArrivalsTest, GammaHasItsRateAndCv) {
  for (const double cv : {0.5, 3.0}) {
    ExpectGaps({.kind = ArrivalConfig::Kind::kGamma, .rate = 7, .cv = cv}, 7, cv, 3 + 6 * cv * cv);
  }
}

TEST(ArrivalsTest, WeibullHasItsRateAndCv) {
  ExpectGaps({.kind = ArrivalConfig::Kind::kWeibull, .rate = 7, .cv = 0.5}, 7, 0.5, 3.5);
  // Shape 0.5 has Gamma(1 + k/0.5) = (2k)! as raw moments: 2, 24, 720, 40320; variance 20, so
  // cv = sqrt(20)/2 and kurtosis = (40320 - 4*2*720 + 6*4*24 - 3*16)/400 = 87.72.
  ExpectGaps({.kind = ArrivalConfig::Kind::kWeibull, .rate = 7, .cv = std::sqrt(5.0)}, 7,
             std::sqrt(5.0), 87.72);
}

TEST(ArrivalsTest, WeibullShapeIsFoundFromTheCv) {
  EXPECT_NEAR(FindWeibullShape(1), 1, 1e-9);
  EXPECT_NEAR(FindWeibullShape(std::sqrt(5.0)), 0.5, 1e-9);
}

// One arrival in 1e9 s, 31.7 years: the fifth one would come at 5e9 s, beyond the 126 years that
// sums with other times leave room for.
TEST(ArrivalsTest, ArrivalsBeyond126YearsAreRefusedAndNotLeftOut) {
  const ArrivalConfig rare = {.kind = ArrivalConfig::Kind::kConstant, .rate = 1e-9};
  EXPECT_EQ(DrawAll(Drawn(3, rare), 1).size(), 3u);
  EXPECT_THROW(DrawAll(Drawn(5, rare), 1), InputError);
  EXPECT_THROW(DrawAll(Drawn(5, Poisson(1e-11)), 1), InputError);
  ArrivalConfig ramp = {.kind = ArrivalConfig::Kind::kRamp, .rate = 1, .rate_to = 1e-11};
  ramp.ramp = seconds(10);
  EXPECT_THROW(DrawAll(Drawn(50, ramp), 1), InputError);
  // Whoever asks for a time gets what arrives in it.
  WorkloadConfig config = Drawn(5, rare);
  config.duration = seconds(2'500'000'000);
  EXPECT_EQ(DrawAll(config, 1).size(), 2u);
  config.requests = 0;
  config.duration = seconds(10);
  EXPECT_EQ(DrawAll(config, 1).size(), 0u);
}

// Answers take 1 s, and a user thinks for 1e9 s: the fifth question comes at 4e9 + 4 s.
TEST(ArrivalsTest, QuestionsOfUsersBeyond126YearsAreRefusedAndNotAskedAtOnce) {
  ArrivalConfig users = {.kind = ArrivalConfig::Kind::kClosedLoop, .users = 1};
  users.think = {.kind = DurationDistribution::Kind::kConstant, .mean = seconds(1'000'000'000)};
  const auto serve = [&](std::int64_t requests) {
    const auto source = MakeWorkload(Drawn(requests, users), 1);
    return Serve(*source, [](std::size_t) { return seconds(1); }).requests;
  };
  EXPECT_NEAR(Seconds(serve(4).back().arrival), 3'000'000'003, 1e-5);
  EXPECT_THROW(serve(5), InputError);
}

TEST(ArrivalsTest, ConstantArrivesEveryPeriod) {
  const auto requests = DrawAll(Drawn(3, {.kind = ArrivalConfig::Kind::kConstant, .rate = 4}), 1);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[2].arrival, TimePoint{milliseconds(750)});
}

TEST(ArrivalsTest, AllAtOnceArrivesAtZero) {
  for (const auto& request : DrawAll(Drawn(5, {.kind = ArrivalConfig::Kind::kAllAtOnce}), 1)) {
    EXPECT_EQ(request.arrival, kTimeZero);
  }
}

TEST(ArrivalsTest, RampRaisesTheRateLinearly) {
  auto config = Drawn(
      0, {.kind = ArrivalConfig::Kind::kRamp, .rate = 100, .rate_to = 300, .ramp = seconds(100)});
  config.duration = seconds(150);
  std::vector<double> counts(3);
  for (const auto& request : DrawAll(config, 3)) {
    ++counts.at(static_cast<std::size_t>(Seconds(request.arrival) / 50));
  }
  EXPECT_NEAR(counts[0], 7'500, 5 * std::sqrt(7'500));
  EXPECT_NEAR(counts[1], 12'500, 5 * std::sqrt(12'500));
  EXPECT_NEAR(counts[2], 15'000, 5 * std::sqrt(15'000));
}

TEST(ArrivalsTest, RampDownToZeroEnds) {
  auto config =
      Drawn(1'000'000,
            {.kind = ArrivalConfig::Kind::kRamp, .rate = 100, .rate_to = 0, .ramp = seconds(20)});
  const auto requests = DrawAll(config, 3);
  EXPECT_NEAR(static_cast<double>(requests.size()), 1'000, 5 * std::sqrt(1'000));
  EXPECT_LE(requests.back().arrival, TimePoint{seconds(20)});
}

TEST(SessionsTest, EveryTurnContainsAllOfTheTurnBefore) {
  auto config = Drawn(300, Poisson(2));
  config.shape.prompt = {.kind = IntegerDistribution::Kind::kUniform, .min = 5, .max = 90};
  config.shape.output = {.kind = IntegerDistribution::Kind::kUniform, .min = 5, .max = 90};
  config.shape.sessions.turns = Fixed(4);
  config.shape.sessions.think.mean = seconds(3);
  const auto source = MakeWorkload(config, 3);
  const Served served = Serve(*source, [](std::size_t id) { return milliseconds(200 + id % 7); });
  ASSERT_EQ(served.requests.size(), 300u);
  std::map<std::uint64_t, std::vector<std::size_t>> sessions;
  for (std::size_t i = 0; i < 300; ++i) sessions[served.requests[i].session].push_back(i);
  EXPECT_FALSE(sessions.contains(0));
  for (const auto& [session, turns] : sessions) {
    ASSERT_LE(turns.size(), 4u);
    for (std::size_t k = 1; k < turns.size(); ++k) {
      const TracedRequest& before = served.requests[turns[k - 1]];
      const TracedRequest& after = served.requests[turns[k]];
      EXPECT_EQ(after.arrival, served.done[turns[k - 1]] + seconds(3));
      const std::int32_t said = before.prompt_tokens + before.output_tokens;
      EXPECT_GT(after.prompt_tokens, said);
      // Turn k named its chunks on through the output; turn k+1 begins with exactly these.
      ASSERT_EQ(before.prefix_chunks.size(), static_cast<std::size_t>(said / 16));
      EXPECT_TRUE(std::equal(before.prefix_chunks.begin(), before.prefix_chunks.end(),
                             after.prefix_chunks.begin()));
    }
  }
}

TEST(SessionsTest, WhatIsSaidDoesNotDependOnWhenOthersAreDone) {
  auto config = Drawn(0, Poisson(5));
  config.duration = seconds(1'000);
  config.shape.prompt = {.kind = IntegerDistribution::Kind::kUniform, .min = 1, .max = 900};
  config.shape.sessions.turns = Fixed(3);
  const auto by_turn = [&](Duration service) {
    std::map<std::pair<std::uint64_t, int>, std::int32_t> prompts;
    std::map<std::uint64_t, int> turn;
    for (const auto& request : Serve(*MakeWorkload(config, 3), [&](std::size_t id) {
                                 return service * (1 + id % 5);
                               }).requests) {
      prompts[{request.session, turn[request.session]++}] = request.prompt_tokens;
    }
    return prompts;
  };
  const auto fast = by_turn(milliseconds(1));
  const auto slow = by_turn(milliseconds(700));
  ASSERT_GT(slow.size(), 10'000u);
  for (const auto& [key, prompt] : slow) {
    if (fast.contains(key)) {
      EXPECT_EQ(fast.at(key), prompt);
    }
  }
}

// One conversation after the other, each of three turns of 100 + 10 tokens.
class AnsweredSessionsTest : public ::testing::Test {
 protected:
  static std::vector<std::int32_t> Prompts(const AnswerTokens& answer_tokens) {
    WorkloadConfig config = Drawn(6, {.kind = ArrivalConfig::Kind::kClosedLoop, .users = 1});
    config.shape.sessions.turns = Fixed(3);
    const Served served = Serve(
        *MakeWorkload(config, 3), [](std::size_t) { return seconds(1); }, answer_tokens);
    std::vector<std::int32_t> prompts;
    for (const TracedRequest& request : served.requests) prompts.push_back(request.prompt_tokens);
    return prompts;
  }
};

TEST_F(AnsweredSessionsTest, ATurnRepeatsTheAnswersThatWereGiven) {
  EXPECT_THAT(Prompts(WholeAnswer), ElementsAre(100, 210, 320, 100, 210, 320));
  EXPECT_THAT(Prompts([](const TracedRequest&) { return 4; }),
              ElementsAre(100, 204, 308, 100, 204, 308));
}

TEST_F(AnsweredSessionsTest, ATurnWithoutAnAnswerIsTheLast) {
  EXPECT_THAT(
      Prompts([](const TracedRequest& request) { return request.prompt_tokens == 100 ? 10 : 0; }),
      ElementsAre(100, 210, 100, 210, 100, 210));
}

TEST(SessionsTest, EndBeforeTheContextIsFull) {
  auto config = Drawn(1'000, Poisson(5));
  config.shape.sessions.turns = Fixed(50);
  config.shape.sessions.context_tokens_max = 350;  // 110, 220, 330, and no 440
  std::map<std::uint64_t, int> turns;
  for (const auto& request : DrawAll(config, 3)) {
    EXPECT_LE(request.prompt_tokens + request.output_tokens, 350);
    ++turns[request.session];
  }
  for (const auto& [session, count] : turns) EXPECT_LE(count, 3);
}

TEST(ClosedLoopTest, NeverExceedsItsUsersAndKeepsThemBusy) {
  auto config = Drawn(5'000, {.kind = ArrivalConfig::Kind::kClosedLoop, .users = 8});
  const Served served =
      Serve(*MakeWorkload(config, 1), [](std::size_t id) { return milliseconds(10 + id % 13); });
  EXPECT_EQ(served.requests.size(), 5'000u);
  EXPECT_EQ(served.in_flight_max, 8u);
  EXPECT_TRUE(std::is_sorted(served.requests.begin(), served.requests.end(),
                             [](const auto& a, const auto& b) { return a.arrival < b.arrival; }));
}

// Four users over 8 s start 2 s apart.
TEST(ClosedLoopTest, UsersStartSpreadOverTheRamp) {
  auto config =
      Drawn(4, {.kind = ArrivalConfig::Kind::kClosedLoop, .ramp = seconds(8), .users = 4});
  std::vector<TimePoint> arrivals;
  const auto source = MakeWorkload(config, 1);
  while (const TracedRequest* next = source->Peek()) {
    arrivals.push_back(next->arrival);
    source->Take();
  }
  EXPECT_EQ(arrivals, (std::vector<TimePoint>{kTimeZero, kTimeZero + seconds(2),
                                              kTimeZero + seconds(4), kTimeZero + seconds(6)}));
}

TEST(ClosedLoopTest, UsersThinkBetweenRequests) {
  auto config = Drawn(
      3, {.kind = ArrivalConfig::Kind::kClosedLoop, .users = 1, .think = {.mean = seconds(2)}});
  const auto served = Serve(*MakeWorkload(config, 1), [](std::size_t) { return seconds(1); });
  ASSERT_EQ(served.requests.size(), 3u);
  EXPECT_EQ(served.requests[1].arrival, TimePoint{seconds(3)});
  EXPECT_EQ(served.requests[2].arrival, TimePoint{seconds(6)});
}

TEST(ClosedLoopTest, RepliesToATracesLengthsInItsOrder) {
  WorkloadConfig config;
  config.trace = TraceConfig{.path = SamplePath("sharegpt.csv")};
  config.arrivals = {.kind = ArrivalConfig::Kind::kClosedLoop, .users = 2};
  const auto served = Serve(*MakeWorkload(config, 1), [](std::size_t) { return seconds(1); });
  ASSERT_EQ(served.requests.size(), 3u);
  EXPECT_EQ(served.requests[0].prompt_tokens, 3742);
  EXPECT_EQ(served.requests[2].prompt_tokens, 7);
  EXPECT_EQ(served.requests[2].arrival, TimePoint{seconds(1)});
}

TEST(MaxInFlightTest, HoldsArrivalsBackUntilAPlaceIsFree) {
  auto config = Drawn(6, {.kind = ArrivalConfig::Kind::kConstant, .rate = 10});
  config.max_in_flight = 2;
  const auto served = Serve(*MakeWorkload(config, 1), [](std::size_t) { return seconds(1); });
  EXPECT_EQ(served.in_flight_max, 2u);
  std::vector<std::int64_t> arrivals_ms;
  for (const auto& request : served.requests) {
    arrivals_ms.push_back(Nanoseconds(request.arrival) / 1'000'000);
  }
  EXPECT_EQ(arrivals_ms, (std::vector<std::int64_t>{100, 200, 1100, 1200, 2100, 2200}));
}

}  // namespace
}  // namespace twin
