// Charts as SVG, for pages that need no other program to be seen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twin::lab {

struct ChartSeries {
  enum class Mark : std::uint8_t {
    kLine,
    kSteps,  // a level until the next point
    kPoints,
  };
  std::string label;
  std::string colour;  // of CSS
  Mark mark = Mark::kLine;
  bool dashed = false;
  std::vector<std::pair<double, double>> points;  // lines: x ascends
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;  // both: points that are not positive are left out
  bool log_y = false;
  bool diagonal = false;  // x = y is drawn; the axes have one range
  std::vector<ChartSeries> series;
};

// An <svg> element of 460 x 300. Series of more than 1,500 points are thinned out evenly.
std::string Svg(const Chart& chart);

struct Bar {
  std::string label;
  double value = 0;
};

// Horizontal bars from a zero line, each with its value; `unit` behind the values.
std::string SvgBars(const std::string& title, const std::string& unit,
                    const std::vector<Bar>& bars);

// With <, >, & and " made harmless.
std::string HtmlText(std::string_view text);

}  // namespace twin::lab
