// twinserve validate --measured RUN --steps FILE: recorded steps beside predicted ones, and the
// parts of TTFT that files hold.
//
// tests/unit/traces/step_records.jsonl is derived in step_records_test.cc. The simulated server
// takes 10 ms for each step: requests at 0, 5 and 200 ms are answered by the steps that end at 10,
// 20, ... 60 ms, and by five from 200 ms on; the second one waits from 5 to 10 ms.
#include "apps/validate/measured_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "apps/validate/step_predictor.h"
#include "apps/validate/ttft_parts.h"
#include "tests/unit/apps/experiment_folder.h"
#include "tests/unit/apps/measured_files.h"
#include "tests/unit/apps/server_metrics.h"

namespace twin::apps {
namespace {

using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::HistogramText;
using testing::kAfter;
using testing::kBefore;
using ::testing::Not;
using testing::SglangMetrics;
using testing::VllmMetrics;

constexpr const char* kSystem = R"(schema_version: 1
name: "system"
policy { vllm_v1 { max_num_batched_tokens: 2048 max_num_seqs: 8 max_model_len: 4096 } }
system { model: "llama-3-8b" hardware: "h100-sxm" memory { blocks_override: 1000 } }
cost { constant { step_s: 0.01 } }
)";

// A record of Dynamo's trace: prompts of 100 tokens and decodes with 100 tokens each.
struct Step {
  int counter;
  int observed_ms;
  const char* wall_time;
  int prefills;
  int decodes;
};

std::string TraceOf(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) {
    const auto number = [](const char* name, int value) {
      return "\"" + std::string(name) + "\": " + std::to_string(value);
    };
    text +=
        R"({"event": {)" + number("observed_at_unix_ms", step.observed_ms) +
        R"(, "fpm": {"timing_scope": "execute_model_cuda", "wall_time": )" + step.wall_time + ", " +
        number("counter_id", step.counter) + R"(, "scheduled_requests": {)" +
        number("num_prefill_requests", step.prefills) + ", " +
        number("sum_prefill_tokens", 100 * step.prefills) + ", " +
        number("sum_prefill_kv_tokens", 0) + ", " + number("num_decode_requests", step.decodes) +
        ", " + number("sum_decode_kv_tokens", 100 * step.decodes) +
        R"(}, "queued_requests": {"num_prefill_requests": 2, "num_decode_requests": 1}}}})" + "\n";
  }
  return text;
}

// The steps of a run of equal prompts without chunks, as a server would record them.
std::string RecordsOf(const std::string& steps_csv, int prompt) {
  std::istringstream lines(steps_csv);
  std::string line;
  std::getline(lines, line);
  std::string text;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    const int prompt_tokens = std::stoi(cells.at(5));
    const int decodes = std::stoi(cells.at(6));
    const int context = std::stoi(cells.at(10));
    EXPECT_EQ(prompt_tokens % prompt, 0);
    text += R"({"event": {"observed_at_unix_ms": )" + cells.at(3) + R"(e3, "fpm": {"wall_time": )" +
            cells.at(4) + "e-3" + R"(, "counter_id": )" + std::to_string(number) +
            R"(, "scheduled_requests": {"num_prefill_requests": )" +
            std::to_string(prompt_tokens / prompt) + R"(, "sum_prefill_tokens": )" + cells.at(5) +
            R"(, "sum_prefill_kv_tokens": 0, "num_decode_requests": )" + cells.at(6) +
            R"(, "sum_decode_kv_tokens": )" + std::to_string(context - prompt_tokens - decodes) +
            R"(}, "queued_requests": {"num_prefill_requests": )" + cells.at(14) +
            R"(, "num_decode_requests": 0}}}})" + "\n";
  }
  return text;
}

class MeasuredStepsTest : public testing::ExperimentFolderTest {
 protected:
  MeasuredStepsTest() {
    Write("system.textproto", kSystem);
    Write("vllm.json", testing::MeasuredVllm());
    Write("steps.jsonl", Sample());
  }

