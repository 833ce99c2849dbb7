// Charts as SVG elements for self-contained HTML pages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twin::run {

struct ChartSeries {
  enum class Mark : std::uint8_t {
    kLine,
    kSteps,  // constant until the next point
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
  // Logarithmic axes leave out points that are not positive.
  bool log_x = false;
  bool log_y = false;
  bool diagonal = false;  // draws x = y and gives both axes the same range
  std::vector<ChartSeries> series;
};

// An <svg> element of 460 x 300. Series of more than 1,500 points are thinned out evenly.
std::string Svg(const Chart& chart);

struct Bar {
  std::string label;
  double value = 0;
};

// Horizontal bars from a zero line, labelled with their values and `unit`.
std::string SvgBars(const std::string& title, const std::string& unit,
                    const std::vector<Bar>& bars);

}  // namespace twin::run
