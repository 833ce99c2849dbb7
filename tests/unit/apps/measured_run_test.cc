// twinserve validate --measured: a run of four requests, whose numbers are computed by hand.
//
// A step takes 10 ms. The first request alone is answered by the steps that end at 10, 20, ... 50
// ms. The second one is sent at 5 ms, is part of the second step, and waits 15 ms for its first
// token; the third one is alone again. Four further tokens take 40 ms. The clients measured first
// tokens after 20, 30 and 20 ms, and 10 ms from token to token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "apps/page/plotly.h"
#include "tests/unit/apps/experiment_folder.h"
#include "tests/unit/apps/measured_files.h"

namespace twin::apps {
namespace {

using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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
  for (const char* metric : {"mean_ttft_ms", "p90_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"}) {
    EXPECT_NEAR(std::stod(errors.at(metric).at("error_percent")), 0, 1e-3) << metric;
    EXPECT_EQ(errors.at(metric).at("verdict"), "agrees") << metric;
  }
}

// The log of a server with steps twice as long: every latency is off, and significantly so.
TEST_F(MeasuredRunTest, ASlowerServerIsOff) {
  (void)RunSmall("run", {"--set", "cost.linear.base_s=0.01"});
  const CommandOutcome outcome = Validate("run/requests.csv", {"--system", "small.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  auto errors = Errors();
  EXPECT_EQ(errors["mean_tpot_ms"]["verdict"], "off");
  EXPECT_LT(std::stod(errors["mean_tpot_ms"]["high_percent"]), 0);
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

TEST_F(MeasuredRunTest, FactsOfTheFileAreOptionsThatNeedNotBeGiven) {
  Write("facts.json",
        std::string("{") + testing::kMeasuredLists + R"(, "start_times": [0, 0.005, 0.2, 0.3],
          "model_id": "meta-llama/Llama-3.1-8B", "vllm_version": "0.15.1", "gpu": "h100",
          "tp": "1", "num_gpu_blocks": "20000", "max_num_batched_tokens": "4096"})");
  const CommandOutcome outcome = Validate("facts.json", {});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string report = ReadText(scratch_.File("out/report.md"));
  EXPECT_THAT(report,
              AllOf(HasSubstr("--model meta-llama/Llama-3.1-8B (model_id)"),
                    HasSubstr("20000 KV blocks (num_gpu_blocks)"), HasSubstr("tokens a step: 4096"),
                    HasSubstr("known KV blocks, half the token budget (2048), "),
                    HasSubstr("| an older server (vLLM 0.8.5) | TTFT mean |")));
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
