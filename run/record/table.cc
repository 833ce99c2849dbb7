#include "run/record/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ostream>

#include "core/check.h"

namespace twin {
namespace {

constexpr std::string_view kPlusMinus = "\u00b1";
constexpr std::string_view kUndefined = "-";

bool IsDigit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }

bool IsWordLetter(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

bool IsControl(char letter) { return static_cast<unsigned char>(letter) < ' '; }

// A zero has no sign, whatever was rounded to it.
std::string WithoutSignOfZero(std::string number) {
  const bool zero = number.find_first_of("123456789") == std::string::npos;
  if (zero && number.starts_with('-')) number.erase(0, 1);
  return number;
}

// `value` with `decimals` digits after the point; below 0, rounded to tens, hundreds, ...
std::string Rounded(double value, int decimals) {
  if (decimals >= 0) return WithoutSignOfZero(fmt::format("{:.{}f}", value, decimals));
  const double unit = std::pow(10, -decimals);
  return WithoutSignOfZero(fmt::format("{:.0f}", std::round(value / unit) * unit));
}

// Letters of UTF-8: bytes that continue no letter.
std::size_t WidthOf(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

std::string Padding(std::string_view text, std::size_t width) {
  return std::string(width - std::min(width, WidthOf(text)), ' ');
}

// A quote opens what follows at the beginning of a word, and closes elsewhere.
std::string_view LatexQuote(std::string_view before) {
  constexpr std::string_view kBeforeWords = " ([{";
  const bool opens = before.empty() || IsControl(before.back()) ||
                     kBeforeWords.find(before.back()) != std::string_view::npos;
  return opens ? "``" : "''";
}

std::string LatexWords(std::string_view words) {
  std::string escaped;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char letter = words[i];
    switch (letter) {
      case '%':
      case '_':
      case '$':
      case '&':
      case '#':
      case '{':
      case '}':
        escaped.append({'\\', letter});
        break;
      case '[':  // at the beginning of a row, an argument of the row before it
      case '*':
        escaped.append({'{', letter, '}'});
        break;
      case '"':
        escaped += LatexQuote(words.substr(0, i));
        break;
      case '\\':
        escaped += "\\textbackslash{}";
        break;
      case '~':
        escaped += "\\textasciitilde{}";
        break;
      case '^':
        escaped += "\\textasciicircum{}";
        break;
      case '<':
        escaped += "\\textless{}";
        break;
      case '>':
        escaped += "\\textgreater{}";
        break;
      case '|':
        escaped += "\\textbar{}";
        break;
      default:
        escaped += IsControl(letter) ? ' ' : letter;
    }
  }
  return escaped;
}

std::string GroupedThousands(std::string_view digits) {
  constexpr std::size_t kGroupedFrom = 5;
  std::string grouped(digits);
  if (digits.size() < kGroupedFrom) return grouped;
  for (std::size_t left = 3; left < digits.size(); left += 3) {
    grouped.insert(digits.size() - left, "\\,");
  }
  return grouped;
}

// The length of an exponent, such as e-05, at the beginning of `text`; 0 if there is none.
std::size_t ExponentLength(std::string_view text) {
  if (text.size() < 3 || text[0] != 'e' || (text[1] != '-' && text[1] != '+')) return 0;
  return 2 + std::min(text.find_first_not_of("0123456789", 2), text.size()) - 2;
}

std::string LatexNumber(std::string_view text) {
  std::string latex;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (IsDigit(rest[0])) {
      const std::size_t length = std::min(rest.find_first_not_of("0123456789"), rest.size());
      const bool fraction = at > 0 && text[at - 1] == '.';
      const std::string_view digits = rest.substr(0, length);
      latex += fraction ? std::string(digits) : GroupedThousands(digits);
      at += length;
    } else if (const std::size_t length = ExponentLength(rest); length > 0) {
      const int exponent = std::stoi(std::string(rest.substr(1, length - 1)));
      latex += fmt::format("$\\times 10^{{{}}}$", exponent);
      at += length;
    } else if (rest.starts_with(kPlusMinus)) {
      latex += "$\\pm$";
      at += kPlusMinus.size();
    } else {
      const char letter = rest[0];
      if (letter == '-' || letter == '+') {
        latex += fmt::format("${}$", letter);
      } else {
        latex += letter == '[' ? std::string("[") : LatexWords(rest.substr(0, 1));
      }
      ++at;
    }
  }
  return latex;
}

// An underscore within a word is no markup.
std::string MarkdownWords(std::string_view words) {
  constexpr std::string_view kMarkup = "\\|`*<[]";
  std::string escaped;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char letter = words[i];
    const bool inner =
        i > 0 && i + 1 < words.size() && IsWordLetter(words[i - 1]) && IsWordLetter(words[i + 1]);
    if (kMarkup.find(letter) != std::string_view::npos || (letter == '_' && !inner)) {
      escaped += '\\';
    }
    escaped += IsControl(letter) ? ' ' : letter;
  }
  return escaped;
}

