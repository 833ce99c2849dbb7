#include "apps/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/page/figure_svg.h"
#include "apps/page/plotly.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "run/html_text.h"
#include "run/record/metric_table.h"

namespace twin::run {
namespace {

constexpr std::string_view kStyle = R"(
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1240px; margin: 2em auto; padding: 0 1em;
       color: #222; }
h1 { font-size: 1.6em; margin-bottom: 0.3em; }
h2 { font-size: 1.15em; margin: 1.6em 0 0.5em; border-bottom: 1px solid #ddd; }
.scroll { overflow: auto; max-height: 48em; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 0.2em 0.7em; border-bottom: 1px solid #e8e8e8; text-align: left;
         vertical-align: top; }
th { position: sticky; top: 0; background: #f4f4f4; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdict { padding: 0.6em 1em; border-left: 5px solid; margin: 0.5em 0; }
.good { border-color: #009e73; background: #eaf6f2; }
.bad { border-color: #d55e00; background: #fcefe6; }
.unsure { border-color: #e69f00; background: #fdf6e5; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(540px, 1fr)); gap: 1em; }
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; }
figure p { font-size: 12px; color: #555; margin: 0; }
.plot { height: 350px; }
.scroll, details { margin-bottom: 1em; }
.drawn { width: 100%; font-size: 11px; }
.drawn .g { stroke: #ddd; fill: none; }
.drawn .l { fill: none; stroke-width: 1.4; }
.drawn .d { fill: none; stroke-linecap: round; }
.text { background: #f6f6f6; padding: 1em; overflow: auto; max-height: 40em; font-size: 12px; }
)";

constexpr std::string_view kDraw = R"(
const figures = JSON.parse(document.getElementById("figures").textContent);
const common = {margin: {l: 60, r: 15, t: 50, b: 45}, hovermode: "closest", font: {size: 12},
                legend: {orientation: "h", y: 1, yanchor: "bottom", traceorder: "normal"}};
// The buttons that a reader needs. One of the usual further buttons sends the data away.
const buttons = [["toImage", "zoom2d", "pan2d", "resetScale2d"]];
figures.forEach((figure, i) => Plotly.newPlot(
    "figure-" + i, figure.data, {...common, ...figure.layout},
    {responsive: true, displaylogo: false, modeBarButtons: buttons}));
)";

// Whether a cell is a number: alone, with an interval, or in percent.
bool IsNumber(const std::string& cell) {
  const std::string number = cell.substr(0, std::min(cell.find(" ["), cell.find(" %")));
  return NumberFrom<double>(number.substr(number.starts_with('+') ? 1 : 0)).has_value();
}

// JSON text for the inside of a <script>, without characters that a browser reads as a tag.
std::string ScriptText(const nlohmann::ordered_json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string NumberText(double value) {
  const SummaryValue number = value;
  return DisplayText(&number);
}

Page::Page(std::string title, PageFigures figures)
    : title_(std::move(title)),
      kind_(figures),
      body_(fmt::format("<h1>{}</h1>\n", HtmlText(title_))) {}

void Page::EndFigures() {
  if (std::exchange(in_figures_, false)) body_ += "</div>\n";
}

void Page::Heading(std::string_view text) {
  EndFigures();
  body_ += fmt::format("<h2>{}</h2>\n", HtmlText(text));
}

void Page::Paragraph(std::string_view text) {
  EndFigures();
  body_ += fmt::format("<p>{}</p>\n", HtmlText(text));
}

void Page::Verdict(std::string_view kind, std::string_view text) {
  EndFigures();
  body_ += fmt::format("<div class=\"verdict {}\">{}</div>\n", kind, HtmlText(text));
}

void Page::Table(const PageTable& rows) {
  EndFigures();
  body_ += "<div class=\"scroll\"><table>\n";
  for (std::size_t row = 0; row < rows.size(); ++row) {
    body_ += "<tr>";
    for (const std::string& cell : rows[row]) {
      if (row == 0) {
        body_ += fmt::format("<th>{}</th>", HtmlText(cell));
      } else {
        body_ += fmt::format("<td{}>{}</td>", IsNumber(cell) ? " class=\"n\"" : "", HtmlText(cell));
      }
    }
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
}

void Page::Text(std::string_view text) {
  EndFigures();
  body_ += fmt::format("<pre class=\"text\">{}</pre>\n", HtmlText(text));
}

void Page::Details(std::string_view summary, std::string_view text) {
  EndFigures();
  body_ += fmt::format("<details><summary>{}</summary><pre class=\"text\">{}</pre></details>\n",
                       HtmlText(summary), HtmlText(text));
}

void Page::Add(const Figure& figure) {
  if (figure.empty()) return;
  if (!std::exchange(in_figures_, true)) body_ += "<div class=\"figures\">\n";
  const bool is_static = kind_ == PageFigures::kStatic;
  body_ += fmt::format(
      "<figure><figcaption>{}</figcaption>{}{}</figure>\n", HtmlText(figure.title()),
      is_static ? FigureSvg(figure)
                : fmt::format("<div class=\"plot\" id=\"figure-{}\"></div>", figure_count_++),
      figure.note().empty() ? "" : fmt::format("<p>{}</p>", HtmlText(figure.note())));
  if (is_static) return;
  if (!figures_.empty()) figures_ += ",";
  figures_ += ScriptText(figure.ToJson());
}

std::string Page::Html() const {
  const std::string_view script = PlotlyScript();
  const bool is_static = kind_ == PageFigures::kStatic;
  if (!is_static && script.empty()) {
    throw InputError(InputError::Kind::kUsage, "report",
                     "this program was built without Plotly, which draws the figures; allowed: a "
                     "wheel of tools/wheel, or a build after tools/fetch_plotly");
  }
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head><body>\n{}{}",
      HtmlText(title_), kStyle, body_, in_figures_ ? "</div>\n" : "");
  if (is_static) return page + "</body></html>\n";
  page += "<script type=\"application/json\" id=\"figures\">";
  page += fmt::format("[{}]", figures_);
  page += "</script>\n<script>";
  page += script;
  page += "</script>\n<script>";
  page += kDraw;
  page += "</script>\n</body></html>\n";
  return page;
}

}  // namespace twin::run
