// Tables in their three formats; the rounding to the digit that an interval supports.
#include "run/record/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace twin {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::string Written(const Table& table, TableFormat format) {
  std::ostringstream out;
  WriteTable(out, table, format);
  return out.str();
}

Table SmallTable() {
  Table table{.columns = {"run", "p99_ttft_ms", "change"}, .left = 1};
  table.rows.push_back({"a_b", TableCell::Number("18328 ± 120"), TableCell::Number("-")});
  table.rows.push_back(
      {"50% & $x", TableCell::Number("412 [404, 430]"), TableCell::Number("-97.8%")});
  table.rows[1][1].best = true;
  return table;
}

TEST(TableTest, AlignsText) {
  EXPECT_EQ(Written(SmallTable(), TableFormat::kText),
            "run          p99_ttft_ms  change\n"
            "a_b          18328 ± 120       -\n"
            "50% & $x  412 [404, 430]  -97.8%\n");
}

TEST(TableTest, WritesMarkdown) {
  EXPECT_EQ(Written(SmallTable(), TableFormat::kMarkdown),
            "| run | p99_ttft_ms | change |\n"
            "| --- | ---: | ---: |\n"
            "| a_b | 18328 ± 120 | - |\n"
            "| 50% & $x | **412 [404, 430]** | -97.8% |\n");
}

TEST(TableTest, WritesLatexWithBooktabs) {
  EXPECT_EQ(Written(SmallTable(), TableFormat::kLatex),
            "% needs \\usepackage{booktabs}\n"
            "\\begin{tabular}{lrr}\n"
            "\\toprule\n"
            "run & p99\\_ttft\\_ms & change \\\\\n"
            "\\midrule\n"
            "a\\_b & 18\\,328 $\\pm$ 120 & -- \\\\\n"
            "50\\% \\& \\$x & \\textbf{412 [404, 430]} & $-$97.8\\% \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n");
}

// A first cell "[x]" would be an argument of the row before it.
TEST(TableTest, TakesNoWordsForMarkup) {
  Table table{.columns = {"a#b"}, .left = 1};
  table.rows = {{"[x]*"}, {"a\\b{c}~^<d>|"}, {"_x_ `y`\nz"}};
  EXPECT_THAT(Written(table, TableFormat::kLatex),
              ::testing::HasSubstr("a\\#b \\\\\n\\midrule\n{[}x]{*} \\\\\n"
                                   "a\\textbackslash{}b\\{c\\}\\textasciitilde{}\\textasciicircum{}"
                                   "\\textless{}d\\textgreater{}\\textbar{} \\\\\n"
                                   "\\_x\\_ `y` z \\\\\n"));
  EXPECT_EQ(Written(table, TableFormat::kMarkdown),
            "| a#b |\n| --- |\n| \\[x\\]\\* |\n| a\\\\b{c}~^\\<d>\\| |\n| \\_x\\_ \\`y\\` z |\n");
}

TEST(TableTest, GroupsThousandsFromFiveDigitsOnAndWritesPowersOfTen) {
  Table table{.columns = {"n"}, .left = 0};
  for (const char* text : {"1234", "12345", "1234567.12345", "1.5e-05", "+12.5%"})
    table.rows.push_back({TableCell::Number(text)});
  EXPECT_THAT(Written(table, TableFormat::kLatex),
              ::testing::HasSubstr("1234 \\\\\n12\\,345 \\\\\n1\\,234\\,567.12345 \\\\\n"
                                   "1.5$\\times 10^{-5}$ \\\\\n$+$12.5\\% \\\\\n"));
}

TEST(TableTest, OpensAndClosesQuotesInLatex) {
  Table table{.columns = {"\"a\" (\"b c\")"}, .left = 1};
  table.rows = {{"x=\"\""}};
  EXPECT_THAT(Written(table, TableFormat::kLatex),
              ::testing::HasSubstr("``a'' (``b c'') \\\\\n\\midrule\nx='''' \\\\\n"));
}