void WriteText(std::ostream& out, const Table& table) {
  std::vector<std::vector<std::string>> rows{table.columns};
  for (const std::vector<TableCell>& row : table.rows) {
    std::vector<std::string>& line = rows.emplace_back();
    for (const TableCell& cell : row) line.push_back(cell.text);
  }
  WriteAligned(out, rows, table.left);
}

void WriteMarkdown(std::ostream& out, const Table& table) {
  for (const std::string& column : table.columns) out << "| " << MarkdownWords(column) << ' ';
  out << "|\n";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    out << (i < table.left ? "| --- " : "| ---: ");
  }
  out << "|\n";
  for (const std::vector<TableCell>& row : table.rows) {
    for (const TableCell& cell : row) {
      const std::string text = cell.is_number ? cell.text : MarkdownWords(cell.text);
      out << "| " << (cell.best ? "**" + text + "**" : text) << ' ';
    }
    out << "|\n";
  }
}

void WriteLatex(std::ostream& out, const Table& table) {
  const std::size_t right = table.columns.size() - std::min(table.left, table.columns.size());
  out << "% needs \\usepackage{booktabs}\n\\begin{tabular}{"
      << std::string(table.columns.size() - right, 'l') << std::string(right, 'r')
      << "}\n\\toprule\n";
  const auto write_row = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) out << (i > 0 ? " & " : "") << cells[i];
    out << " \\\\\n";
  };
  std::vector<std::string> cells;
  for (const std::string& column : table.columns) cells.push_back(LatexWords(column));
  write_row(cells);
  out << "\\midrule\n";
  for (const std::vector<TableCell>& row : table.rows) {
    cells.clear();
    for (const TableCell& cell : row) {
      const std::string text = cell.text == kUndefined ? "--"
                               : cell.is_number        ? LatexNumber(cell.text)
                                                       : LatexWords(cell.text);
      cells.push_back(cell.best ? "\\textbf{" + text + "}" : text);
    }
    write_row(cells);
  }
  out << "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace

std::optional<TableFormat> FindTableFormat(std::string_view word) {
  if (word == "table") return TableFormat::kText;
  if (word == "markdown") return TableFormat::kMarkdown;
  if (word == "latex") return TableFormat::kLatex;
  return std::nullopt;
}

TableCell TableCell::Number(std::string text) {
  TableCell cell(std::move(text));
  cell.is_number = true;
  return cell;
}

std::string NumberText(double value) {
  if (!std::isfinite(value)) return std::string(kUndefined);
  if (value == 0) return "0";
  return std::abs(value) < 9999.5 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

std::string EstimateText(const IntervalEstimate& estimate) {
  const auto& [value, low, high, runs_wanted] = estimate;
  const double half = (high - low) / 2;
  if (std::isfinite(value) && runs_wanted > 0) {
    return fmt::format("{} ({} runs)", NumberText(value), runs_wanted);
  }
  if (!std::isfinite(value) || !std::isfinite(half) || half <= 0) return NumberText(value);
  const int decimals = -static_cast<int>(std::floor(std::log10(half / 2)));
  const std::string shown = Rounded(value, decimals);
  if (std::abs((high - value) - (value - low)) < std::pow(10, -decimals)) {
    return fmt::format("{} {} {}", shown, kPlusMinus, Rounded(half, decimals));
  }
  return fmt::format("{} [{}, {}]", shown, Rounded(low, decimals), Rounded(high, decimals));
}

std::optional<std::size_t> DecidedBest(std::span<const IntervalEstimate> estimates,
                                       bool higher_is_better) {
  std::optional<std::size_t> best;
  std::size_t defined = 0;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    const IntervalEstimate& one = estimates[i];
    if (!std::isfinite(one.value)) continue;
    if (!std::isfinite(one.low) || !std::isfinite(one.high)) return std::nullopt;
    ++defined;
    if (!best || (one.value > estimates[*best].value) == higher_is_better) best = i;
  }
  if (defined < 2) return std::nullopt;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    if (i == *best || !std::isfinite(estimates[i].value)) continue;
    const bool apart = higher_is_better ? estimates[*best].low > estimates[i].high
                                        : estimates[*best].high < estimates[i].low;
    if (!apart) return std::nullopt;
  }
  return best;
}

void WriteTable(std::ostream& out, const Table& table, TableFormat format) {
  switch (format) {
    case TableFormat::kText:
      return WriteText(out, table);
    case TableFormat::kMarkdown:
      return WriteMarkdown(out, table);
    case TableFormat::kLatex:
      return WriteLatex(out, table);
  }
}

void WriteRemark(std::ostream& out, std::string_view sentence, TableFormat format) {
  std::string line(sentence);
  std::ranges::replace_if(line, IsControl, ' ');
  switch (format) {
    case TableFormat::kText:
      out << line << '\n';
      return;
    case TableFormat::kMarkdown:
      out << "- " << MarkdownWords(line) << '\n';
      return;
    case TableFormat::kLatex:
      out << "% " << line << '\n';
      return;
  }
}

void WriteAligned(std::ostream& out, const std::vector<std::vector<std::string>>& rows,
                  std::size_t left) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(row.size());
    CHECK(row.size() == rows[0].size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i < left ? row[i] + Padding(row[i], widths[i]) : Padding(row[i], widths[i]) + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

}  // namespace twin