  static std::string Sample() {
    return ReadText(std::string(TWIN_SOURCE_DIR) + "/tests/unit/traces/step_records.jsonl");
  }
  // Validates a simulated run of 40 requests with the options `more`, which its validation lacks,
  // and its steps.
  [[nodiscard]] std::string ValidateSimulated(const std::vector<std::string>& more) const {
    const std::vector<std::string> system = {"--model", "llama-3.1-8b", "--hardware",
                                             "h100",    "--server",     "vLLM 0.15.1"};
    std::vector<std::string> run = {"run", "--rate", "12", "--requests", "40", "--out", "r"};
    for (const char* word : {"--set", "outputs.steps_csv=true", "--export", "vllm-detailed"}) {
      run.emplace_back(word);
    }
    run.insert(run.end(), system.begin(), system.end());
    run.insert(run.end(), more.begin(), more.end());
    EXPECT_EQ(Run(run).exit_code, 0);
    Write("trace.jsonl", RecordsOf(ReadText(scratch_.File("r/steps.csv")), 1024));
    std::vector<std::string> validate = {"validate", "--measured",  "r/vllm_bench.json",
                                         "--steps",  "trace.jsonl", "--tp",
                                         "1",        "--out",       "out"};
    validate.insert(validate.end(), system.begin(), system.end());
    const CommandOutcome outcome = Run(validate);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }

