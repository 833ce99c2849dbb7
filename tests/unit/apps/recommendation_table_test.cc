// The table of configurations: its width, its two kinds of weights, its rows.
#include "apps/recommend/recommendation_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/apps/small_requests.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;
using testing::kTiny;
using ::testing::Not;
using testing::Replaced;
using testing::Request;

constexpr const char* kOwn = "with the weights of the checkpoint\n";
constexpr const char* kQuantised =
    "with quantised weights (another checkpoint, or converted as the server loads it)\n";

RecommendedConfiguration Configuration(std::size_t rank, double value, DType weights) {
  RecommendedConfiguration one;
  one.rank = rank;
  one.tied = rank == 1;
  one.value = {value, value - 1, value + 1, 3};
  one.margins = {{"p99_ttft_ms<=500", {10 * value, 0, 0, 3}, 0.5}};
  one.candidate.choice.server = "vllm-0.33.0";
  one.candidate.choice.weight_dtype = weights;
  one.candidate.quantised = weights == DType::kFp8;
  return one;
}

std::string TextOf(const std::vector<RecommendedConfiguration>& configurations,
                   const std::string& request = kTiny) {
  Recommendation answer;
  answer.objective = "goodput";
  answer.value_unit = "requests/s";
  answer.configurations = configurations;
  std::ostringstream out;
  WriteConfigurations(out, answer, Request(request));
  return out.str();
}

TEST(RecommendationTableTest, WeightsOfTheCheckpointComeFirst) {
  const std::string text =
      TextOf({Configuration(1, 40, DType::kFp8), Configuration(2, 30, DType::kFp8),
              Configuration(3, 20, DType::kBf16)});
  const std::size_t own = text.find(kOwn);
  const std::size_t row = text.find("\n3     no             20 [19, 21]               200\n");
  const std::size_t quantised = text.find(kQuantised);
  const std::size_t first = text.find("\n1     yes            40 [39, 41]               400\n");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_TRUE(own < row && row < quantised && quantised < first) << text;
}

TEST(RecommendationTableTest, OneKindOfWeightsNeedsNoHeading) {
  EXPECT_THAT(TextOf({Configuration(1, 40, DType::kBf16)}), Not(HasSubstr("with ")));
  const std::string text = TextOf({Configuration(1, 40, DType::kFp8)});
  EXPECT_THAT(text, HasSubstr(kQuantised));
  EXPECT_THAT(text, Not(HasSubstr(kOwn)));
}

TEST(RecommendationTableTest, ARowStandsForEqualResults) {
  std::vector<RecommendedConfiguration> all;
  for (std::size_t i = 0; i < 3; ++i) {
    all.push_back(Configuration(i + 1, i < 2 ? 40 : 30, DType::kBf16));
    all.back().candidate.choice.max_num_seqs = 64 << i;
  }
  const std::string text = TextOf(all);
  EXPECT_THAT(text, HasSubstr("max_num_seqs"));
  EXPECT_THAT(text, HasSubstr("\n1     yes   64 "));
  EXPECT_THAT(text, Not(HasSubstr("\n2 ")));
  EXPECT_THAT(text, HasSubstr("\n3     no    256 "));
  EXPECT_THAT(text, HasSubstr("\n1 further settings have the result of one of these rows\n"));
}

TEST(RecommendationTableTest, NoLineIsWiderThanATerminal) {
  std::string request = Replaced(kTiny, "model { name: \"llama-3-8b\" }",
                                 "model { name: \"llama-3-8b\" } model { name: \"llama-3.1-8b\" }");
  request = Replaced(request, "hardware { name: \"h100-sxm\" }",
                     "hardware { name: \"h100-sxm\" } hardware { name: \"a100-80gb-sxm\" }");
  std::vector<RecommendedConfiguration> all;
  for (std::size_t i = 0; i < 2; ++i) {
    all.push_back(Configuration(i + 1, 1234.5678 - static_cast<double>(i), DType::kBf16));
    CandidateSettings& choice = all.back().candidate.choice;
    choice.model = choice.hardware = i;
    choice.server = i == 0 ? "vllm-0.33.0" : "sglang-0.5.23";
    choice.layout = {.parallelism = {.tensor = i == 0 ? 2 : 4, .pipeline = i == 0 ? 3 : 5},
                     .replicas = i == 0 ? 6 : 7,
                     .prefill_replicas = i == 0 ? 2 : 1};
    choice.token_budget = 2048 << i;
    choice.max_num_seqs = 111 << i;
    choice.gpu_memory_utilization = i == 0 ? 0.91 : 0.92;
    choice.max_batch_total_tokens = 33'333 << i;
    choice.waiting_served_ratio = i == 0 ? 0.3 : 0.6;
    choice.schedule_policy = i == 0 ? "lpm" : "fcfs";
    choice.context_chunking_policy = i == 0 ? "FIRST_COME_FIRST_SERVED" : "EQUAL_PROGRESS";
    all.back().margins.push_back(
        {"mean_time_in_queue_ms<=20000", {static_cast<double>(5 + i), 0, 0, 3}, 0.5});
  }
  const std::string text = TextOf(all, request);
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  EXPECT_LE(widest, 100u) << text;
  EXPECT_GT(widest, 60u) << text;
  // Names of columns are broken behind '_'; each setting of the first configuration is there.
  for (const char* const part :
       {"llama-3-8b", "h100-sxm", "vllm-0.33.0", "2048", "111", "0.91", "33333", "0.3", "lpm",
        "FIRST_COME_FIRST_SERVED", "1235 [1234, 1236]", "1.235e+04", "memory_", "utilization",
        "<=500", "<=20000", "\nrank  "})
    EXPECT_THAT(text, HasSubstr(part));
}

}  // namespace
}  // namespace twin::run
