#include "apps/page/figure_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "run/html_text.h"

namespace twin::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWidth = 640;
constexpr double kHeight = 350;
constexpr double kLeft = 62;
constexpr double kRight = 14;
constexpr double kTop = 26;
constexpr double kBottom = 46;
constexpr double kLetter = 6.4;  // about the width of one

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kSvgDashes = {
    {{"dash", "6 4"}, {"dot", "2 3"}, {"dashdot", "6 3 2 3"}, {"longdash", "10 4"}}};

// One axis: values to pixels.
class Axis {
 public:
  Axis(const Json& layout, double from, double to)
      : log_(layout.value("type", "") == "log"),
        from_zero_(layout.contains("rangemode")),
        from_(from),
        to_(to) {}

  void Include(double value) {
    if (!Shows(value)) return;
    low_ = std::min(low_, Place(value));
    high_ = std::max(high_, Place(value));
  }
  // Gives a range to an axis that has none.
  void Settle() {
    if (from_zero_) Include(0);
    if (!(low_ <= high_)) low_ = high_ = 0;
    if (high_ - low_ < 1e-9) high_ = low_ + 1;
  }

  [[nodiscard]] bool Shows(double value) const {
    return std::isfinite(value) && (!log_ || value > 0);
  }
  [[nodiscard]] double Pixel(double value) const {
    return from_ + (Place(value) - low_) / (high_ - low_) * (to_ - from_);
  }

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
  bool from_zero_;
  double from_;
  double to_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

struct Point {
  double x = 0;
  double y = 0;
};

// NaN for null, which stands for a number that is not finite.
double NumberOf(const Json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::vector<Point> PointsOf(const Json& trace) {
  std::vector<Point> points(trace["x"].size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i] = {NumberOf(trace["x"][i]), NumberOf(trace["y"][i])};
  }
  return points;
}

std::string Label(double x, double y, const char* anchor, std::string_view text,
                  const std::string& more = "") {
  return fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'{}>{}</text>", x, y, anchor, more,
                     HtmlText(text));
}

// The text at trace[member][inner]; empty without it.
std::string TextAt(const Json& trace, const char* member, const char* inner) {
  return trace.contains(member) ? trace[member].value(inner, "") : "";
}

std::string ColourOf(const Json& trace) {
  const std::string line = TextAt(trace, "line", "color");
  return line.empty() ? TextAt(trace, "marker", "color") : line;
}

class Drawing {
 public:
  explicit Drawing(const Json& figure)
      : traces_(figure["data"]),
        rows_(RowsOf(traces_)),
        left_(LeftOf(rows_)),
        x_title_(figure["layout"]["xaxis"]["title"]["text"]),
        y_title_(figure["layout"]["yaxis"]["title"]["text"]),
        x_(figure["layout"]["xaxis"], left_, kWidth - kRight),
        y_(figure["layout"]["yaxis"], kHeight - kBottom, kTop) {
    CHECK(!figure["layout"].contains("shapes"));
    for (const Json& trace : traces_) Include(trace);
    x_.Settle();
    y_.Settle();
  }

  [[nodiscard]] std::string Svg() const {
    std::string svg =
        fmt::format("<svg class='drawn' viewBox='0 0 {:.0f} {:.0f}'>", kWidth, kHeight) + Frame();
    for (const Json& trace : traces_) svg += trace["type"] == "bar" ? Bars(trace) : Line(trace);
    return svg + Legend() + "</svg>";
  }

 private:
  // The labels of bars, the first at the top.
  static std::vector<std::string> RowsOf(const Json& traces) {
    for (const Json& trace : traces) {
      if (trace["type"] == "bar") return trace["y"];
    }
    return {};
  }

  static double LeftOf(const std::vector<std::string>& rows) {
    std::size_t longest = 0;
    for (const std::string& label : rows) longest = std::max(longest, label.size());
    return std::max(kLeft, kLetter * static_cast<double>(longest + 1));
  }

  void Include(const Json& trace) {
    CHECK(!trace.contains("fill") && !trace.contains("stackgroup"));
    if (trace["type"] == "bar") {
      CHECK(trace["y"] == rows_);
      x_.Include(0);
      for (const Json& value : trace["x"]) x_.Include(NumberOf(value));
      return;
    }
    for (const Point& point : PointsOf(trace)) {
      x_.Include(point.x);
      y_.Include(point.y);
    }
  }

