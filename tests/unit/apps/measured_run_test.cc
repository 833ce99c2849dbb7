// twinserve validate --measured: a run of four requests, whose numbers are computed by hand.
//
// A step takes 10 ms. The first request alone is answered by the steps that end at 10, 20, ... 50
// ms. The second one is sent at 5 ms, is part of the second step, and waits 15 ms for its first
// token; the third one is alone again. Four further tokens take 40 ms. The clients measured first
// tokens after 20, 30 and 20 ms, and 10 ms from token to token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "apps/page/plotly.h"
#include "tests/unit/apps/experiment_folder.h"
#include "tests/unit/apps/measured_files.h"
#include "tests/unit/apps/server_metrics.h"

namespace twin::apps {
namespace {

using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HistogramText;
using testing::kAfter;
using testing::kBefore;
using ::testing::Not;
using testing::SglangMetrics;
using ::testing::StartsWith;
using testing::VllmMetrics;

// A system needs no workload, as the load is that of the measured run.
constexpr const char* kSystem = R"(schema_version: 1
name: "system"
policy { vllm_v1 { max_num_batched_tokens: 2048 max_num_seqs: 8 max_model_len: 4096 } }
system { model: "llama-3-8b" hardware: "h100-sxm" memory { blocks_override: 1000 } BOUNDARY }
cost { constant { step_s: 0.01 } }
)";
constexpr const char* kBoundary =
    "boundary { request_s { mean_s: 0.005 kind: constant } response_s { mean_s: 0.005 kind: "
    "constant } }";

class MeasuredRunTest : public testing::ExperimentFolderTest {
 protected:
  MeasuredRunTest() {
    std::string system = kSystem;
    const std::size_t at = system.find("BOUNDARY");
    Write("system.textproto", std::string(system).replace(at, 8, ""));
    Write("boundary.textproto", std::string(system).replace(at, 8, kBoundary));
    Write("vllm.json", testing::MeasuredVllm());
    Write("sglang.jsonl", testing::MeasuredSglang());
    Write("aiperf.jsonl", testing::MeasuredAiPerf());
    Write("log.csv", testing::kMeasuredLog);
  }

  [[nodiscard]] CommandOutcome Validate(const std::string& file,
                                        const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"validate", "--measured", file, "--out", "out"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }

