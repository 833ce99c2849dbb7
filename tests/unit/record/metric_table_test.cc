#include "run/record/metric_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "run/record/metric_catalog.h"

namespace twin {
namespace {

using ::testing::ElementsAre;

class MetricTableTest : public ::testing::Test {
 protected:
  MetricTableTest() {
    left_.Set("requests", std::int64_t{12345});
    left_.Set("mean_ttft_ms", 1234.5678);
    left_.Set("busy_share", 0.0);
    right_.Set("requests", std::int64_t{7});
    right_.Set("p99_itl_ms", 0.0512345);
    right_.Set("mean_ttft_ms", std::nan(""));
    right_.Set("digest", std::string("00ff"));
  }

  Summary left_;
  Summary right_;
  std::vector<NamedSummary> runs_{{"vllm", &left_}, {"a,b", &right_}};
};

TEST_F(MetricTableTest, LinesUpRunsWithUnitsAndTheChangeAgainstTheFirst) {
  std::ostringstream out;
  WriteTable(out, MetricTable(runs_, MetricNames(runs_)), TableFormat::kText);
  EXPECT_EQ(out.str(),
            "metric        unit       vllm      a,b  change\n"
            "requests      requests  12345        7  -99.9%\n"
            "mean_ttft_ms  ms         1235        -       -\n"
            "busy_share    share         0        -       -\n"
            "p99_itl_ms    ms            -  0.05123       -\n"
            "digest                      -     00ff       -\n");
}

// 9999.9 against 10000: -0.001 %.
TEST_F(MetricTableTest, AChangeThatIsRoundedToZeroHasNoMinus) {
  Summary slow;
  Summary fast;
  slow.Set("mean_ttft_ms", 10000.0);
  fast.Set("mean_ttft_ms", 9999.9);
  const std::vector<NamedSummary> runs = {{"slow", &slow}, {"fast", &fast}};
  std::ostringstream out;
  WriteTable(out, MetricTable(runs, MetricNames(runs)), TableFormat::kMarkdown);
  EXPECT_THAT(out.str(), ::testing::HasSubstr("| +0.0% |"));
}

TEST_F(MetricTableTest, WritesCsvWithExactNumbersAndQuotedNames) {
  std::ostringstream out;
  WriteCsv(out, runs_, std::vector<std::string>{"requests", "p99_itl_ms", "mean_ttft_ms"});
  EXPECT_EQ(out.str(),
            "metric,unit,vllm,\"a,b\",\"a,b_change_percent\"\n"
            "requests,requests,12345,7,-99.9433\n"
            "p99_itl_ms,ms,,0.0512345,\n"
            "mean_ttft_ms,ms,1234.5678,,\n");
}

TEST_F(MetricTableTest, LeavesOutMetricsThatNoRunHas) {
  const std::vector<MetricRow> rows =
      MetricRows(runs_, std::vector<std::string>{"steps", "requests"});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "requests");
}

TEST(DisplayTextTest, ShowsFourSignificantDigitsAndWholeCounts) {
  std::vector<std::string> texts;
  for (const double value : {0.00012345, 0.5, 12.3456, 9999.4, 123456.7, 1e9}) {
    const SummaryValue number = value;
    texts.push_back(DisplayText(&number));
  }
  EXPECT_THAT(texts, ElementsAre("0.0001234", "0.5", "12.35", "9999", "123457", "1000000000"));
  const SummaryValue count = std::int64_t{123456};
  EXPECT_EQ(DisplayText(&count), "123456");
}

TEST(MetricCatalogTest, KnowsWhichValuesAreBetter) {
  EXPECT_EQ(HigherIsBetter("p99_ttft_ms"), false);
  EXPECT_EQ(HigherIsBetter("request_goodput"), true);
  EXPECT_EQ(HigherIsBetter("std_ttft_ms"), std::nullopt);
  EXPECT_EQ(HigherIsBetter("mean_batch_tokens"), std::nullopt);
}

TEST(MetricCatalogTest, KnowsEachKeyOnceAndTenantsKeysByTheirEnd) {
  std::vector<std::string> names;
  for (const Metric& metric : MetricCatalog()) names.push_back(metric.name);
  for (const std::string& name : names) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
    EXPECT_EQ(FindMetric(name)->name, name);
  }
  for (const std::string& name : HeadlineMetrics()) EXPECT_NE(FindMetric(name), nullptr) << name;
  EXPECT_EQ(FindMetric("tenant_17_mean_ttft_ms")->unit, "ms");
  EXPECT_EQ(FindMetric("tenant_others_completed"), FindMetric("completed"));
  EXPECT_EQ(FindMetric("group_3_energy_joules"), FindMetric("energy_joules"));
  EXPECT_EQ(MetricKey("p99_tbt_ms"), "p99_itl_ms");
  EXPECT_EQ(MetricKey("mean_tbt"), "mean_tbt");
  for (const char* unknown :
       {"tenant_x_completed", "tenant_3_steps", "tenant_3_mean_itl_ms", "tenant_", "mean_tft_ms"}) {
    EXPECT_EQ(FindMetric(unknown), nullptr) << unknown;
  }
}

}  // namespace
}  // namespace twin
