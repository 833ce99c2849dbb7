#include "apps/page/figure_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "apps/page/page.h"

namespace twin::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

FigureLine LineOf(std::vector<double> x, std::vector<double> y) {
  return {
      .name = "a < b", .x = std::move(x), .y = std::move(y), .low = {}, .high = {}, .fills = {}};
}

// The frame spans pixels 62 to 626 from left to right, and 304 to 26 from bottom to top: 56.4 and
// 27.8 pixels a unit.
Figure TenByTen() { return Figure("t", {"time (s)", false, true, ""}, {"load", false, true, ""}); }

TEST(FigureSvgTest, LinesJoinTheirPointsAndEndAtGaps) {
  Figure figure = TenByTen();
  const double gap = std::numeric_limits<double>::quiet_NaN();
  figure.AddLine(LineOf({0, 5, 6, 8, 10}, {0, 10, gap, 5, 10}), 0);
  EXPECT_THAT(FigureSvg(figure),
              AllOf(HasSubstr("stroke='#0072B2' stroke-dasharray='none' d='M62.0 304.0L344.0 26.0"
                              "M513.2 165.0L626.0 26.0'"),
                    HasSubstr("d='M62.0 304.0h0M344.0 26.0h0M513.2 165.0h0M626.0 26.0h0'"),
                    HasSubstr(">a &lt; b</text>"), HasSubstr(">time (s)</text>"),
                    HasSubstr(">load</text>"), Not(HasSubstr("nan"))));
}

TEST(FigureSvgTest, StepsAreConstantUntilTheNextPoint) {
  Figure figure = TenByTen();
  figure.AddSteps(LineOf({0, 5, 10}, {0, 5, 10}), 1);
  EXPECT_THAT(FigureSvg(figure),
              HasSubstr("stroke-dasharray='6 4' d='M62.0 304.0H344.0V165.0H626.0V26.0'"));
}

// Two decades along the frame: 282 pixels each.
TEST(FigureSvgTest, LogarithmicAxesHaveEqualDecadesAndNoZero) {
  Figure figure("t", {"", true, false, ""}, {"", false, true, ""});
  figure.AddPoints(LineOf({0, 1, 10, 100}, {1, 2, 2, 2}), 0);
  EXPECT_THAT(FigureSvg(figure), HasSubstr("d='M62.0 26.0h0M344.0 26.0h0M626.0 26.0h0'"));
}

// Labels of 25 letters, each 6.4 pixels, and one more: the frame begins at 166.4 and has 459.6
// pixels for -10 to 10. Two rows of 139 pixels.
TEST(FigureSvgTest, BarsBeginAtZero) {
  Figure figure("t", {"ms", false, false, ""}, {"", false, false, ""});
  const std::vector<std::string> labels = {"a cause of twenty letters", "another"};
  figure.AddBars("up", labels, std::vector<double>{10, 0}, "#111111");
  figure.AddBars("down", labels, std::vector<double>{0, -10}, "#222222");
  EXPECT_THAT(
      FigureSvg(figure),
      AllOf(HasSubstr("<rect x='396.2' y='39.9' width='229.8' height='111.2' fill='#111111'/>"),
            HasSubstr("<rect x='166.4' y='178.9' width='229.8' height='111.2' fill='#222222'/>"),
            HasSubstr(">a cause of twenty letters</text>")));
}

TEST(FigureSvgTest, IsDrawnInStaticPagesWithoutAScript) {
  Figure figure = TenByTen();
  figure.AddSteps(LineOf({0, 10}, {0, 10}), 0);
  figure.Note("a note");
  Page page("p", PageFigures::kStatic);
  page.Add(figure);
  page.Text("a & b");
  EXPECT_THAT(page.Html(),
              AllOf(HasSubstr("<figcaption>t</figcaption><svg class='drawn'"),
                    HasSubstr("</svg><p>a note</p></figure>"),
                    HasSubstr("<pre class=\"text\">a &amp; b</pre>"), Not(HasSubstr("<script"))));
}

}  // namespace
}  // namespace twin::run