TEST(TableTest, ZeroHasNoSign) {
  EXPECT_EQ(NumberText(-0.0), "0");
  // Half the width is 20 in tens, and 0.4 in tenths.
  EXPECT_EQ(EstimateText({-0.4, -20.4, 19.6}), "0 ± 20");
  EXPECT_EQ(EstimateText({-0.04, -0.44, 0.36}), "0.0 ± 0.4");
  EXPECT_EQ(EstimateText({-0.14, -0.54, 0.26}), "-0.1 ± 0.4");
}

// A sentence on two lines would leave the comment, or the list.
TEST(TableTest, RemarksStayOnOneLine) {
  std::ostringstream out;
  for (const TableFormat format : {TableFormat::kText, TableFormat::kMarkdown, TableFormat::kLatex})
    WriteRemark(out, "a\nb\r\nc", format);
  EXPECT_EQ(out.str(), "a b  c\n- a b  c\n% a b  c\n");
}

TEST(TableTest, RemarksAreCommentsInLatex) {
  std::ostringstream out;
  for (const TableFormat format : {TableFormat::kText, TableFormat::kMarkdown, TableFormat::kLatex})
    WriteRemark(out, "a beats b", format);
  EXPECT_EQ(out.str(), "a beats b\n- a beats b\n% a beats b\n");
}

TEST(EstimateTextTest, ShowsTheDigitsThatTheIntervalSupports) {
  // Half the width 13 begins with 1: two digits of it are shown; 3 and 25 do not: one.
  EXPECT_EQ(EstimateText({412.34, 399.34, 425.34}), "412 ± 13");
  EXPECT_EQ(EstimateText({412.34, 409.34, 415.34}), "412 ± 3");
  EXPECT_EQ(EstimateText({412.34, 387.34, 437.34}), "410 ± 30");
  EXPECT_EQ(EstimateText({0.98768, 0.98738, 0.98798}), "0.9877 ± 0.0003");
  EXPECT_EQ(EstimateText({12345, 9345, 15345}), "12000 ± 3000");
}

TEST(EstimateTextTest, WritesBothEndsOfALopsidedInterval) {
  // Half the width is 13: whole numbers.
  EXPECT_EQ(EstimateText({412.3, 404.2, 430.2}), "412 [404, 430]");
}

TEST(EstimateTextTest, HasFourDigitsWithoutAnInterval) {
  EXPECT_EQ(EstimateText({412.345, kUnknown, kUnknown}), "412.3");
  EXPECT_EQ(EstimateText({0.5, 0.5, 0.5}), "0.5");
  EXPECT_EQ(EstimateText({kUnknown, 1, 2}), "-");
  EXPECT_EQ(EstimateText({5, 4, INFINITY}), "5");
}

TEST(DecidedBestTest, IsTheOneWhoseIntervalLiesApart) {
  const std::vector<IntervalEstimate> apart = {{10, 9, 11}, {5, 4, 6}, {8, 7, 9}};
  EXPECT_EQ(DecidedBest(apart, false), 1u);
  EXPECT_EQ(DecidedBest(apart, true), std::nullopt);  // 9 is in two intervals
  const std::vector<IntervalEstimate> overlapping = {{5, 4, 6.5}, {7, 6, 8}};
  EXPECT_EQ(DecidedBest(overlapping, false), std::nullopt);
}

TEST(DecidedBestTest, NeedsIntervalsAndSomethingToCompareWith) {
  const std::vector<IntervalEstimate> alone = {{5, 4, 6}, {}};
  EXPECT_EQ(DecidedBest(alone, true), std::nullopt);
  const std::vector<IntervalEstimate> unknown = {{5, 4, 6}, {50, kUnknown, kUnknown}};
  EXPECT_EQ(DecidedBest(unknown, true), std::nullopt);
  const std::vector<IntervalEstimate> undefined = {{5, 4, 6}, {}, {2, 1, 3}};
  EXPECT_EQ(DecidedBest(undefined, true), 0u);
}

TEST(FindTableFormatTest, KnowsTheWordsOfFormat) {
  EXPECT_EQ(FindTableFormat("table"), TableFormat::kText);
  EXPECT_EQ(FindTableFormat("markdown"), TableFormat::kMarkdown);
  EXPECT_EQ(FindTableFormat("latex"), TableFormat::kLatex);
  EXPECT_EQ(FindTableFormat("json"), std::nullopt);
}

}  // namespace
}  // namespace twin
