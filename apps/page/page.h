// A self-contained HTML page with figures: readable without network, in any browser of the last
// years.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/page/figure.h"

namespace twin::run {

// Rows of cells as text; the first row is the header. Cells that are numbers are aligned to the
// right.
using PageTable = std::vector<std::vector<std::string>>;

// Text with four significant digits, and all digits before the point.
std::string NumberText(double value);

// kInteractive: drawn by Plotly, whose script becomes part of the page (4.8 MB). kStatic: SVG
// (figure_svg.h), for pages that every program writes after every run.
enum class PageFigures : std::uint8_t { kInteractive, kStatic };

class Page {
 public:
  explicit Page(std::string title, PageFigures figures = PageFigures::kInteractive);

  // Parts appear in the order of the calls. Texts are escaped.
  void Heading(std::string_view text);
  void Paragraph(std::string_view text);
  // Adds a box. `kind`: good, bad or unsure gives its colour.
  void Verdict(std::string_view kind, std::string_view text);
  void Table(const PageTable& rows);
  // Adds unformatted text.
  void Text(std::string_view text);
  // Adds unformatted text that the reader can unfold.
  void Details(std::string_view summary, std::string_view text);
  // Adds a figure, unless it has no trace. Consecutive figures stand side by side where the page is
  // wide enough.
  void Add(const Figure& figure);

  // The page. Throws InputError (usage) if its figures need Plotly's script and the program has
  // none.
  [[nodiscard]] std::string Html() const;

 private:
  void EndFigures();

  std::string title_;
  PageFigures kind_;
  std::string body_;
  bool in_figures_ = false;
  std::size_t figure_count_ = 0;
  std::string figures_;  // JSON objects, separated by commas
};

}  // namespace twin::run
