// Tables of results as people and papers read them: aligned text, Markdown, LaTeX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twin {

enum class TableFormat : std::uint8_t { kText, kMarkdown, kLatex };

// "table", "markdown", "latex"; nullopt for other words, such as "json".
std::optional<TableFormat> FindTableFormat(std::string_view word);

// A number with its interval; NaN where it is undefined, or the interval is unknown.
struct IntervalEstimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  std::size_t runs_wanted = 0;  // for an interval, where there is none; 0: not known
};

// Words, or a number as text: "-" if it is undefined.
struct TableCell {
  TableCell(std::string words) : text(std::move(words)) {}
  TableCell(const char* words) : text(words) {}
  // The text of a number, with its unit or interval: "12", "-41.7%", "412 ± 13".
  static TableCell Number(std::string text);

  std::string text;
  bool is_number = false;
  bool best = false;  // decided to be better than all it is compared with: bold, but in text
};

// Four significant digits, all digits before the point, "-" for NaN and infinities.
std::string NumberText(double value);

// "412 ± 13", or "412 [404, 430]" if the ends are not equally far away. Shows digits down to the
// first of half the interval's width, down to the second if the first is 1. NumberText of the value
// without an interval, or with one of no width; "42.2 (20 runs)" says how many an interval wants.
std::string EstimateText(const IntervalEstimate& estimate);

// The estimate that is better than all others that are defined: its interval lies apart from
// theirs. nullopt if there is none, none to compare with, or an interval is unknown.
std::optional<std::size_t> DecidedBest(std::span<const IntervalEstimate> estimates,
                                       bool higher_is_better);

struct Table {
  std::vector<std::string> columns;
  std::size_t left = 1;  // the first columns, aligned to the left; the others hold numbers
  std::vector<std::vector<TableCell>> rows = {};  // as long as `columns`
};

// Text: columns as wide as their widest cell. Markdown: a table of GitHub. LaTeX: a tabular with
// the rules of the package booktabs, thin spaces between thousands from five digits on, "--" for
// undefined numbers; words are escaped.
void WriteTable(std::ostream& out, const Table& table, TableFormat format);

// A sentence below a table: a line, an item of a list in Markdown, a comment in LaTeX.
void WriteRemark(std::ostream& out, std::string_view sentence, TableFormat format);

// Rows of text in columns as wide as their widest cell: the first `left` columns are aligned to
// the left, the remaining ones to the right. REQUIRES: all rows are equally long.
void WriteAligned(std::ostream& out, const std::vector<std::vector<std::string>>& rows,
                  std::size_t left);

}  // namespace twin
