#include "traces/csv_header.h"

#include <algorithm>

namespace twin {
namespace {

// Stands for a column that the layout does not know.
constexpr CsvColumn kIgnored{"", ColumnMeaning::kUnused};

// The first column of a data frame that was written with its row numbers.
bool NumbersRows(std::string_view name) { return name.empty() || name == "Unnamed: 0"; }

const CsvColumn* FindColumn(const CsvLayout& layout, std::string_view name) {
  const auto found = std::find_if(layout.columns.begin(), layout.columns.end(),
                                  [&](const CsvColumn& column) { return column.name == name; });
  return found == layout.columns.end() ? nullptr : &*found;
}

std::size_t KnownColumns(const CsvLayout& layout, const std::vector<std::string_view>& names) {
  return static_cast<std::size_t>(std::count_if(
      names.begin(), names.end(), [&](auto name) { return FindColumn(layout, name) != nullptr; }));
}

bool Fits(const CsvLayout& layout, const std::vector<std::string_view>& names) {
  const std::size_t ignored = NumbersRows(names.front()) ? 1 : 0;
  if (!layout.ignores_others && KnownColumns(layout, names) + ignored != names.size()) return false;
  return std::all_of(layout.columns.begin(), layout.columns.end(), [&](const CsvColumn& column) {
    return !column.required || std::find(names.begin(), names.end(), column.name) != names.end();
  });
}

// The names of a header. RFC 4180 leaves the separator open.
std::vector<std::string_view> NamesOf(std::string_view header, CsvCells& cells) {
  cells.Split(header, CsvSeparator(header));
  return cells.cells();
}

std::string ColumnList(const CsvLayout& layout) {
  std::string list;
  for (const CsvColumn& column : layout.columns) {
    if (!list.empty()) list += ", ";
    list += column.required ? std::string(column.name) : "[" + std::string(column.name) + "]";
  }
  if (layout.ignores_others) list += ", and others";
  return list;
}

[[noreturn]] void RefuseHeader(const LineReader& lines, std::span<const CsvLayout> layouts,
                               const std::vector<std::string_view>& names,
                               std::string_view repeated) {
  const CsvLayout& nearest =
      *std::max_element(layouts.begin(), layouts.end(), [&](const auto& a, const auto& b) {
        return KnownColumns(a, names) < KnownColumns(b, names);
      });
  const std::string allowed = "the columns " + ColumnList(nearest) + " ([] = optional)";
  if (!repeated.empty()) lines.RefuseField("header", repeated, "each column once");
  for (const std::string_view name : names) {
    if (nearest.ignores_others || FindColumn(nearest, name) != nullptr) continue;
    if (name.data() == names.front().data() && NumbersRows(name)) continue;
    lines.RefuseField("header", name, allowed);
  }
  for (const CsvColumn& column : nearest.columns) {
    if (column.required && std::find(names.begin(), names.end(), column.name) == names.end()) {
      lines.Refuse("header: column '" + std::string(column.name) +
                   "' is missing; allowed: " + allowed);
    }
  }
  lines.Refuse("header: unusable; allowed: " + allowed);
}

}  // namespace

bool CsvHeader::Has(ColumnMeaning meaning) const {
  return std::any_of(columns.begin(), columns.end(),
                     [&](const CsvColumn* column) { return column->meaning == meaning; });
}

std::string CsvHeader::NameOf(std::size_t column) const {
  const std::string_view name = columns[column]->name;
  return name.empty() ? "column " + std::to_string(column + 1) : std::string(name);
}

const CsvLayout* MatchCsvHeader(std::span<const CsvLayout> layouts, std::string_view header) {
  CsvCells cells;
  const std::vector<std::string_view> names = NamesOf(header, cells);
  const auto found = std::find_if(layouts.begin(), layouts.end(),
                                  [&](const CsvLayout& layout) { return Fits(layout, names); });
  return found == layouts.end() || !RepeatedName(names).empty() ? nullptr : &*found;
}

std::size_t KnownCsvColumns(std::span<const CsvLayout> layouts, std::string_view header) {
  CsvCells cells;
  const std::vector<std::string_view> names = NamesOf(header, cells);
  std::size_t best = 0;
  for (const CsvLayout& layout : layouts) best = std::max(best, KnownColumns(layout, names));
  return best;
}

CsvHeader ReadCsvHeader(CsvReader& file, const LineReader& lines,
                        std::span<const CsvLayout> layouts) {
  if (!file.Next()) lines.Refuse("header: the file is empty; allowed: a header line");
  CsvHeader header;
  header.layout = MatchCsvHeader(layouts, file.text());
  if (header.layout == nullptr) {
    RefuseHeader(lines, layouts, file.cells(), RepeatedName(file.cells()));
  }
  for (const std::string_view name : file.cells()) {
    const CsvColumn* const known = FindColumn(*header.layout, name);
    header.columns.push_back(known == nullptr ? &kIgnored : known);
  }
  return header;
}

}  // namespace twin
