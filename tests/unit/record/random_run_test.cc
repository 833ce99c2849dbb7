#include "tests/unit/record/random_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "run/record/metrics_collector.h"
#include "run/record/request_tracker.h"

namespace twin {
namespace {

using testing::RandomRun;
using testing::TrueRequest;

double Percentile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = static_cast<double>(values.size() - 1) * q;
  const auto below = static_cast<std::size_t>(position);
  const double low = values[below];
  return low +
         (values[std::min(below + 1, values.size() - 1)] - low) * (position - std::floor(position));
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The definitions of docs/metrics.md over whole lists of token times.
struct Truth {
  explicit Truth(const std::vector<TrueRequest>& requests) {
    for (const TrueRequest& r : requests) {
      if (!r.completed) continue;
      const TimePoint first = r.tokens.front();
      const TimePoint last = r.tokens.back();
      const auto n = static_cast<double>(r.tokens.size());
      queue.push_back(Milliseconds(r.scheduled - r.arrival));
      ttft.push_back(Milliseconds(first - r.arrival));
      e2el.push_back(Milliseconds(last - r.arrival));
      normalized.push_back(Milliseconds(last - r.arrival) / n);
      if (r.tokens.size() < 2) continue;
      tpot.push_back(Milliseconds(last - first) / (n - 1));
      Duration longest{0};
      for (std::size_t i = 1; i < r.tokens.size(); ++i) {
        longest = std::max(longest, r.tokens[i] - r.tokens[i - 1]);
      }
      longest_itl.push_back(Milliseconds(longest));
    }
  }
  std::vector<double> queue, ttft, tpot, e2el, normalized, longest_itl;
};

class RandomRunTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  RandomRunTest()
      : tracker_({100, Delivery::kPerStep, {}}, std::array<RunListener*, 1>{&metrics_}),
        run_(GetParam(), 400, {&tracker_}) {
    run_.Play();
    summary_ = metrics_.Summarise();
  }

  void ExpectLatency(const std::string& metric, const std::vector<double>& truth) const {
    // A TPOT and a normalised latency are rounded to the nanosecond.
    constexpr double kRounding = 1e-6;
    const auto number = [&](const std::string& statistic) {
      return summary_.Number(statistic + "_" + metric);
    };
    EXPECT_NEAR(number("mean"), Mean(truth), kRounding) << metric;
    EXPECT_NEAR(number("p50"), Percentile(truth, 0.5), kRounding) << metric;
    EXPECT_NEAR(number("p99"), Percentile(truth, 0.99), kRounding) << metric;
  }

  MetricsCollector metrics_{MetricsConfig{}};
  RequestTracker tracker_;
  RandomRun run_;
  Summary summary_;
};

TEST_P(RandomRunTest, GivesTheLatenciesOfTheFullListsOfTokenTimes) {
  const Truth truth(run_.truth());
  ExpectLatency("queue_ms", truth.queue);
  ExpectLatency("ttft_ms", truth.ttft);
  ExpectLatency("tpot_ms", truth.tpot);
  ExpectLatency("e2el_ms", truth.e2el);
  ExpectLatency("longest_itl_ms", truth.longest_itl);
  ExpectLatency("normalized_ms_per_token", truth.normalized);
}

TEST_P(RandomRunTest, PoolsEveryGapBetweenTwoTokens) {
  std::vector<double> gaps;
  for (const TrueRequest& r : run_.truth()) {
    // The last entry of a cancelled request is its end, not a token.
    const std::size_t tokens = r.tokens.size() - (r.cancelled ? 1 : 0);
    for (std::size_t i = 1; i < tokens; ++i) {
      gaps.push_back(Milliseconds(r.tokens[i] - r.tokens[i - 1]));
    }
  }
  ExpectLatency("itl_ms", gaps);
}

TEST_P(RandomRunTest, ObeysLittlesLaw) {
  // The integral of the number in the system is the sum of the times spent in it, if the system is
  // empty at both ends.
  double time_in_system = 0;
  for (const TrueRequest& r : run_.truth()) {
    time_in_system += Seconds(r.tokens.back() - r.arrival);
  }
  const double span = Seconds(run_.end() - run_.truth().front().arrival);
  const double in_system = summary_.Number("mean_waiting") + summary_.Number("mean_running") +
                           summary_.Number("mean_swapped");
  EXPECT_NEAR(in_system * span, time_in_system, 1e-9 * time_in_system);
  EXPECT_EQ(tracker_.live(), 0);
}

TEST_P(RandomRunTest, ConservesRequestsAndTokens) {
  std::int64_t completed = 0;
  std::int64_t cancelled = 0;
  std::int64_t output = 0;
  for (const TrueRequest& r : run_.truth()) {
    completed += r.completed ? 1 : 0;
    cancelled += r.cancelled ? 1 : 0;
    if (r.completed) output += r.output_tokens;
  }
  EXPECT_EQ(completed + cancelled, 400);
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(summary_.Number("completed"), static_cast<double>(completed));
  EXPECT_EQ(summary_.Number("cancelled"), static_cast<double>(cancelled));
  EXPECT_EQ(summary_.Number("unfinished"), 0);
  EXPECT_EQ(summary_.Number("total_output_tokens"), static_cast<double>(output));
  EXPECT_GT(run_.preemptions, 0);
  EXPECT_EQ(summary_.Number("preemptions"), static_cast<double>(run_.preemptions));
  EXPECT_EQ(summary_.Number("recomputed_tokens"), static_cast<double>(run_.recomputed_tokens));
  EXPECT_DOUBLE_EQ(
      summary_.Number("preemption_overhead"),
      static_cast<double>(run_.recomputed_tokens) / static_cast<double>(run_.computed_tokens));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRunTest,
                         ::testing::Range(std::uint64_t{1}, std::uint64_t{11}));

}  // namespace
}  // namespace twin
