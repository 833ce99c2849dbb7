#include "apps/validate/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

#include "run/html_text.h"

namespace twin::run {
namespace {

constexpr double kWidth = 460;
constexpr double kHeight = 300;
constexpr double kLeft = 58;
constexpr double kRight = 12;
constexpr double kTop = 30;
constexpr double kBottom = 44;
constexpr std::size_t kPointsMost = 1500;

std::string Text(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// One axis: values to pixels.
class Axis {
 public:
  Axis(bool logarithmic, double from, double to) : log_(logarithmic), from_(from), to_(to) {}

  void Include(double value) {
    if (!Shows(value)) return;
    low_ = std::min(low_, Place(value));
    high_ = std::max(high_, Place(value));
  }
  void Join(Axis& other) {
    low_ = other.low_ = std::min(low_, other.low_);
    high_ = other.high_ = std::max(high_, other.high_);
  }
  // Gives a range to an axis that has none, and begins linear ones at zero.
  void Settle() {
    if (!log_) low_ = std::min(low_, 0.0);
    if (!(low_ <= high_)) low_ = high_ = 0;
    if (high_ - low_ < 1e-9) high_ = low_ + 1;
  }

  [[nodiscard]] bool Shows(double value) const {
    return std::isfinite(value) && (!log_ || value > 0);
  }
  [[nodiscard]] double Pixel(double value) const {
    return from_ + (Place(value) - low_) / (high_ - low_) * (to_ - from_);
  }
  [[nodiscard]] double low() const { return log_ ? std::pow(10, low_) : low_; }
  [[nodiscard]] double high() const { return log_ ? std::pow(10, high_) : high_; }

  // Powers of ten (and twos and fives where the powers are few), or round steps.
  [[nodiscard]] std::vector<double> Ticks() const {
    std::vector<double> ticks;
    if (log_) {
      const bool few = high_ - low_ < 2;
      for (double power = std::floor(low_); power <= high_; ++power) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          const double place = power + std::log10(factor);
          if ((few || factor == 1.0) && place >= low_ - 1e-9 && place <= high_ + 1e-9) {
            ticks.push_back(std::pow(10, power) * factor);
          }
        }
      }
      return ticks;
    }
    const double rough = (high_ - low_) / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double share = rough / power;
    const double step = power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
    for (double tick = std::ceil(low_ / step) * step; tick <= high_ + step * 1e-6; tick += step) {
      ticks.push_back(std::abs(tick) < step * 1e-6 ? 0 : tick);
    }
    return ticks;
  }

 private:
  [[nodiscard]] double Place(double value) const { return log_ ? std::log10(value) : value; }

  bool log_;
  double from_;
  double to_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

std::string Label(double x, double y, const char* anchor, std::string_view text,
                  const char* more = "") {
  return Text("<text x='%.1f' y='%.1f' text-anchor='%s'%s>", x, y, anchor, more) + HtmlText(text) +
         "</text>";
}

std::string Frame(const Chart& chart, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : x.Ticks()) {
    const double place = x.Pixel(tick);
    svg += Text("<path class='g' d='M%.1f %.1fV%.1f'/>", place, kTop, kHeight - kBottom);
    svg += Label(place, kHeight - kBottom + 14, "middle", Text("%.6g", tick));
  }
  for (const double tick : y.Ticks()) {
    const double place = y.Pixel(tick);
    svg += Text("<path class='g' d='M%.1f %.1fH%.1f'/>", kLeft, place, kWidth - kRight);
    svg += Label(kLeft - 5, place + 4, "end", Text("%.6g", tick));
  }
  svg += Label(kLeft, 18, "start", chart.title, " class='t'");
  svg += Label((kLeft + kWidth - kRight) / 2, kHeight - 10, "middle", chart.x_label);
  const double middle = (kTop + kHeight - kBottom) / 2;
  svg += Label(14, middle, "middle", chart.y_label,
               Text(" transform='rotate(-90 14 %.1f)'", middle).c_str());
  return svg;
}

std::string Drawn(const ChartSeries& series, const Axis& x, const Axis& y) {
  std::string path;
  const std::size_t stride = series.points.size() / kPointsMost + 1;
  double level = 0;
  for (std::size_t i = 0; i < series.points.size(); i += stride) {
    const auto [px, py] = series.points[i];
    if (!x.Shows(px) || !y.Shows(py)) continue;
    const double at = x.Pixel(px);
    const double value = y.Pixel(py);
    if (series.mark == ChartSeries::Mark::kPoints) {
      // Dots: lines of no length with round ends.
      path += Text("M%.1f %.1fh0", at, value);
    } else if (path.empty()) {
      path = Text("M%.1f %.1f", at, value);
    } else if (series.mark == ChartSeries::Mark::kSteps) {
      path += Text("L%.1f %.1fL%.1f %.1f", at, level, at, value);
    } else {
      path += Text("L%.1f %.1f", at, value);
    }
    level = value;
  }
  const bool dots = series.mark == ChartSeries::Mark::kPoints;
  return "<path class='" + std::string(dots ? "d" : "l") + "' stroke='" + series.colour + "'" +
         (series.dashed ? " stroke-dasharray='5 3'" : "") + " d='" + path + "'/>";
}

std::string Open(double height) {
  return Text("<svg viewBox='0 0 %.0f %.0f' width='%.0f' height='%.0f'>", kWidth, height, kWidth,
              height);
}

}  // namespace

