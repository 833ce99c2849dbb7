// Derived columns: what expressions may name, and when a cell is empty.
#include "apps/study/derived_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/input_error.h"

namespace twin::run {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StudyConfig StudyWith(const std::vector<DerivedConfig>& derived) {
  StudyConfig study;
  study.source = "study.textproto";
  study.axes.resize(2);
  study.axes[0].path = "workload.arrivals.rate";
  study.axes[1].path = "workload.tenants[0].weight";
  study.derived = derived;
  return study;
}

std::string ErrorOf(const std::vector<DerivedConfig>& derived) {
  try {
    DerivedColumns::Check(StudyWith(derived));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> CellsOf(const std::vector<DerivedConfig>& derived,
                                 const std::vector<std::string>& columns,
                                 std::vector<std::string> cells) {
  DerivedColumns made(StudyWith(derived));
  made.SetColumns(columns);
  made.AppendTo(cells);
  return {cells.begin() + static_cast<std::ptrdiff_t>(columns.size()), cells.end()};
}

TEST(DerivedColumnsTest, ComputeFromMetricsAxesAndEarlierColumns) {
  EXPECT_THAT(CellsOf({{"per_device", "output_throughput / devices"},
                       {"share", "request_throughput / workload.arrivals.rate"},
                       {"both", "max(per_device, 2 * share) + workload.tenants[0].weight ^ 2"},
                       {"kept", "p99_ttft_ms <= 1e3 && share == .5 ? 1 : 0"}},
                      {"workload.arrivals.rate", "workload.tenants[0].weight", "request_throughput",
                       "output_throughput", "p99_ttft_ms", "devices"},
                      {"10", "3", "5", "1000", "1000", "4"}),
              ElementsAre("250", "0.5", "259", "1"));
}

TEST(DerivedColumnsTest, AreEmptyWithoutANumberOrAFiniteResult) {
  const std::vector<DerivedConfig> derived = {{"ratio", "completed / rejected"},
                                              {"decided", "mean_ttft_ms > 1 ? 1 : 0"},
                                              {"after", "ratio + 1"},
                                              {"axis", "workload.arrivals.rate"}};
  EXPECT_THAT(CellsOf(derived, {"workload.arrivals.rate", "completed", "rejected", "mean_ttft_ms"},
                      {"many", "4", "0", ""}),
              ElementsAre("", "", "", ""));
  EXPECT_THAT(CellsOf(derived, {"completed", "rejected"}, {"4", "2"}),
              ElementsAre("2", "", "3", ""));
}

TEST(DerivedColumnsTest, MistakesNameTheColumnAndWhatExists) {
  EXPECT_THAT(ErrorOf({{"per_device", "output_throughputs / devices"}}),
              AllOf(HasSubstr("derived[0]: per_device"), HasSubstr("\"output_throughputs\""),
                    HasSubstr("nearest: output_throughput"), HasSubstr("workload.arrivals.rate")));
  EXPECT_THAT(ErrorOf({{"later", "next"}, {"next", "1"}}), HasSubstr("no column \"next\""));
  EXPECT_THAT(ErrorOf({{"a", "devices +"}}), HasSubstr("a: "));
  EXPECT_THAT(ErrorOf({{"a", "devices, 2"}}), HasSubstr("several values"));
  EXPECT_THAT(ErrorOf({{"a", "devices = 2"}}), HasSubstr("= assigns"));
  EXPECT_EQ(ErrorOf({{"a", "devices == 2 || devices >= 4 || devices != 8"}}), "");
  EXPECT_THAT(ErrorOf({{"a", "digest"}}), HasSubstr("is a text"));
  EXPECT_THAT(ErrorOf({{"a", ""}}), HasSubstr("value: is missing"));
}

TEST(DerivedColumnsTest, NamesAreOwnAndPlain) {
  for (const char* const name : {"mean_ttft_ms", "mean_ttft_ms_low", "point", "devices", "n"})
    EXPECT_THAT(ErrorOf({{name, "1"}}), HasSubstr("is a column already")) << name;
  EXPECT_THAT(ErrorOf({{"a", "1"}, {"a_high", "2"}}), HasSubstr("is a column already"));
  for (const char* const name : {"", "1st", "a.b", "a b", "a,b"})
    EXPECT_THAT(ErrorOf({{name, "1"}}), HasSubstr("is no name")) << name;
}

}  // namespace
}  // namespace twin::run
