#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/number_text.h"
#include "run/record/request_tracker.h"
#include "run/record/series.h"
#include "run/record/table_rows.h"
#include "tests/support/scripted_run.h"
#include "tests/unit/record/random_run.h"

namespace twin {
namespace {

using testing::At;
using testing::Decode;
using testing::Last;
using testing::Prefill;
using testing::R;
using testing::ScriptedRun;

// Without the line of column names.
std::string Body(const std::ostringstream& out) {
  const std::string text = out.str();
  return text.substr(text.find('\n') + 1);
}

std::vector<std::vector<std::string>> Cells(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>& row = rows.emplace_back(1);
    for (const char c : line) {
      if (c == ',') {
        row.emplace_back();
      } else {
        row.back() += c;
      }
    }
  }
  return rows;
}

// Two requests, then one that is rejected and one that stays.
void TellSmallRun(ScriptedRun& script) {
  Request request;
  request.id = R(0);
  request.prompt_tokens = 40;
  request.max_output_tokens = 3;
  request.priority = -2;
  request.tenant = 5;
  script.Arrive(At(1.5), request);
  script.Arrive(At(1.5), R(1), 8);
  script.Arrive(At(2), R(2), 9);
  script.Arrive(At(2), R(3), 10);
  StepPlan plan;
  plan.admitted = {R(0), R(1)};
  plan.hits = {{R(0), 32}};
  plan.work = {Prefill(R(0), 32, 8), Prefill(R(1), 0, 8)};
  plan.rejected = {{R(2), RejectReason::kTooLongForModel}};
  plan.free_blocks = 5;
  plan.running = 2;
  plan.waiting = 1;
  script.Finish(At(12), script.Launch(At(2), plan), {Last(R(1))}, At(4));
  script.Finish(At(22), script.Launch(At(12), {Decode(R(0), 40)}));
  script.Finish(At(42), script.Launch(At(22), {Decode(R(0), 41)}), {Last(R(0))});
  script.Close();
}

TEST(RequestRowsTest, WritesEveryEndedRequestInOrderAndUnfinishedOnesOnRequest) {
  std::ostringstream out;
  RequestRows rows(out);
  RequestTracker tracker({10, Delivery::kPerStep, {}}, std::array<RunListener*, 1>{&rows});
  ScriptedRun script({&tracker});
  TellSmallRun(script);
  tracker.ForEachLive([&](const RequestLife& life) { rows.Write(life); });
  EXPECT_EQ(out.str(),
            "request,tenant,priority,arrival_s,scheduled_s,first_token_s,finished_s,prompt_tokens,"
            "output_tokens,cached_tokens,preemptions,queue_ms,ttft_ms,tpot_ms,e2el_ms,max_itl_ms,"
            "status,reject_reason\n"
            "2,0,0,0.002,,,,9,0,0,0,,,,,,rejected,too_long_for_model\n"
            "1,0,0,0.0015,0.002,0.012,0.012,8,1,0,0,0.5,10.5,,10.5,,completed,\n"
            "0,5,-2,0.0015,0.002,0.012,0.042,40,3,32,0,0.5,10.5,15,40.5,20,completed,\n"
            "3,0,0,0.002,,,,10,0,0,0,,,,,,waiting,\n");
}

TEST(StepRowsTest, WritesEveryStepWithItsTimesAndSums) {
  std::ostringstream out;
  StepRows rows(out);
  RequestTracker tracker({10, Delivery::kPerStep, {}}, std::array<RunListener*, 1>{&rows});
  ScriptedRun script({&tracker});
  TellSmallRun(script);
  // Step 1 reads 40 + 8 keys, the decodes 41 and 42.
  EXPECT_EQ(out.str(),
            "step,planned_at_s,started_s,finished_s,duration_ms,prefill_tokens,decode_tokens,"
            "padding_tokens,recomputed_tokens,sequences,context_tokens,preempted,free_blocks,"
            "running,waiting,swapped\n"
            "1,0.002,0.004,0.012,8,16,0,0,0,2,48,0,5,2,1,0\n"
            "2,0.012,0.012,0.022,10,0,1,0,0,1,41,0,0,0,0,0\n"
            "3,0.022,0.022,0.042,20,0,1,0,0,1,42,0,0,0,0,0\n");
}

TEST(SeriesTest, AveragesEachWindowOverItsObservedPart) {
  Series series({Duration{10'000'000}, 16, 10});
  RequestTracker tracker({10, Delivery::kPerStep, {}}, std::array<RunListener*, 1>{&series});
  ScriptedRun script({&tracker});
  script.Arrive(At(5), R(0), 6);
  StepPlan plan;
  plan.admitted = {R(0)};
  plan.work = {Prefill(R(0), 0, 6)};
  plan.free_blocks = 6;
  script.Finish(At(25), script.Launch(At(8), plan), {Last(R(0))});
  script.Close();
  // Window 0 is observed from 5 to 10 ms: waiting for 3 ms, running for 2 with 4 of 10 blocks.
  // Window 1 runs throughout; window 2 is observed from 20 to 25 and ends with 6 tokens.
  std::ostringstream out;
  series.WriteTo(out);
  EXPECT_EQ(out.str(),
            "time_s,waiting,running,swapped,kv_used_share,prefill_tokens_per_s,decode_tokens_per_s,"
            "mean_batch_tokens,arrivals,completions\n"
            "0,0.6,0.4,0,0.16,0,0,,1,0\n"
            "0.01,0,1,0,0.4,0,0,,0,0\n"
            "0.02,0,1,0,0.4,1200,0,6,0,1\n");
}

TEST(SeriesTest, EqualsTheLongerIntervalAfterDoubling) {
  Series bounded({Duration{1'000'000}, 8, 100});
  RequestTracker tracker({100, Delivery::kPerStep, {}}, std::array<RunListener*, 1>{&bounded});
  testing::RandomRun run(3, 60, {&tracker});
  run.Play();
  EXPECT_LE(bounded.points(), 8u);
  EXPECT_GT(bounded.interval(), Duration{1'000'000});
  Series plain({bounded.interval(), 1024, 100});
  RequestTracker again({100, Delivery::kPerStep, {}}, std::array<RunListener*, 1>{&plain});
  testing::RandomRun same(3, 60, {&again});
  same.Play();
  std::ostringstream left;
  std::ostringstream right;
  bounded.WriteTo(left);
  plain.WriteTo(right);
  EXPECT_EQ(left.str(), right.str());
}

TEST(SeriesTest, ConservesTokensArrivalsAndCompletions) {
  Series series({Duration{50'000'000}, 4096, 100});
  RequestTracker tracker({100, Delivery::kPerStep, {}}, std::array<RunListener*, 1>{&series});
  testing::RandomRun run(4, 200, {&tracker});
  run.Play();
  std::ostringstream out;
  series.WriteTo(out);
  const auto rows = Cells(Body(out));
  double tokens = 0;
  int arrivals = 0;
  int completions = 0;
  // All windows but the first and the last are observed for 50 ms.
  const double head = 0.05 - Seconds(run.truth().front().arrival);
  const double tail = Seconds(run.end()) - 0.05 * static_cast<double>(rows.size() - 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double observed = i == 0 ? head : i + 1 == rows.size() ? tail : 0.05;
    if (!rows[i][5].empty()) tokens += observed * (std::stod(rows[i][5]) + std::stod(rows[i][6]));
    arrivals += std::stoi(rows[i][8]);
    completions += std::stoi(rows[i][9]);
  }
  int completed = 0;
  for (const testing::TrueRequest& r : run.truth()) completed += r.completed ? 1 : 0;
  EXPECT_EQ(arrivals, 200);
  EXPECT_EQ(completions, completed);
  EXPECT_NEAR(tokens, static_cast<double>(run.computed_tokens), 1e-3);
}

TEST(NumberTextTest, WritesNanosecondsExactlyInLargerUnits) {
  const auto text = [](std::int64_t value, int digits) {
    std::string out;
    AppendDecimal(out, value, digits);
    return out;
  };
  EXPECT_EQ(text(1'500'000, 6), "1.5");
  EXPECT_EQ(text(0, 9), "0");
  EXPECT_EQ(text(1, 9), "0.000000001");
  EXPECT_EQ(text(-20, 1), "-2");
  EXPECT_EQ(text(-1, 9), "-0.000000001");
  EXPECT_EQ(text(120, 0), "120");
  EXPECT_EQ(text(std::numeric_limits<std::int64_t>::min(), 9), "-9223372036.854775808");
  EXPECT_EQ(text(std::numeric_limits<std::int64_t>::max(), 18), "9.223372036854775807");
}

TEST(PartRowsTest, HasARowPerStepWithTimesToTheNanosecond) {
  std::ostringstream out;
  PartRows rows(out);
  EXPECT_EQ(out.str(),
            "step,planned_s,started_s,finished_s,told_s,schedule_ms,build_ms,gemm_ms,attention_ms,"
            "communication_ms,other_ms,sampling_ms,delivery_ms,clocks_ms\n");
  StepTimes times{.planned = kTimeZero + Duration{1},
                  .started = kTimeZero + Duration{1'500'000'000},
                  .finished = kTimeZero + Duration{2'000'000'007},
                  .told = kTimeZero + Duration{2'000'001'000}};
  times.parts[StepPart::kGemm] = Duration{1'250'000};
  times.parts[StepPart::kDelivery] = Duration{993};
  rows.Add(0, StepId{1}, times);
  rows.Add(0, StepId{2}, StepTimes{});
  EXPECT_EQ(Body(out),
            "1,0.000000001,1.5,2.000000007,2.000001,0,0,1.25,0,0,0,0,0.000993,0\n"
            "2,0,0,0,0,0,0,0,0,0,0,0,0,0\n");
}

TEST(PartRowsTest, NamesTheReplicaWhereThereAreSeveral) {
  std::ostringstream out;
  PartRows rows(out, {.replica = true});
  EXPECT_TRUE(out.str().ends_with(",clocks_ms,replica\n"));
  rows.Add(3, StepId{1}, StepTimes{});
  EXPECT_EQ(Body(out), "1,0,0,0,0,0,0,0,0,0,0,0,0,0,3\n");
}

}  // namespace
}  // namespace twin