std::string Svg(const Chart& chart) {
  Axis x(chart.log_x, kLeft, kWidth - kRight);
  Axis y(chart.log_y, kHeight - kBottom, kTop);
  for (const ChartSeries& series : chart.series) {
    for (const auto& [px, py] : series.points) {
      x.Include(px);
      y.Include(py);
    }
  }
  if (chart.diagonal) x.Join(y);
  x.Settle();
  y.Settle();
  std::string svg = Open(kHeight) + Frame(chart, x, y);
  if (chart.diagonal) {
    svg += Text("<path class='l' stroke='#888' d='M%.1f %.1fL%.1f %.1f'/>", x.Pixel(x.low()),
                y.Pixel(x.low()), x.Pixel(x.high()), y.Pixel(x.high()));
  }
  // The legend ends where the title's line does; letters are about this wide.
  constexpr double kLetter = 6.4;
  double place = kWidth - kRight;
  for (auto series = chart.series.rbegin(); series != chart.series.rend(); ++series) {
    svg += Label(place, 18, "end", series->label,
                 (" fill='" + series->colour + "' font-weight='bold'").c_str());
    place -= kLetter * static_cast<double>(series->label.size() + 2);
  }
  for (const ChartSeries& series : chart.series) svg += Drawn(series, x, y);
  return svg + "</svg>\n";
}

std::string SvgBars(const std::string& title, const std::string& unit,
                    const std::vector<Bar>& bars) {
  constexpr double kRow = 20;
  constexpr double kNames = 130;
  constexpr double kValues = 80;  // to each side of the bars
  double most = 0;
  for (const Bar& bar : bars) most = std::max(most, std::abs(bar.value));
  const double zero = kNames + kValues + (kWidth - kNames - 2 * kValues) / 2;
  const double scale = most > 0 ? (kWidth - kNames - 2 * kValues) / 2 / most : 0;
  std::string svg = Open(kTop + kRow * static_cast<double>(bars.size()) + 6);
  svg += Label(4, 18, "start", title, " class='t'");
  double y = kTop;
  for (const Bar& bar : bars) {
    const double length = std::abs(bar.value) * scale;
    const bool high = bar.value >= 0;
    svg += Label(kNames, y + 14, "end", bar.label);
    svg += Text("<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s'/>",
                high ? zero : zero - length, y + 3, length, kRow - 6, high ? "#c0504d" : "#4f81bd");
    svg += Label(high ? zero + length + 4 : zero - length - 4, y + 14, high ? "start" : "end",
                 Text("%+.4g ", bar.value) + unit);
    y += kRow;
  }
  svg += Text("<path class='l' stroke='#888' d='M%.1f %.1fV%.1f'/>", zero, kTop, y);
  return svg + "</svg>\n";
}

}  // namespace twin::run