  // The cells of errors.csv by metric, under the names of their columns.
  [[nodiscard]] std::map<std::string, std::map<std::string, std::string>> Errors() const {
    std::istringstream lines(ReadText(scratch_.File("out/errors.csv")));
    const auto cells = [](const std::string& line) {
      std::vector<std::string> found;
      std::istringstream text(line);
      for (std::string cell; std::getline(text, cell, ',');) found.push_back(cell);
      return found;
    };
    std::string line;
    std::getline(lines, line);
    const std::vector<std::string> names = cells(line);
    std::map<std::string, std::map<std::string, std::string>> errors;
    while (std::getline(lines, line)) {
      const std::vector<std::string> row = cells(line);
      for (std::size_t i = 0; i < row.size(); ++i) errors[row.at(1)][names.at(i)] = row[i];
    }
    return errors;
  }
  void ExpectError(const std::string& metric, double measured, double simulated, double percent) {
    const auto row = Errors()[metric];
    ASSERT_FALSE(row.empty()) << metric;
    EXPECT_NEAR(std::stod(row.at("measured")), measured, 0.005) << metric;
    EXPECT_NEAR(std::stod(row.at("simulated")), simulated, 0.005) << metric;
    EXPECT_NEAR(std::stod(row.at("error_percent")), percent, 0.05) << metric;
  }
};

// Simulated first tokens without a boundary: 10, 15, 10 ms.
TEST_F(MeasuredRunTest, ErrorsOfAllFormatsWithTimesAreThoseByHand) {
  for (const char* file : {"vllm.json", "aiperf.jsonl", "log.csv"}) {
    SCOPED_TRACE(file);
    const CommandOutcome outcome = Validate(file, {"--system", "system.textproto"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    ExpectError("mean_ttft_ms", 23.33, 11.67, -50.0);
    ExpectError("mean_tpot_ms", 10, 10, 0);
    ExpectError("mean_e2el_ms", 63.33, 51.67, -18.4);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("recorded send times"),
                                   HasSubstr("1 of 4 requests failed and is left out"),
                                   HasSubstr("too few requests (3 of 368)")));
    EXPECT_THAT(outcome.err, HasSubstr("1 of 4 requests failed"));
    EXPECT_THAT(Errors()["p99_ttft_ms"]["verdict"], HasSubstr("too few requests (3 of 368)"));
  }
}

// The figures read it: what was measured, and the gaps where there is one for each token.
TEST_F(MeasuredRunTest, TheFolderMeasuredHoldsWhatFiguresNeed) {
  ASSERT_EQ(Validate("vllm.json", {"--system", "system.textproto"}).exit_code, 0);
  const std::filesystem::path folder = scratch_.path() / "out/measured";
  EXPECT_EQ(nlohmann::json::parse(ReadText((folder / "measured.json").string()))["format"],
            "vLLM bench");
  EXPECT_THAT(Run({"compare", "out/measured/vllm_bench.json", "--metrics", "mean_itl_ms"}).out,
              ::testing::ContainsRegex("mean_itl_ms +ms +10\n"));
  ASSERT_EQ(Validate("log.csv", {"--system", "system.textproto"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "vllm_bench.json"));
}

// 5 ms on the way to the engine and 5 ms back: 20, 25, 20 ms.
TEST_F(MeasuredRunTest, TheBoundaryExplainsMostOfTheErrorOfTtft) {
  const CommandOutcome outcome = Validate("vllm.json", {"--system", "boundary.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ExpectError("mean_ttft_ms", 23.33, 21.67, -7.1);
  ExpectError("mean_tpot_ms", 10, 10, 0);
  ExpectError("mean_e2el_ms", 63.33, 61.67, -2.6);
  EXPECT_THAT(outcome.out,
              HasSubstr("TTFT mean: the part that matters most is the boundary: 10.00 ms; without "
                        "it the error is -50.0 % in place of -7.1 %"));
  EXPECT_THAT(ReadText(scratch_.File("out/report.md")),
              AllOf(HasSubstr("boundary.textproto (--system)"), HasSubstr("| boundary |")));
}

// The figures of a page with Plotly, in the order of its captions.
class MeasuredPageTest : public MeasuredRunTest {
 protected:
  void SetUp() override {
    if (run::PlotlyScript().empty()) GTEST_SKIP() << "tools/fetch_plotly has not been run";
  }

  void Read() {
    page_ = ReadText(scratch_.File("out/report.html"));
    const std::string begin = "id=\"figures\">";
    const std::size_t at = page_.find(begin) + begin.size();
    figures_ = nlohmann::json::parse(page_.substr(at, page_.find("</script>", at) - at));
    page_.resize(page_.find("</script>", at));  // without the library
    const std::string body = page_.substr(0, at);
    const std::string tag = "<figcaption>";
    titles_.clear();
    for (std::size_t from = body.find(tag); from != std::string::npos;
         from = body.find(tag, from + 1)) {
      const std::size_t text = from + tag.size();
      titles_.push_back(body.substr(text, body.find('<', text) - text));
    }
  }

  std::string page_;
  nlohmann::json figures_;
  std::vector<std::string> titles_;
};

// Measured TTFT 20, 30, 20 ms, simulated 10, 15, 10 ms.
TEST_F(MeasuredPageTest, FiguresShowTheRequestsOfBothSides) {
  const CommandOutcome outcome = Validate("vllm.json", {"--system", "system.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("wrote out/report.html, and report.md"));
  Read();
  EXPECT_THAT(titles_,
              ElementsAre("Predicted against measured: time to first token",
                          "Distribution: time to first token", "Over time: time to first token",
                          "Predicted against measured: end-to-end latency",
                          "Distribution: end-to-end latency", "Over time: end-to-end latency"));
  ASSERT_EQ(figures_.size(), 6u);
  const nlohmann::json& pairs = figures_[0]["data"];
  EXPECT_EQ(pairs[0]["x"], (nlohmann::json{20, 30, 20}));
  EXPECT_EQ(pairs[0]["y"], (nlohmann::json{10, 15, 10}));
  EXPECT_EQ(pairs[1]["x"], (nlohmann::json{20, 30}));
  EXPECT_EQ(figures_[1]["data"][0]["x"], (nlohmann::json{20, 20, 30}));
  EXPECT_EQ(figures_[1]["data"][1]["x"], (nlohmann::json{10, 10, 15}));
  // End-to-end latency of the request that was sent at 200 ms, in the last window.
  EXPECT_EQ(figures_[5]["data"][0]["y"].back(), 60);
  EXPECT_EQ(figures_[5]["data"][1]["y"].back(), 50);
  EXPECT_THAT(page_, AllOf(HasSubstr("<td>TTFT mean</td>"), HasSubstr("1 of 4 requests failed"),
                           HasSubstr("Parts of the model, one switched off at a time")));
}

TEST_F(MeasuredPageTest, LeavesOutFiguresWithoutTheirTimes) {
  ASSERT_EQ(Validate("sglang.jsonl", {"--system", "system.textproto"}).exit_code, 0);
  Read();
  EXPECT_THAT(titles_,
              ElementsAre("Distribution: time to first token", "Distribution: end-to-end latency"));
  EXPECT_THAT(page_, HasSubstr("their arrivals were drawn"));
}

TEST_F(MeasuredRunTest, RunsWithoutTimesAreReplayedWithDrawnArrivals) {
  const CommandOutcome outcome = Validate("sglang.jsonl", {"--system", "system.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("no start times: 20 draws of arrivals at 10/s"));
  EXPECT_EQ(ReadText(scratch_.File("out/load.csv")).find("arrival_ns"), std::string::npos);
  EXPECT_EQ(Errors()["mean_ttft_ms"]["requests"], "3");
}

// The simulated run's own clients, as a log: no error, and intervals without a width.
TEST_F(MeasuredRunTest, ASimulatedRunAgreesWithItself) {
  (void)RunSmall("run");
  const CommandOutcome outcome = Validate("run/requests.csv", {"--system", "small.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto errors = Errors();
  for (const char* metric :
       {"mean_ttft_ms", "p90_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "request_throughput"}) {
    EXPECT_NEAR(std::stod(errors.at(metric).at("error_percent")), 0, 1e-3) << metric;
    EXPECT_THAT(errors.at(metric).at("verdict"), StartsWith("agrees within ")) << metric;
  }
}

// The log of a server with steps twice as long: every latency is off, and significantly so.
TEST_F(MeasuredRunTest, ASlowerServerIsOff) {
  (void)RunSmall("run", {"--set", "cost.linear.base_s=0.01"});
  const CommandOutcome outcome = Validate("run/requests.csv", {"--system", "small.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  auto errors = Errors();
  EXPECT_THAT(errors["mean_tpot_ms"]["verdict"], StartsWith("off by -"));
  EXPECT_LT(std::stod(errors["mean_tpot_ms"]["high_percent"]), 0);
}

// The server ran two requests at a time, and nobody said so.
TEST_F(MeasuredRunTest, ALimitThatNobodyNamedIsTheCause) {
  (void)RunSmall("run", {"--set", "policy.vllm_v1.max_num_seqs=2"});
  const CommandOutcome outcome = Validate("run/requests.csv", {"--system", "small.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("\nCause: never more than 2 requests generated at once though "),
                    HasSubstr(" falls with --set policy.vllm_v1.max_num_seqs=2 (then 0 %)"),
                    HasSubstr("\nTTFT, simulated: waiting ")));
}

TEST_F(MeasuredRunTest, ACappedLoadIsReadInTwoWays) {
  Write(
      "capped.json",
      std::string("{") + testing::kMeasuredLists +
          R"(, "start_times": [0, 0.005, 0.2, 0.3], "request_rate": "inf", "max_concurrency": 2})");
  const CommandOutcome outcome = Validate("capped.json", {"--system", "system.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("with 2 clients who wait for their answers in place of the "
                                     "recorded times, TTFT mean is off by "));
  ExpectError("mean_ttft_ms", 23.33, 11.67, -50.0);
}

TEST_F(MeasuredRunTest, TotalsAloneAreComparedInTheirMeans) {
  Write("totals.json",
        R"({"completed": 3, "failed": 0, "total_input_tokens": 300, "total_output_tokens": 15,
            "request_rate": "inf", "max_concurrency": 1, "mean_ttft_ms": 20, "p99_ttft_ms": 20})");
  const CommandOutcome outcome = Validate("totals.json", {"--system", "system.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ExpectError("mean_ttft_ms", 20, 10, -50);
  EXPECT_FALSE(Errors().contains("p99_ttft_ms"));
  EXPECT_THAT(outcome.out, HasSubstr("too little to judge percentiles"));
}

class MetricSnapshotsTest : public MeasuredRunTest {
 protected:
  MetricSnapshotsTest() {
    Write("before.prom", VllmMetrics(kBefore));
    Write("after.prom", VllmMetrics(kAfter));
  }

  [[nodiscard]] CommandOutcome Compare(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"validate",   "--measured", "before.prom",
                                          "after.prom", "--out",      "out"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

// One client waits for each answer, which takes five steps of 10 ms. 3 requests in 0.3 s.
TEST_F(MetricSnapshotsTest, MeansOfTheTimeBetweenThemAreCompared) {
  const CommandOutcome outcome =
      Compare({"--system", "system.textproto", "--concurrency", "1", "--between", "0.3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ExpectError("mean_ttft_ms", 23.33, 10, -57.1);
  ExpectError("mean_e2el_ms", 63.33, 50, -21.1);
  ExpectError("mean_itl_ms", 10, 10, 0);
  ExpectError("request_throughput", 10, 20, 100);
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("1 clients who wait for their answers; lengths by the histograms, in random "
                      "pairs"),
            HasSubstr("percentiles are known to the width of a bucket; they cannot tell"),
            HasSubstr("the times are the server's"), HasSubstr("the server preempted 3 times"),
            HasSubstr("25.0 % of the prompts' tokens were prefix hits"),
            HasSubstr("1 requests were running at the first snapshot"),
            Not(HasSubstr("`curl SERVER/metrics`"))));
  EXPECT_EQ(ReadText(scratch_.File("out/load.csv")).find("arrival_ns"), std::string::npos);
}

// The boundary of 5 ms each way is no part of what a server measures, unless it is asked for.
TEST_F(MetricSnapshotsTest, TheSimulationHasNoBoundaryEither) {
  ASSERT_EQ(Compare({"--system", "boundary.textproto", "--concurrency", "1"}).exit_code, 0);
  ExpectError("mean_ttft_ms", 23.33, 10, -57.1);
  ASSERT_EQ(Compare({"--system", "boundary.textproto", "--concurrency", "1", "--set",
                     "system.boundary=request_s { mean_s: 0.005 kind: constant }"})
                .exit_code,
            0);
  ExpectError("mean_ttft_ms", 23.33, 15, -35.7);
}

// 40 requests of 100 and 5 tokens: 30 first tokens up to 20 ms, 10 within 20 to 50 ms; ends within
// 50 to 100 ms. Simulated are 10 and 50 ms. The rank of the median, 20 of 40, is 14 to 26 with its
// interval of 95 %, so up to 20 ms; that of p90 is 36 of 40, 32 to 40, so within 20 to 50 ms.
TEST_F(MetricSnapshotsTest, QuantilesAreComparedWithTheirBuckets) {
  const auto text = [](int requests, int fast) {
    return HistogramText("vllm:request_prompt_tokens", 50, 100, 0, requests, 100 * requests) +
           HistogramText("vllm:request_generation_tokens", 2, 5, 0, requests, 5 * requests) +
           HistogramText("vllm:time_to_first_token_seconds", 0.02, 0.05, fast, requests,
                         0.02 * requests) +
           HistogramText("vllm:e2e_request_latency_seconds", 0.05, 0.1, 0, requests,
                         0.06 * requests);
  };
  Write("before.prom", text(0, 0));
  Write("after.prom", text(40, 30));
  const CommandOutcome outcome = Compare({"--system", "system.textproto", "--concurrency", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  auto errors = Errors();
  EXPECT_EQ(errors["p50_ttft_ms"]["verdict"], "cannot tell (measured in 0 to 20)");
  EXPECT_EQ(errors["p90_ttft_ms"]["verdict"], "off by -73.7 % (measured in 20 to 50)");
  EXPECT_NEAR(std::stod(errors["p90_ttft_ms"]["low_percent"]), -80, 1e-9);   // 10 / 50
  EXPECT_NEAR(std::stod(errors["p90_ttft_ms"]["high_percent"]), -50, 1e-9);  // 10 / 20
  // Rank 36 is the sixth of ten samples in the bucket.
  EXPECT_NEAR(std::stod(errors["p90_ttft_ms"]["measured"]), 20 + 30 * 0.6, 1e-9);
  EXPECT_EQ(errors["p99_ttft_ms"]["verdict"], "too few requests (40 of 368)");
  EXPECT_THAT(errors["p50_e2el_ms"]["verdict"], HasSubstr("(measured in 50 to 100)"));
}

// Without a rate or a limit, the time between the snapshots gives 3 / 0.3 requests per second.
TEST_F(MetricSnapshotsTest, TheTimeBetweenThemGivesTheRate) {
  const CommandOutcome outcome = Compare({"--system", "system.textproto", "--between", "0.3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("no start times: 20 draws of arrivals at 10/s; lengths by"));
  const CommandOutcome none = Compare({"--system", "system.textproto"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(none.wrote_one_line()) << none.err;
  EXPECT_THAT(none.err, HasSubstr("says neither when its requests were sent nor how"));
}

TEST_F(MetricSnapshotsTest, ModelAndBlocksComeFromLabels) {
  const CommandOutcome outcome =
      Compare({"--hardware", "h100", "--server", "vLLM 0.15.1", "--tp", "1", "--concurrency", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(ReadText(scratch_.File("out/report.md")),
              AllOf(HasSubstr("--model llama-3-8b (model_name)"),
                    HasSubstr("20000 KV blocks (cache_config_info.num_gpu_blocks)")));
}

// 20,000 blocks of 32 tokens, of one byte a number: the labels say so.
TEST_F(MetricSnapshotsTest, TheBlocksHaveTheSizeAndTheFormatOfTheirLabels) {
  for (const char* const file : {"before.prom", "after.prom"}) {
    const std::string text = ReadText(scratch_.File(file));
    const std::string plain = "block_size=\"16\"";
    const std::size_t at = text.find(plain);
    ASSERT_NE(at, std::string::npos);
    Write(file, text.substr(0, at) + "block_size=\"32\",cache_dtype=\"fp8_e4m3\"" +
                    text.substr(at + plain.size()));
  }
  const CommandOutcome outcome =
      Compare({"--hardware", "h100", "--server", "vLLM 0.33.0", "--tp", "1", "--concurrency", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(ReadText(scratch_.File("out/report.md")),
              AllOf(HasSubstr("--block-size 32 (cache_config_info.block_size)"),
                    HasSubstr("--kv-cache-dtype fp8_e4m3 (cache_config_info.cache_dtype)")));
}

// 10 drafts in the run, of which 18.5 tokens were accepted: 1 + 1.85 tokens of a step.
TEST_F(MetricSnapshotsTest, DraftsOfTheServerAreSaid) {
  const auto add = [&](const char* file, const char* drafts, const char* accepted) {
    Write(file, ReadText(scratch_.File(file)) + "vllm:spec_decode_num_drafts_total " + drafts +
                    "\nvllm:spec_decode_num_accepted_tokens_total " + accepted + "\n");
  };
  add("before.prom", "5", "3");
  add("after.prom", "15", "21.5");
  const CommandOutcome outcome =
      Compare({"--hardware", "h100", "--server", "vLLM 0.33.0", "--tp", "1", "--concurrency", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the server verified drafts, and the simulation does not: "
                                     "accept_length 2.85"));
}

// SGLang counts tokens without histograms of lengths unless it is asked to: requests of the mean
// lengths, of which no percentile is judged.
TEST_F(MetricSnapshotsTest, ReadsTheNamesOfSglang) {
  Write("before.prom", SglangMetrics(kBefore));
  Write("after.prom", SglangMetrics(kAfter));
  const CommandOutcome outcome = Compare({"--system", "system.textproto", "--concurrency", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ExpectError("mean_ttft_ms", 23.33, 10, -57.1);
  ExpectError("mean_e2el_ms", 63.33, 50, -21.1);
  EXPECT_FALSE(Errors().contains("p50_ttft_ms"));
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("; mean lengths"), HasSubstr("too little to judge percentiles"),
                    HasSubstr("50.0 % of the prompts' tokens were prefix hits")));
  const CommandOutcome options = Compare(
      {"--hardware", "h100", "--server", "SGLang 0.5.23", "--tp", "1", "--concurrency", "1"});
  ASSERT_EQ(options.exit_code, 0) << options.err;
  EXPECT_THAT(ReadText(scratch_.File("out/report.md")), HasSubstr("(max_total_num_tokens)"));
}

TEST_F(MetricSnapshotsTest, RefusesOtherFilesInOneLine) {
  Write("other.prom", "# TYPE up gauge\nup 1\n");
  Write("broken.prom", "vllm:x{a=\"b} 1\n");
  Write("sglang.prom", SglangMetrics(kAfter));
  const auto error = [&](const std::vector<std::string>& files) {
    std::vector<std::string> arguments = {"validate", "--system", "system.textproto", "--measured"};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const CommandOutcome outcome = Run(arguments);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({"after.prom", "before.prom"}), HasSubstr("before.prom: vllm:"));
  EXPECT_THAT(error({"after.prom", "before.prom"}), HasSubstr(" falls from 13 to 10; allowed:"));
  EXPECT_THAT(error({"before.prom", "before.prom"}), HasSubstr("no request ended since"));
  EXPECT_THAT(error({"before.prom", "other.prom"}),
              HasSubstr("other.prom: has no metric vllm:e2e_request_latency_seconds or sglang:"));
  EXPECT_THAT(error({"before.prom", "sglang.prom"}), HasSubstr("allowed: one server"));
  EXPECT_THAT(error({"broken.prom", "after.prom"}), HasSubstr("broken.prom:1: is no sample"));
  EXPECT_THAT(error({"after.prom"}), HasSubstr("is a snapshot of /metrics; allowed: two"));
  EXPECT_THAT(error({"a", "b", "c"}), HasSubstr("names 3 files; allowed: one, or two snapshots"));
  EXPECT_THAT(Validate("vllm.json", {"--system", "system.textproto", "--between", "3"}).err,
              HasSubstr("--between: is the time between two snapshots"));
}

// Two turns of one conversation, 100 ms apart, and a request between them. The second prompt of 250
// tokens repeats the 100 + 100 of the first turn, which are 12 whole chunks of 16; its own end at
// 260 tokens makes 16 chunks.
TEST_F(MeasuredRunTest, TurnsOfAConversationShareWhatWasSaid) {
  Write("chat.csv",
        "arrival_s,prompt_tokens,output_tokens,ttft_ms,e2e_ms,conversation_id\n"
        "0,100,100,10,1000,a\n0.05,100,5,20,60,b\n1.1,250,10,10,100,a\n");
  const CommandOutcome outcome = Validate("chat.csv", {"--system", "system.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 requests are turns of conversations"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("before the simulated answer")));
  std::istringstream lines(ReadText(scratch_.File("out/load.csv")));
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream text(line);
    rows.emplace_back();
    for (std::string cell; std::getline(text, cell, ',');) rows.back().push_back(cell);
  }
  ASSERT_EQ(rows.size(), 4u);
  const auto cell = [&](std::size_t row, const std::string& column) -> std::string {
    for (std::size_t i = 0; i < rows[0].size(); ++i) {
      if (rows[0][i] == column) return i < rows[row].size() ? rows[row][i] : "";
    }
    return "no column";
  };
  EXPECT_EQ(cell(1, "session"), cell(3, "session"));
  EXPECT_EQ(cell(2, "session"), "0");
  EXPECT_EQ(cell(2, "prefix_chunks"), "");
  const std::string first = cell(1, "prefix_chunks");
  const std::string second = cell(3, "prefix_chunks");
  EXPECT_EQ(std::count(first.begin(), first.end(), ';'), 11);
  EXPECT_EQ(std::count(second.begin(), second.end(), ';'), 15);
  EXPECT_TRUE(second.starts_with(first));
}

// The prompt of the second turn is too short to repeat the first one, and it is sent 40 ms before
// the simulated answer of 10 steps has ended.
TEST_F(MeasuredRunTest, AShortTurnSharesNothingAndMayComeTooEarly) {
  Write("chat.csv",
        "arrival_s,prompt_tokens,output_tokens,ttft_ms,e2e_ms,conversation_id\n"
        "0,100,10,10,50,a\n0.06,50,10,10,100,a\n");
  const CommandOutcome outcome = Validate("chat.csv", {"--system", "system.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 of them are sent at their recorded times before the "
                                     "simulated answer to the turn before has ended"));
  const std::string load = ReadText(scratch_.File("out/load.csv"));
  const std::string chunks = load.substr(load.find(",16,") + 4);
  EXPECT_EQ(load.find(chunks.substr(0, chunks.find(';')), load.rfind(",16,")), std::string::npos);
}

TEST_F(MeasuredRunTest, AiPerfNamesConversationsAndTheirTurns) {
  const auto turn = [](const char* start_ns, const char* id, const char* index) {
    std::string record = testing::AiPerfRecord(start_ns, "20", "60");
    return record.replace(
        record.find("\"request_start_ns\""), 0,
        std::string(R"("conversation_id": ")") + id + R"(", "turn_index": )" + index + ", ");
  };
  // The third record begins conversation a again; b has one turn.
  Write("chat.jsonl", turn("1000000000000", "a", "0") + turn("1000100000000", "a", "1") +
                          turn("1000200000000", "a", "0") + turn("1000300000000", "b", "0"));
  const CommandOutcome outcome = Validate("chat.jsonl", {"--system", "system.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 requests are turns of conversations"));
}

TEST_F(MeasuredRunTest, OneErrorNamesAllThatIsMissingAndALineToPaste) {
  const CommandOutcome outcome = Validate("vllm.json", {"--model", "llama-3.1-8b"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("twinserve: validate: neither vllm.json nor an option says: the "
                              "device, the server and its version, the ranks of tensor "
                              "parallelism; allowed: such as twinserve validate --measured "
                              "vllm.json --model llama-3.1-8b --hardware h100 --server \"vLLM "
                              "0.33.0\" --tp 1; or --system"),
                    Not(HasSubstr("the model,"))));
  EXPECT_FALSE(Files().contains("out"));
}

TEST_F(MeasuredRunTest, RefusesWhatContradictsTheFileInOneLine) {
  const auto error = [&](const std::vector<std::string>& more) {
    const CommandOutcome outcome = Validate("vllm.json", more);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_FALSE(Files().contains("out"));
    return outcome.err;
  };
  EXPECT_THAT(
      error({"--system", "system.textproto", "--rate", "5"}),
      HasSubstr("validate: --rate: the load comes from vllm.json; allowed: without --rate"));
  EXPECT_THAT(error({"--system", "system.textproto", "--input-len", "5"}),
              HasSubstr("--input-len: the load comes from vllm.json"));
  EXPECT_THAT(error({"--system", "system.textproto", "--tp", "2"}),
              HasSubstr("--tp: two ways to name an experiment; allowed: the file with --set "
                        "system.tensor_parallel=2"));
  EXPECT_EQ(Run({"validate", "small.textproto", "--tp", "2"}).exit_code, 2);
  EXPECT_EQ(Validate("missing.json", {"--system", "system.textproto"}).exit_code, 1);
}

}  // namespace
}  // namespace twin::apps