  [[nodiscard]] std::string Frame() const {
    std::string svg;
    for (const double tick : x_.Ticks()) {
      const double place = x_.Pixel(tick);
      svg += fmt::format("<path class='g' d='M{:.1f} {:.1f}V{:.1f}'/>", place, kTop,
                         kHeight - kBottom);
      svg += Label(place, kHeight - kBottom + 14, "middle", fmt::format("{:.6g}", tick));
    }
    svg += Label((left_ + kWidth - kRight) / 2, kHeight - 10, "middle", x_title_);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      svg += Label(left_ - 5, RowMiddle(row) + 4, "end", rows_[row]);
    }
    if (!rows_.empty()) return svg;
    for (const double tick : y_.Ticks()) {
      const double place = y_.Pixel(tick);
      svg +=
          fmt::format("<path class='g' d='M{:.1f} {:.1f}H{:.1f}'/>", left_, place, kWidth - kRight);
      svg += Label(left_ - 5, place + 4, "end", fmt::format("{:.6g}", tick));
    }
    const double middle = (kTop + kHeight - kBottom) / 2;
    return svg + Label(14, middle, "middle", y_title_,
                       fmt::format(" transform='rotate(-90 14 {:.1f})'", middle));
  }

  // Names in one row above the frame.
  [[nodiscard]] std::string Legend() const {
    std::string svg;
    double place = left_;
    for (const Json& trace : traces_) {
      const std::string name = trace["name"];
      if (name.empty()) continue;
      svg += Label(place, kTop - 8, "start", name,
                   fmt::format(" fill='{}' font-weight='bold'", ColourOf(trace)));
      place += kLetter * static_cast<double>(name.size() + 2);
    }
    return svg;
  }

  [[nodiscard]] double RowHeight() const {
    return (kHeight - kBottom - kTop) / static_cast<double>(rows_.size());
  }
  [[nodiscard]] double RowMiddle(std::size_t row) const {
    return kTop + RowHeight() * (static_cast<double>(row) + 0.5);
  }

  // `steps`: constant until the next point.
  [[nodiscard]] std::string Path(const std::vector<Point>& points, bool steps) const {
    std::string path;
    bool joins = false;
    for (const Point& point : points) {
      const bool joined = std::exchange(joins, x_.Shows(point.x) && y_.Shows(point.y));
      if (!joins) continue;
      const double x = x_.Pixel(point.x);
      const double y = y_.Pixel(point.y);
      path += !joined ? fmt::format("M{:.1f} {:.1f}", x, y)
              : steps ? fmt::format("H{:.1f}V{:.1f}", x, y)
                      : fmt::format("L{:.1f} {:.1f}", x, y);
    }
    return path;
  }

  [[nodiscard]] std::string Line(const Json& trace) const {
    const std::vector<Point> points = PointsOf(trace);
    const std::string mode = trace["mode"];
    std::string svg;
    if (mode.starts_with("lines")) {
      const auto* const dash = std::ranges::find(kSvgDashes, TextAt(trace, "line", "dash"),
                                                 &decltype(kSvgDashes)::value_type::first);
      svg = fmt::format("<path class='l' stroke='{}' stroke-dasharray='{}' d='{}'/>",
                        ColourOf(trace), dash == kSvgDashes.end() ? "none" : dash->second,
                        Path(points, TextAt(trace, "line", "shape") == "hv"));
    }
    if (!mode.ends_with("markers")) return svg;
    const Json& marker = trace["marker"];
    CHECK(!marker.contains("symbol") || marker["symbol"].is_string());
    // Dots are lines of no length with round ends.
    std::string dots;
    for (const Point& point : points) {
      if (!x_.Shows(point.x) || !y_.Shows(point.y)) continue;
      dots += fmt::format("M{:.1f} {:.1f}h0", x_.Pixel(point.x), y_.Pixel(point.y));
    }
    return svg +
           fmt::format("<path class='d' stroke='{}' stroke-width='{}' stroke-opacity='{}' d='{}'/>",
                       ColourOf(trace), marker["size"].get<double>(), marker.value("opacity", 1.0),
                       dots);
  }

  [[nodiscard]] std::string Bars(const Json& trace) const {
    std::string svg;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const double value = NumberOf(trace["x"][row]);
      if (!std::isfinite(value)) continue;
      const auto [low, high] = std::minmax({x_.Pixel(0), x_.Pixel(value)});
      svg += fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' fill='{}'/>",
                         low, RowMiddle(row) - 0.4 * RowHeight(), high - low, 0.8 * RowHeight(),
                         ColourOf(trace));
    }
    return svg;
  }

  const Json& traces_;
  std::vector<std::string> rows_;
  double left_;
  std::string x_title_;
  std::string y_title_;
  Axis x_;
  Axis y_;
};

}  // namespace

std::string FigureSvg(const Figure& figure) {
  const Json json = figure.ToJson();
  return Drawing(json).Svg();
}

}  // namespace twin::run
