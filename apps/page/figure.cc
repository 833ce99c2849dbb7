#include "apps/page/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <nlohmann/json.hpp>

namespace twin::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 8> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                      "#E69F00", "#56B4E9", "#666666", "#000000"};
constexpr std::array<const char*, 5> kDashes = {"solid", "dash", "dot", "dashdot", "longdash"};
constexpr std::array<const char*, 7> kSymbols = {
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"};
constexpr std::size_t kStepsMax = 2000;
constexpr std::size_t kPointsMax = 3000;

// The value with six significant digits, which look like all digits on a screen. null: not finite.
Json NumberJson(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

Json NumbersJson(std::span<const double> values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(NumberJson(value));
  return json;
}

// Picks at most `most` points evenly, including the first and the last one.
FigureLine Thinned(const FigureLine& line, std::size_t most) {
  const std::size_t count = line.x.size();
  if (count <= most) return line;
  FigureLine thin;
  thin.name = line.name;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t at = i * (count - 1) / (most - 1);
    thin.x.push_back(line.x[at]);
    thin.y.push_back(line.y[at]);
  }
  return thin;
}

Json AxisJson(const FigureAxis& axis) {
  Json json{{"title", {{"text", axis.title}}}, {"zeroline", false}, {"automargin", true}};
  if (axis.logarithmic) json["type"] = "log";
  if (axis.from_zero && !axis.logarithmic) json["rangemode"] = "tozero";
  if (!axis.suffix.empty()) json["ticksuffix"] = axis.suffix;
  return json;
}

std::string Faint(std::string_view colour) { return fmt::format("{}33", colour); }

// A polygon around the finite part of the band.
Json BandJson(const FigureLine& line, std::size_t look) {
  std::vector<double> x;
  std::vector<double> y;
  for (std::size_t i = 0; i < line.low.size(); ++i) {
    if (!std::isfinite(line.low[i])) continue;
    x.push_back(line.x[i]);
    y.push_back(line.high[i]);
  }
  for (std::size_t i = line.low.size(); i-- > 0;) {
    if (!std::isfinite(line.low[i])) continue;
    x.push_back(line.x[i]);
    y.push_back(line.low[i]);
  }
  if (x.empty()) return nullptr;
  return {{"type", "scatter"},      {"mode", "lines"},
          {"x", NumbersJson(x)},    {"y", NumbersJson(y)},
          {"fill", "toself"},       {"fillcolor", Faint(PaletteColour(look))},
          {"line", {{"width", 0}}}, {"hoverinfo", "skip"},
          {"showlegend", false},    {"legendgroup", line.name}};
}

}  // namespace

std::string_view PaletteColour(std::size_t look) { return kColours[look % kColours.size()]; }

struct FigureJson {
  Json traces = Json::array();
  Json layout;
};

Figure::Figure(std::string title, const FigureAxis& x, const FigureAxis& y)
    : title_(std::move(title)), json_(std::make_unique<FigureJson>()) {
  json_->layout = {{"xaxis", AxisJson(x)}, {"yaxis", AxisJson(y)}};
}

Figure::Figure(Figure&&) noexcept = default;
Figure::~Figure() = default;

bool Figure::empty() const { return json_->traces.empty(); }

void Figure::Add(const FigureLine& line, const char* mode, const Json& more) {
  Json trace{{"type", "scatter"},        {"mode", mode},
             {"name", line.name},        {"showlegend", !line.name.empty()},
             {"x", NumbersJson(line.x)}, {"y", NumbersJson(line.y)}};
  trace.update(more);
  json_->traces.push_back(std::move(trace));
}

void Figure::AddLine(const FigureLine& line, std::size_t look) {
  if (Json band = BandJson(line, look); !band.is_null()) json_->traces.push_back(std::move(band));
  const std::string symbol = kSymbols[look % kSymbols.size()];
  Json symbols = symbol;
  if (!line.fills.empty()) {
    symbols = Json::array();
    for (const PointFill fill : line.fills) {
      constexpr std::array<const char*, 3> kEnds = {"", "-open", "-open-dot"};
      symbols.push_back(symbol + kEnds[static_cast<std::size_t>(fill)]);
    }
  }
  Add(line, "lines+markers",
      {{"line", {{"color", PaletteColour(look)}, {"dash", kDashes[look % kDashes.size()]}}},
       {"marker", {{"color", PaletteColour(look)}, {"symbol", symbols}, {"size", 8}}},
       {"legendgroup", line.name}});
}

void Figure::AddSteps(const FigureLine& line, std::size_t look) {
  Add(Thinned(line, kStepsMax), "lines",
      {{"line",
        {{"color", PaletteColour(look)},
         {"dash", kDashes[look % kDashes.size()]},
         {"shape", "hv"}}}});
}

void Figure::AddPoints(const FigureLine& line, std::size_t look) {
  Add(Thinned(line, kPointsMax), "markers",
      {{"marker", {{"color", PaletteColour(look)}, {"size", 4}, {"opacity", 0.5}}}});
}

void Figure::AddArea(const FigureLine& line, std::string_view colour) {
  Add(line, "lines",
      {{"stackgroup", "one"},
       {"fillcolor", colour},
       {"line", {{"width", 0}, {"color", colour}, {"shape", "hv"}}}});
}

void Figure::AddBars(const std::string& name, std::span<const std::string> labels,
                     std::span<const double> values, std::string_view colour) {
  json_->traces.push_back({{"type", "bar"},
                           {"orientation", "h"},
                           {"name", name},
                           {"x", NumbersJson(values)},
                           {"y", Json(std::vector<std::string>(labels.begin(), labels.end()))},
                           {"marker", {{"color", colour}}}});
  json_->layout["barmode"] = "stack";
  json_->layout["yaxis"]["autorange"] = "reversed";
}

void Figure::AddBound(double y, const std::string& text) {
  json_->layout["shapes"].push_back(
      {{"type", "line"},
       {"xref", "paper"},
       {"x0", 0},
       {"x1", 1},
       {"y0", y},
       {"y1", y},
       {"line", {{"color", "#888888"}, {"width", 1}, {"dash", "dash"}}}});
  json_->layout["annotations"].push_back({{"xref", "paper"},
                                          {"x", 0},
                                          {"xanchor", "left"},
                                          {"y", y},
                                          {"yanchor", "top"},
                                          {"text", text},
                                          {"showarrow", false},
                                          {"font", {{"color", "#666666"}}}});
}

Json Figure::ToJson() const { return {{"data", json_->traces}, {"layout", json_->layout}}; }

}  // namespace twin::run
