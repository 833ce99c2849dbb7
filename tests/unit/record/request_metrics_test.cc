#include "run/record/request_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "core/random.h"

namespace twin {
namespace {

Duration DrawMilliseconds(Random& random, std::int64_t low, std::int64_t high) {
  return Duration{random.UniformInt(low, high) * 1'000'000};
}

// Requests of all kinds, in order of arrival. The first eight arrive together, and wait longest.
std::vector<RequestLife> DrawLives(std::uint32_t count) {
  constexpr std::uint32_t kBurst = 8;
  Random random(1, "lives");
  std::vector<RequestLife> lives(count);
  TimePoint arrival = kTimeZero;
  for (std::uint32_t i = 0; i < count; ++i) {
    RequestLife& life = lives[i];
    if (i >= kBurst) arrival += DrawMilliseconds(random, 1, 50);
    life.id = RequestId{i};
    life.arrival = arrival;
    life.measured = random.UniformInt(0, 9) > 0 || i < kBurst;
    life.client_wait = DrawMilliseconds(random, 1, 20);
    life.reached = arrival + DrawMilliseconds(random, 1, 5);
    life.response_delay = DrawMilliseconds(random, 1, 5);
    life.scheduled = life.reached + DrawMilliseconds(random, 1, 100);
    life.first_token = life.scheduled + DrawMilliseconds(random, 1, 100);
    if (i < kBurst) life.first_token += std::chrono::seconds(1);
    life.output_tokens = static_cast<std::int32_t>(random.UniformInt(1, 9));
    life.longest_gap = DrawMilliseconds(random, 1, 40);
    life.ended = life.first_token + life.longest_gap * (life.output_tokens - 1);
    life.prompt_tokens = static_cast<std::int32_t>(random.UniformInt(10, 99));
    life.cached_tokens = static_cast<std::int32_t>(random.UniformInt(0, 9));
    life.output_cut = random.UniformInt(0, 1) > 0;
    life.reject_reason = static_cast<RejectReason>(i % kRejectReasonNames.size());
    const std::int64_t fate = random.UniformInt(0, 9);
    life.status = fate == 0   ? RequestStatus::kRejected
                  : fate == 1 ? RequestStatus::kCancelled
                  : fate == 2 ? RequestStatus::kRunning
                              : RequestStatus::kCompleted;
  }
  return lives;
}

struct Halves {
  explicit Halves(const RequestMetrics::Config& config)
      : whole(config), half{RequestMetrics(config), RequestMetrics(config)} {}

  RequestMetrics whole;
  std::array<RequestMetrics, 2> half;  // of requests with even and with odd ids
  RateWindow window;
};

// Shows all arrivals, then the ends in order of time.
Halves Follow(std::vector<RequestLife> lives, const RequestMetrics::Config& config) {
  Halves run(config);
  for (const RequestLife& life : lives) {
    run.window.Arrive(life);
    if (!life.measured) continue;
    run.whole.Arrive();
    run.half[Index(life.id) % 2].Arrive();
  }
  std::ranges::stable_sort(lives, {}, &RequestLife::left);
  for (const RequestLife& life : lives) {
    if (life.status == RequestStatus::kRunning) continue;
    run.window.End(life);
    run.whole.End(life, run.window);
    run.half[Index(life.id) % 2].End(life, run.window);
    run.whole.AddGaps(life.longest_gap, 1);
    run.half[Index(life.id) % 2].AddGaps(life.longest_gap, 1);
  }
  return run;
}

Summary Summarise(const RequestMetrics& metrics, const RateWindow& window) {
  Summary summary;
  metrics.Summarise(MetricWriter(summary), window);
  return summary;
}

// A metric that Merge() forgets is 0 or undefined in the merged summary; no metric of the whole is.
TEST(RequestMetricsTest, TwoHalvesMergeIntoTheWhole) {
  const RequestMetrics::Config config{.goal = {.ttft = std::chrono::milliseconds(150),
                                               .tpot = std::chrono::milliseconds(30),
                                               .e2el = std::chrono::milliseconds(400)},
                                      .boundary = true,
                                      .client_waits = true};
  const Halves run = Follow(DrawLives(400), config);
  RequestMetrics merged(config);
  for (const RequestMetrics& half : run.half) merged.Merge(half, run.window);

  const Summary whole = Summarise(run.whole, run.window);
  const Summary joined = Summarise(merged, run.window);
  ASSERT_EQ(joined.entries().size(), whole.entries().size());
  for (const SummaryEntry& entry : whole.entries()) {
    const double number = whole.Number(entry.name);
    EXPECT_FALSE(number == 0 || std::isnan(number)) << entry.name << ": the test does not cover it";
    EXPECT_NEAR(joined.Number(entry.name), number, 1e-9 * std::abs(number)) << entry.name;
  }
}

}  // namespace
}  // namespace twin
