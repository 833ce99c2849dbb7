#include "run/record/summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace twin {
namespace {

Summary Sample() {
  Summary summary;
  summary.Set("digest", std::string("00ff"));
  summary.Set("requests", std::int64_t{9007199254740993});  // not a double
  summary.Set("mean_ttft_ms", 0.1 + 0.2);
  summary.Set("p99_itl_ms", std::nan(""));
  summary.Set("request_throughput", std::numeric_limits<double>::infinity());
  return summary;
}

TEST(SummaryTest, WritesJsonInOrderWithNullForTheUndefined) {
  std::ostringstream out;
  WriteJson(out, Sample());
  EXPECT_EQ(out.str(),
            "{\n"
            "  \"digest\": \"00ff\",\n"
            "  \"requests\": 9007199254740993,\n"
            "  \"mean_ttft_ms\": 0.30000000000000004,\n"
            "  \"p99_itl_ms\": null,\n"
            "  \"request_throughput\": null\n"
            "}\n");
}

TEST(SummaryTest, WritesWhatAnotherParserReadsBack) {
  Summary summary = Sample();
  const std::string odd = "a \"quote\", a \\ and a\nline\x01";
  summary.Set("odd \"name\"", odd);
  summary.Set("tiny", 5e-324);
  summary.Set("huge", -1.7976931348623157e308);
  summary.Set("whole", 3.0);
  std::ostringstream out;
  WriteJson(out, summary);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json.at("odd \"name\""), odd);
  EXPECT_EQ(json.at("tiny"), 5e-324);
  EXPECT_EQ(json.at("huge"), -1.7976931348623157e308);
  EXPECT_EQ(json.at("whole"), 3.0);
  EXPECT_EQ(json.size(), 9u);
}

TEST(SummaryTest, WritesAnEmptyObject) {
  std::ostringstream out;
  WriteJson(out, Summary());
  EXPECT_EQ(out.str(), "{}\n");
}

TEST(SummaryTest, ReplacesAValueInItsPlace) {
  Summary summary = Sample();
  summary.Set("digest", std::string("11"));
  EXPECT_EQ(summary.entries().size(), 5u);
  EXPECT_EQ(summary.entries()[0].name, "digest");
  EXPECT_EQ(std::get<std::string>(*summary.Find("digest")), "11");
  EXPECT_EQ(summary.Find("absent"), nullptr);
}

// 20,000 tenants have some 1.2 million entries; a search of them for each name would take hours.
TEST(SummaryTest, AMillionNamesAreSetAndFound) {
  Summary summary;
  for (std::int64_t i = 0; i < 1'000'000; ++i) summary.Set(std::to_string(i), i);
  for (std::int64_t i = 0; i < 1'000'000; i += 99'999) {
    EXPECT_EQ(summary.Number(std::to_string(i)), static_cast<double>(i));
  }
  EXPECT_EQ(summary.entries().size(), 1'000'000u);
}

}  // namespace
}  // namespace twin