  [[nodiscard]] CommandOutcome Validate(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"validate",         "--measured", "vllm.json", "--system",
                                          "system.textproto", "--out",      "out"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

// Eight decodes of 12.5 ms, and prompts of 20, 10 and 20 ms, all of them predicted as 10 ms.
TEST_F(MeasuredStepsTest, StepsAreComparedByKind) {
  const CommandOutcome outcome = Validate({"--steps", "steps.jsonl"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      AllOf(ContainsRegex("decode only +8 +12.5 +10 +-20.0 % +20.0 %\n"),
            ContainsRegex("with prompts +3 +16.67 +10 +-40.0 % +50.0 %\n"),
            ContainsRegex("all +11 +13.64 +10 +-26.7 % +20.0 %\n"),
            Not(HasSubstr("1 to 8 decodes")),
            HasSubstr("11 recorded steps of 1 worker; their times are from the end of one step to "
                      "the end of the next; 1 idle records\n")));
  const std::string csv = ReadText(scratch_.File("out/steps.csv"));
  EXPECT_THAT(csv, AllOf(HasSubstr("record,worker,counter,prefill_requests,"),
                         HasSubstr("\nsteps.jsonl:2,7 rank 0,2,1,100,0,1,101,0,0.01,0.01\n")));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 12);
  EXPECT_THAT(ReadText(scratch_.File("out/report.md")), HasSubstr("### Recorded steps"));
}

// Both sides compute 12 decodes in 11 steps. The first step of 20 ms has one request waiting: 20 of
// 150 ms; in the simulation no step that is planned leaves one. Contexts of the three pairs of
// decodes differ by 0.5 of 101.5, 102.5 and 103.5 tokens.
TEST_F(MeasuredStepsTest, BatchesAndQueuesAreComparedWithTheSimulatedRun) {
  EXPECT_THAT(
      Validate({"--steps", "steps.jsonl"}).out,
      AllOf(HasSubstr("batches, measured / simulated: 11 / 11 steps, 3 / 3 of them with prompts of "
                      "100 / 100 tokens, 1.091 / 1.091 decodes a step\n"),
            HasSubstr("waiting requests of a worker, measured / simulated: 0.1333 / 0 on average "
                      "over its steps, 1 / 0 at most\n"),
            HasSubstr("contexts of the decodes of a step differ by 0.4878 % (standard deviation / "
                      "mean), and are taken as equal\n")));
}

// One request at a time: 15 steps, four of which leave the second request waiting.
TEST_F(MeasuredStepsTest, TheSimulatedQueueIsThatAfterPlanning) {
  EXPECT_THAT(
      Validate({"--steps", "steps.jsonl", "--set", "policy.vllm_v1.max_num_seqs=1"}).out,
      AllOf(HasSubstr("11 / 15 steps, 3 / 3 of them with prompts of 100 / 100 tokens, 1.091 / 0.8 "
                      "decodes a step\n"),
            HasSubstr("0.1333 / 0.2667 on average over its steps, 1 / 1 at most\n"),
            HasSubstr("Where the time goes by the steps, measured / simulated: waiting 6.667 / "
                      "13.33 ms, prefill 16.67 / 10 ms\n")));
}

// By Little's law, three requests wait for 20 ms in all, and prefill for 20 + 10 + 20; in the
// simulation for 10 ms each.
TEST_F(MeasuredStepsTest, CompleteRecordsTellWhereTheTimeGoes) {
  EXPECT_THAT(Validate({"--steps", "steps.jsonl"}).out,
              HasSubstr("Where the time goes by the steps, measured / simulated: waiting 6.667 / 0 "
                        "ms, prefill 16.67 / 10 ms\n"));
}

// The records of a simulated run, in which steps overlap: the predictions are its own times.
TEST_F(MeasuredStepsTest, RecordsOfASimulatedRunArePredictedToTheLastDigit) {
  const std::string out = ValidateSimulated({});
  EXPECT_THAT(out, ContainsRegex("\nall +[0-9]+ +[0-9.]+ +[0-9.]+ +[+-]0.0 % +0.0 %\n"));
  EXPECT_THAT(out, Not(HasSubstr("Step times at the recorded batches")));
  std::istringstream lines(ReadText(scratch_.File("out/steps.csv")));
  std::string line;
  std::getline(lines, line);
  for (int steps = 0; std::getline(lines, line); ++steps) {
    const std::size_t predicted = line.rfind(',');
    const std::size_t measured = line.rfind(',', predicted - 1);
    EXPECT_NEAR(std::stod(line.substr(measured + 1)), std::stod(line.substr(predicted + 1)), 2e-9)
        << line;
  }
}

// A limit that nobody named makes other batches, whose times are right.
TEST_F(MeasuredStepsTest, StepTimesAreToldFromBatches) {
  EXPECT_THAT(ValidateSimulated({"--max-num-seqs", "2"}),
              ContainsRegex("\nStep times at the recorded batches are off by [+-]0.0 %, TTFT mean "
                            "by -9[0-9.]+ %, TPOT mean by [+][0-9.]+ %, E2E mean by -[0-9.]+ %: "
                            "batches, queues and the boundary are the rest\n"));
}

TEST_F(MeasuredStepsTest, RecordsOfAnotherRunDoNotTellIt) {
  const auto note = [&](const std::string& text) {
    Write("other.jsonl", text);
    const CommandOutcome outcome = Validate({"--steps", "other.jsonl"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, Not(HasSubstr("Where the time goes")));
    const std::string begin = "the records do not tell how long requests waited: ";
    const std::size_t at = outcome.out.find(begin);
    if (at == std::string::npos) return outcome.out;
    const std::size_t from = at + begin.size();
    return outcome.out.substr(from, outcome.out.find('\n', at) - from);
  };
  const std::string text = Sample();
  const std::size_t second = text.find('\n') + 1;
  const std::size_t third = text.find('\n', second) + 1;
  EXPECT_EQ(note(text.substr(0, second) + text.substr(third)),
            "records are missing (DYN_FPM_MODE=full writes all)");
  // Without the first two records, 11 tokens are decoded of 3 x 4, where 2 % and 3 are allowed.
  EXPECT_EQ(note(text.substr(third)), "the records decode 11 tokens, the measured run 12");
  std::string without = text;
  without.replace(without.find("queued_requests"), 15, "other");
  EXPECT_EQ(note(without), "the records hold no queues");
}

// Ends 13 and 14 ms after the step before, of which 11 and 12 ms are the device's. The step with
// prompts alone follows a rest, and the last one a step that is missing.
TEST_F(MeasuredStepsTest, TimesOfTheDeviceLeaveAGapForTheHost) {
  Write("trace.jsonl", TraceOf({{1, 900, "0.02", 1, 0},
                                {2, 1000, "0.010", 0, 4},
                                {3, 1013, "0.011", 0, 4},
                                {4, 1027, "0.012", 0, 20},
                                {6, 1090, "0.012", 0, 20}}));
  const CommandOutcome outcome = Validate({"--steps", "trace.jsonl"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("their times are the device's, without the gap before a step"),
            HasSubstr("gap before a step, in which the host works, measured / predicted: 2 "
                      "/ 0 ms\n"),
            ContainsRegex("decode only +4 +11.25 +10 "),
            ContainsRegex("\n  1 to 8 decodes +2 +10.5 +10 +-4.8 %"),
            ContainsRegex("\n  9 to 64 decodes +2 +12 +10 +-16.7 %"), HasSubstr("3 / 0 at most")));
}

TEST_F(MeasuredStepsTest, PromptsWithoutTokensAreLeftOut) {
  std::string text = Sample();
  const std::string tokens = "\"sum_prefill_tokens\": 100, \"var";
  text.replace(text.find(tokens), tokens.size(), "\"sum_prefill_tokens\": 0, \"var");
  Write("steps.jsonl", text);
  EXPECT_THAT(Validate({"--steps", "steps.jsonl"}).out,
              AllOf(HasSubstr("10 recorded steps"),
                    HasSubstr("; 1 records of prompts without their tokens are left out"),
                    HasSubstr("how long requests waited: some records have no tokens")));
}

TEST_F(MeasuredStepsTest, RefusesWhatCannotBeComparedInOneLine) {
  const auto error = [&](const std::vector<std::string>& more) {
    const CommandOutcome outcome = Validate(more);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({"--steps", "steps.jsonl", "--set", "system.pipeline_parallel=2", "--set",
                     "cost=roofline {}"}),
              HasSubstr("validate: --steps: system.pipeline_parallel: must be 1"));
  EXPECT_THAT(error({"--steps", "vllm.json"}),
              HasSubstr("vllm.json:1: scheduled_requests: missing, or null; allowed: Forward"));
  EXPECT_THAT(Run({"validate", "small.textproto", "--steps", "steps.jsonl"}).err,
              HasSubstr("validate: --steps: describes a measured run or its system; allowed: with "
                        "--measured FILE"));
  Write("two.jsonl", testing::MeasuredSglang() + testing::MeasuredSglang());
  EXPECT_THAT(Run({"validate", "--measured", "two.jsonl", "--system", "system.textproto", "--steps",
                   "steps.jsonl"})
                  .err,
              HasSubstr("validate: --steps: are those of one run, and two.jsonl holds 2; allowed: "
                        "a file of one run"));
}

// 101 tokens in two chunks of 51 and 50 behind 15 tokens each; 100 tokens in three caches of 34, 33
// and 33. Pairs: 51 x 15 + 51 x 52 / 2 + 50 x 15 + 50 x 51 / 2.
TEST(StepCompositionTest, SumsAreTheRecords) {
  const StepRecord record{.prefill_requests = 2,
                          .prefill_tokens = 101,
                          .prefill_kv_tokens = 30,
                          .decode_requests = 3,
                          .decode_kv_tokens = 100};
  StepPlan plan;
  SetComposition(record, plan);
  SetComposition(record, plan);  // what was there before is gone
  EXPECT_EQ(plan.work.size(), 5u);
  EXPECT_EQ(plan.totals, (StepTotals{.prefill_tokens = 101,
                                     .prefill_items = 2,
                                     .prefill_context_tokens = 131,
                                     .prefill_attention_pairs = 765 + 1326 + 750 + 1275,
                                     .prefill_context_max = 66,
                                     .decode_items = 3,
                                     .decode_context_tokens = 103,
                                     .decode_context_max = 35,
                                     .emitting_items = 5}));
}

// SGLang's scheduler times the device, whose records then leave the host out.
TEST_F(MeasuredStepsTest, TheStepsOfSglangAreTimedOnTheDevice) {
  EXPECT_THAT(Validate({"--steps", "steps.jsonl", "--set", "policy=sglang {}"}).out,
              AllOf(HasSubstr("their times are the device's"),
                    HasSubstr("the gap between steps, in which the host works, is not known"),
                    HasSubstr("how long requests waited: the records' times leave the host out")));
}

// A host of 500 ms is longer than each of these steps on the device: it alone shows while steps
// overlap, and both do, one after the other, otherwise.
TEST_F(MeasuredStepsTest, TheHostIsHiddenWhereStepsOverlap) {
  const auto predicted = [&](const std::string& host_s, const std::string& async) {
    EXPECT_EQ(Validate({"--steps", "steps.jsonl", "--set",
                        "cost=profile { host_s: " + host_s + " host_per_item_s: 0 }", "--set",
                        "policy.vllm_v1.async_scheduling=" + async})
                  .exit_code,
              0);
    const std::string csv = ReadText(scratch_.File("out/steps.csv"));
    return std::stod(csv.substr(csv.rfind(',') + 1));
  };
  EXPECT_EQ(predicted("0.5", "true"), 0.5);
  const double device = predicted("0", "false");
  EXPECT_GT(device, 0.001);
  EXPECT_NEAR(predicted("0.5", "false"), 0.5 + device, 2e-9);
}

TEST(TtftPartsTest, KnownPartsStandBesideTheSimulatedOnes) {
  const TtftParts simulated{.waiting_ms = 1, .prefill_ms = 10, .boundary_ms = 4};
  const TtftMeans means{.measured_ms = 40, .simulated_ms = 15};
  EXPECT_EQ(TtftPartsLine({}, simulated, means), "");
  EXPECT_EQ(TtftPartsLine({.waiting_ms = 20}, simulated, means),
            ", measured / simulated: waiting 20 / 1 ms, prefill and boundary 20 "
            "/ 14 ms");
  EXPECT_EQ(TtftPartsLine({.waiting_ms = 20, .prefill_ms = 12, .boundary_ms = 8}, simulated, means),
            ", measured / simulated: waiting 20 / 1 ms, prefill 12 / 10 ms, "
            "boundary 8 / 4 ms");
  EXPECT_EQ(TtftPartsLine({.waiting_ms = 20}, simulated, {.measured_ms = {}, .simulated_ms = 15}),
            ", measured / simulated: waiting 20 / 1 ms");
}

// The server queued the requests for 5, 10 and 0 ms of 20, 30 and 20.
TEST_F(MeasuredStepsTest, ALogMayHoldHowLongRequestsWaited) {
  const std::string header = "arrival_s,prompt_tokens,output_tokens,ttft_ms,e2e_ms,queue_time_ms\n";
  Write("log.csv", header + "0,100,5,20,60,5\n0.005,100,5,30,70,10\n0.2,100,5,20,60,0\n");
  const auto validate = [&] {
    return Run({"validate", "--measured", "log.csv", "--system", "system.textproto", "--out", "o"});
  };
  EXPECT_THAT(validate().out, HasSubstr("Where the time goes, measured / simulated: waiting 5 / "
                                        "1.667 ms, prefill and boundary 18.33 / 10 ms\n"));
  Write("log.csv", header + "0,100,5,20,60,25\n");
  EXPECT_THAT(validate().err, HasSubstr("log.csv: request 1: it waits for 25 ms, but its first "
                                        "token comes after 20 ms; allowed: times that rise"));
  Write("log.csv", header + "0,100,5,20,60,5\n0.005,100,5,30,70,\n");
  EXPECT_THAT(validate().out, Not(HasSubstr("Where the time goes")));
}

// Three requests waited for 30 ms and prefilled for 21 ms, of 70 ms until their first tokens. One
// client at a time waits for nothing in the simulation.
TEST_F(MeasuredStepsTest, SnapshotsOfMetricsMayHoldThemToo) {
  const auto parts = [](const char* queue, const char* prefill, int requests, double waiting,
                        double prefilling) {
    return HistogramText(queue, 0.001, 0.3, 0, requests, waiting) +
           (prefill == nullptr ? "" : HistogramText(prefill, 0.001, 0.3, 0, requests, prefilling));
  };
  const auto line = [&] {
    const CommandOutcome outcome =
        Run({"validate", "--measured", "before.prom", "after.prom", "--system", "system.textproto",
             "--concurrency", "1", "--out", "out"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::size_t at = outcome.out.find("Where the time goes");
    if (at == std::string::npos) return std::string();
    return outcome.out.substr(at, outcome.out.find('\n', at) - at);
  };
  constexpr const char* kQueue = "vllm:request_queue_time_seconds";
  constexpr const char* kPrefill = "vllm:request_prefill_time_seconds";
  Write("before.prom", VllmMetrics(kBefore) + parts(kQueue, kPrefill, 10, 0.1, 0.1));
  Write("after.prom", VllmMetrics(kAfter) + parts(kQueue, kPrefill, 13, 0.13, 0.121));
  EXPECT_EQ(line(),
            "Where the time goes, measured / simulated: waiting 10 / 0 ms, prefill 7 / 10 ms, "
            "boundary 6.333 / 0 ms");
  // Other requests than those with a first token: their mean is no part of it.
  Write("after.prom", VllmMetrics(kAfter) + parts(kQueue, kPrefill, 14, 0.14, 0.128));
  EXPECT_EQ(line(), "");
  Write("before.prom",
        SglangMetrics(kBefore) + parts("sglang:queue_time_seconds", nullptr, 10, 0.1, 0));
  Write("after.prom",
        SglangMetrics(kAfter) + parts("sglang:queue_time_seconds", nullptr, 13, 0.13, 0));
  EXPECT_EQ(line(),
            "Where the time goes, measured / simulated: waiting 10 / 0 ms, prefill and boundary "
            "13.33 / 10 ms");
}

}  // namespace
}  // namespace twin::apps
