#include "traces/trace_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/files/csv.h"
#include "tests/unit/traces/trace_samples.h"
#include "traces/trace_format.h"
#include "traces/workload.h"

namespace twin {
namespace {

TracedRequest At(Duration arrival, std::vector<std::uint64_t> chunks = {}) {
  TracedRequest request;
  request.arrival = TimePoint{arrival};
  request.prompt_tokens = 40;
  request.output_tokens = 1;
  request.max_output_tokens = 1;
  request.prefix_chunk_tokens = chunks.empty() ? 0 : 16;
  request.prefix_chunks = std::move(chunks);
  return request;
}

// More distinct lengths than a sketch of a run keeps, and still none is rounded.
TEST(TraceStatisticsTest, LengthsAreExactForTensOfThousandsOfDistinctOnes) {
  TraceStatistics statistics;
  TracedRequest request = At(Duration{0});
  for (int i = 1; i <= 40'001; ++i) {
    request.prompt_tokens = 100'000 + i;
    statistics.Add(request);
  }
  EXPECT_DOUBLE_EQ(ComputePercentiles(statistics.prompts()).p50, 120'001);
  EXPECT_DOUBLE_EQ(ComputePercentiles(statistics.prompts()).p90, 136'001);
}

// Counts 2, 0, 2, 0, ... in 1-s windows: mean 1, variance 1, index 1. In 10-s windows 10 each: 0.
TEST(TraceStatisticsTest, DispersionIsVarianceOverMeanOfWindowCounts) {
  TraceStatistics statistics;
  for (int i = 0; i <= 200; ++i) {
    statistics.Add(At(std::chrono::seconds(2 * i)));
    statistics.Add(At(std::chrono::seconds(2 * i)));
  }
  EXPECT_DOUBLE_EQ(statistics.dispersion()[0].value().value(), 1);
  EXPECT_DOUBLE_EQ(statistics.dispersion()[1].value().value(), 0);
  EXPECT_FALSE(statistics.dispersion()[2].value().has_value());  // six windows are too few
}

// Gaps 1, 1, 4 s: mean 2, variance 2, cv 1/sqrt(2).
TEST(TraceStatisticsTest, MeasuresRateAndGaps) {
  TraceStatistics statistics;
  for (const int s : {5, 6, 7, 11}) statistics.Add(At(std::chrono::seconds(s)));
  EXPECT_EQ(statistics.duration(), std::chrono::seconds(6));
  EXPECT_DOUBLE_EQ(statistics.rate(), 4.0 / 6);
  EXPECT_NEAR(statistics.gap_cv(), std::sqrt(0.5), 1e-12);
}

// The second request hits one chunk of 16 tokens; in the third a miss ends the prefix; the fourth
// hits three chunks, of which its prompt has 40 tokens. Hit tokens: 0 + 16 + 0 + 40 of 160.
TEST(TraceStatisticsTest, HitsEndAtTheFirstNewChunk) {
  TraceStatistics statistics;
  statistics.Add(At(Duration{0}, {1, 2, 3}));
  statistics.Add(At(Duration{0}, {1, 4}));
  statistics.Add(At(Duration{0}, {9, 2, 3}));
  statistics.Add(At(Duration{0}, {1, 2, 3}));
  EXPECT_DOUBLE_EQ(statistics.hit_token_share(), 56.0 / 160);
  EXPECT_DOUBLE_EQ(statistics.hit_request_share(), 0.5);
}

// A recorded trace that the repository ships. The expected values were computed by other code when
// the trace was collected.
class ShippedTraceTest : public ::testing::Test {
 protected:
  TraceStatistics Measure(const std::string& name, const TraceReadOptions& options = {}) {
    TraceStatistics statistics;
    const auto reader = OpenTrace((directory_ / name).string(), "", options);
    TracedRequest request;
    while (reader->Next(request)) statistics.Add(request);
    return statistics;
  }
  // The tables give whole tokens, some rounded up.
  static void ExpectLengths(const Sketch& lengths, double mean, double p50, double p90, double p99,
                            double max) {
    const Percentiles got = ComputePercentiles(lengths);
    EXPECT_NEAR(got.mean, mean, 1);
    EXPECT_NEAR(got.p50, p50, 1);
    EXPECT_NEAR(got.p90, p90, 1);
    EXPECT_NEAR(got.p99, p99, 1);
    EXPECT_EQ(got.max, max);
  }
  std::filesystem::path directory_ = TWIN_SOURCE_DIR "/traces/data";
};

TEST_F(ShippedTraceTest, AzureCodeOf2023HasThePublishedStatistics) {
  const TraceStatistics statistics = Measure("azure2023_code.csv.gz");
  EXPECT_EQ(statistics.requests(), 8819);
  EXPECT_NEAR(Seconds(statistics.duration()), 3435.9, 0.05);
  EXPECT_NEAR(statistics.rate(), 2.567, 0.0005);
  EXPECT_NEAR(statistics.gap_cv(), 13.15, 0.005);
  EXPECT_NEAR(statistics.dispersion()[0].value().value(), 13.2, 0.05);
  EXPECT_NEAR(statistics.dispersion()[1].value().value(), 71.6, 0.05);
  EXPECT_NEAR(statistics.dispersion()[2].value().value(), 164, 0.5);
  ExpectLengths(statistics.prompts(), 2048, 1469, 5188, 7436, 7437);
  ExpectLengths(statistics.outputs(), 27.9, 13, 55, 252, 1899);
}

// Further recorded traces, in $TWIN_SHARED/data/traces or beside the source tree. The expected
// values are the tables of its README, computed there by other code.
class SharedTraceTest : public ShippedTraceTest {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("TWIN_SHARED");
    directory_ = std::filesystem::path(shared != nullptr ? shared : TWIN_SOURCE_DIR "/../shared") /
                 "data" / "traces";
    if (!std::filesystem::is_directory(directory_)) {
      GTEST_SKIP() << "no recorded traces: set TWIN_SHARED to the folder that holds data/traces";
    }
  }
};

TEST_F(SharedTraceTest, MooncakeSynthetic) {
  const TraceStatistics statistics = Measure("mooncake_synthetic.jsonl.gz");
  EXPECT_EQ(statistics.requests(), 3993);
  EXPECT_NEAR(statistics.rate(), 3.907, 0.0005);
  EXPECT_NEAR(statistics.gap_cv(), 1.01, 0.005);
  EXPECT_NEAR(statistics.dispersion()[0].value().value(), 1.09, 0.005);
  EXPECT_NEAR(statistics.dispersion()[1].value().value(), 1.18, 0.005);
  EXPECT_FALSE(statistics.dispersion()[2].value().has_value());
  EXPECT_NEAR(statistics.hit_token_share(), 0.651, 0.0005);
  EXPECT_NEAR(statistics.hit_request_share(), 0.446, 0.0005);
  ExpectLengths(statistics.prompts(), 15326, 11587, 38611, 66456, 191378);
}

TEST_F(SharedTraceTest, LlmServingSim) {
  const TraceStatistics statistics = Measure("llmservingsim_sharegpt300_llama-3.1-8b.jsonl.gz");
  EXPECT_EQ(statistics.requests(), 300);
  EXPECT_NEAR(statistics.rate(), 10.3, 0.05);
  EXPECT_NEAR(statistics.gap_cv(), 0.94, 0.005);
  EXPECT_NEAR(statistics.hit_token_share(), 0.076, 0.0005);
}

TEST_F(SharedTraceTest, LengthsAlone) {
  ExpectLengths(Measure("vidur_arxiv_summarization_lengths.csv.gz").prompts(), 2588, 2730, 3702,
                3933, 4054);
  ExpectLengths(Measure("sharegpt10k_llama2_lengths.csv.gz").outputs(), 326, 286, 681, 1000, 1734);
}

// The first 600-s window of m-small: the rates in the file, times 600, and their sum to within the
// rounding of each client's fraction.
TEST_F(SharedTraceTest, ServeGenMeetsTheRatesOfAWindow) {
  CsvTable arrivals((directory_ / "servegen_m_small_arrivals.csv.gz").string());
  double expected = 0;
  int clients = 0;
  while (arrivals.Next() && arrivals.Text("window_start_s") == "0") {
    expected += 600 * arrivals.Positive("rate_rps", 1e5);
    ++clients;
  }
  WorkloadConfig config;
  config.servegen =
      ServeGenConfig{.arrivals_path = arrivals.lines().name(),
                     .lengths_path = (directory_ / "servegen_m_small_lengths.csv.gz").string(),
                     .duration = std::chrono::seconds(600)};
  const auto source = MakeWorkload(config, 1);
  std::int64_t requests = 0;
  for (; source->Peek() != nullptr; source->Take()) ++requests;
  EXPECT_NEAR(static_cast<double>(requests), expected, clients);
}

TEST_F(SharedTraceTest, ApexPlusGroup) {
  TraceReadOptions options;
  options.filters = {
      {"tokenizer", "llama"}, {"workload", "summarization"}, {"poisson_rate", "0.5"}};
  ExpectLengths(Measure("apexplus_workloads.csv.gz", options).prompts(), 2753, 2943, 3880, 4075,
                4092);
}

}  // namespace
}  // namespace twin
