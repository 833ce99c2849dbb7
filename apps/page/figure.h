// Interactive figures of a page: traces and layout as Plotly takes them
// (https://plotly.com/javascript/reference).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace twin::run {

struct FigureAxis {
  std::string title;
  bool logarithmic = false;
  bool from_zero = false;
  std::string suffix;  // after each number, such as " %"
};

enum class PointFill : std::uint8_t { kFull, kHollow, kDotted };

// Points of a line; x ascends. Points that are not finite are gaps.
struct FigureLine {
  std::string name;  // empty: not in the legend
  std::vector<double> x;
  std::vector<double> y;
  // The ends of a band around the line; empty: none. NaN where a point has no interval.
  std::vector<double> low;
  std::vector<double> high;
  std::vector<PointFill> fills;  // by point; empty: all are full
};

struct FigureJson;

// One figure. Lines get a colour, a dash and a marker each; no two of the first 280 look alike.
class Figure {
 public:
  Figure(std::string title, const FigureAxis& x, const FigureAxis& y);
  Figure(Figure&&) noexcept;
  ~Figure();

  // Adds a line with markers and the band. Lines with equal `look` look alike in all figures.
  void AddLine(const FigureLine& line, std::size_t look);
  // Adds a line that is constant until the next point, without markers. At most 2,000 points are
  // drawn.
  void AddSteps(const FigureLine& line, std::size_t look);
  // Adds points, of which at most 3,000 are drawn.
  void AddPoints(const FigureLine& line, std::size_t look);
  // Adds an area on top of the areas added before. REQUIRES: all areas have the same x.
  void AddArea(const FigureLine& line, std::string_view colour);
  // Adds horizontal bars, the first label at the top. Bars of several calls are stacked.
  void AddBars(const std::string& name, std::span<const std::string> labels,
               std::span<const double> values, std::string_view colour);
  // Adds a grey horizontal line across the figure.
  void AddBound(double y, const std::string& text);

  // Sets the sentence below the figure.
  void Note(std::string text) { note_ = std::move(text); }

  [[nodiscard]] const std::string& title() const { return title_; }
  [[nodiscard]] const std::string& note() const { return note_; }
  [[nodiscard]] bool empty() const;
  // {"data": [...], "layout": {...}}. Numbers have at most six significant digits.
  [[nodiscard]] nlohmann::ordered_json ToJson() const;

 private:
  void Add(const FigureLine& line, const char* mode, const nlohmann::ordered_json& more);

  std::string title_;
  std::string note_;
  std::unique_ptr<FigureJson> json_;
};

// A colour of the palette of figures (Okabe and Ito's), the same in plots/style.py.
std::string_view PaletteColour(std::size_t look);

}  // namespace twin::run
