// twinserve run --export vllm: the result JSON of `vllm bench serve`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;

class VllmExportTest : public testing::ExperimentFolderTest {
 protected:
  json Exported(const std::string& run) const {
    return json::parse(ReadText(scratch_.File(run + "/vllm_bench.json")));
  }
};

// The keys of vLLM's result and what scripts may expect of them: s string, i integer, f number,
// a list, ? also null.
const std::map<std::string, std::string> kKeys = {{"date", "s"},
                                                  {"endpoint_type", "s"},
                                                  {"backend", "s"},
                                                  {"label", "s?"},
                                                  {"model_id", "s"},
                                                  {"tokenizer_id", "s"},
                                                  {"num_prompts", "i"},
                                                  {"request_rate", "fs"},
                                                  {"burstiness", "f?"},
                                                  {"max_concurrency", "i?"},
                                                  {"ramp_up_strategy", "s?"},
                                                  {"ramp_up_start_rps", "f?"},
                                                  {"ramp_up_end_rps", "f?"},
                                                  {"rps_change_events", "a"},
                                                  {"duration", "f"},
                                                  {"completed", "i"},
                                                  {"failed", "i"},
                                                  {"total_input_tokens", "i"},
                                                  {"total_output_tokens", "i"},
                                                  {"request_throughput", "f"},
                                                  {"output_throughput", "f"},
                                                  {"total_token_throughput", "f"},
                                                  {"request_goodput", "f?"},
                                                  {"rtfx", "f"},
                                                  {"max_output_tokens_per_s", "f"},
                                                  {"max_concurrent_requests", "i"},
                                                  {"latencies", "a"},
                                                  {"queue_times", "a"}};

bool IsOf(const json& value, const std::string& types) {
  return (value.is_string() && types.find('s') != std::string::npos) ||
         (value.is_number_integer() && types.find('i') != std::string::npos) ||
         (value.is_number() && types.find('f') != std::string::npos) ||
         (value.is_array() && types.find('a') != std::string::npos) ||
         (value.is_null() && types.find('?') != std::string::npos);
}

TEST_F(VllmExportTest, HasTheKeysAndTypesOfVllm) {
  (void)RunSmall("run", {"--export", "vllm"});
  const json got = Exported("run");
  for (const auto& [key, types] : kKeys) {
    ASSERT_TRUE(got.contains(key)) << key;
    EXPECT_TRUE(IsOf(got[key], types)) << key << " is " << got[key];
  }
  for (const std::string latency :
       {"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}) {
    for (const std::string statistic : {"mean", "median", "std", "p50", "p90", "p95", "p99"}) {
      const std::string key = statistic + "_" + latency + "_ms";
      ASSERT_TRUE(got.contains(key)) << key;
      EXPECT_TRUE(got[key].is_number()) << key;
    }
  }
  for (const char* detail : {"input_lens", "ttfts", "itls", "errors"}) {
    EXPECT_FALSE(got.contains(detail)) << detail;
  }
}

TEST_F(VllmExportTest, ItsValuesAreThoseOfTheSummary) {
  const json summary = RunSmall("run", {"--export", "vllm", "--set", "slo.ttft_s=1"});
  const json got = Exported("run");
  for (const char* key :
       {"completed", "total_input_tokens", "total_output_tokens", "request_throughput",
        "output_throughput", "total_token_throughput", "request_goodput", "mean_ttft_ms",
        "median_tpot_ms", "std_itl_ms", "p99_e2el_ms", "p90_ttft_ms"}) {
    EXPECT_EQ(got[key], summary[key]) << key;
  }
  EXPECT_EQ(got["duration"], summary["duration_seconds"]);
  EXPECT_EQ(got["num_prompts"], 200);
  EXPECT_EQ(got["request_rate"], 20);
  EXPECT_EQ(got["model_id"], "llama-3-8b");
  EXPECT_GE(got["max_concurrent_requests"], summary["max_running"]);
}

// numpy-linear, as vLLM computes its percentiles from the lists.
double Percentile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (position - static_cast<double>(low)) * (values[high] - values[low]);
}

TEST_F(VllmExportTest, TheListsGiveTheScalars) {
  const json summary = RunSmall("run", {"--export", "vllm-detailed"});
  const json got = Exported("run");
  std::vector<double> ttfts;
  std::vector<double> gaps;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < got["num_prompts"]; ++i) {
    ASSERT_EQ(got["errors"][i], "");
    ttfts.push_back(1e3 * got["ttfts"][i].get<double>());
    double until_end = got["ttfts"][i].get<double>();
    for (const json& gap : got["itls"][i]) {
      gaps.push_back(1e3 * gap.get<double>());
      until_end += gap.get<double>();
    }
    EXPECT_NEAR(until_end, got["latencies"][i].get<double>(), 1e-9);
    EXPECT_EQ(got["itls"][i].size() + 1, got["output_lens"][i]);
    tokens += got["output_lens"][i].get<std::int64_t>();
  }
  EXPECT_EQ(tokens, summary["total_output_tokens"]);
  EXPECT_NEAR(Percentile(ttfts, 0.99), summary["p99_ttft_ms"].get<double>(), 1e-6);
  EXPECT_NEAR(Percentile(gaps, 0.9), summary["p90_itl_ms"].get<double>(), 1e-6);
  const double mean =
      std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
  EXPECT_NEAR(mean, summary["mean_itl_ms"].get<double>(), 1e-6);
}

TEST_F(VllmExportTest, CountsRejectedRequestsAsFailedAndSaysWhy) {
  const json summary =
      RunSmall("run", {"--export", "vllm-detailed", "--set", "policy.vllm_v1.max_model_len=32"});
  const json got = Exported("run");
  EXPECT_EQ(got["failed"], summary["rejected"]);
  EXPECT_GT(got["failed"], 0);
  EXPECT_EQ(std::count(got["errors"].begin(), got["errors"].end(), "rejected: too_long_for_model"),
            summary["rejected_too_long_for_model"]);
}

TEST_F(VllmExportTest, NeedsTheRecord) {
  const CommandOutcome outcome = Run({"run", "small.textproto", "--out", "run", "--export", "vllm",
                                      "--set", "outputs.record=false"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("outputs.record"));
  EXPECT_FALSE(std::filesystem::exists(scratch_.File("run")));
}

}  // namespace
}  // namespace twin::apps
