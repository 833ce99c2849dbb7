#include "record/summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <utility>

#include "core/check.h"
#include "record/number_text.h"

namespace twin {
namespace {

void WriteQuoted(std::ostream& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  out << '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (byte < 0x20) {
      out << "\\u00" << kDigits[byte >> 4] << kDigits[byte & 15];
    } else {
      out << c;
    }
  }
  out << '"';
}

void WriteValue(std::ostream& out, const SummaryValue& value) {
  if (const auto* count = std::get_if<std::int64_t>(&value)) {
    out << std::to_string(*count);
  } else if (const auto* number = std::get_if<double>(&value)) {
    out << (std::isfinite(*number) ? ShortestText(*number) : std::string("null"));
  } else {
    WriteQuoted(out, std::get<std::string>(value));
  }
}

std::string CellText(const SummaryValue* value) {
  if (value == nullptr) return "-";
  if (const auto* count = std::get_if<std::int64_t>(value)) return std::to_string(*count);
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  const double number = std::get<double>(*value);
  return std::isnan(number) ? std::string("-") : RoundedText(number, 6);
}

std::vector<std::string> RowNames(std::span<const NamedSummary> runs) {
  std::vector<std::string> names;
  for (const NamedSummary& run : runs) {
    for (const SummaryEntry& entry : run.summary->entries()) {
      if (std::find(names.begin(), names.end(), entry.name) == names.end()) {
        names.push_back(entry.name);
      }
    }
  }
  return names;
}

void WriteRow(std::ostream& out, const std::vector<std::string>& row,
              const std::vector<std::size_t>& widths) {
  std::string line = row[0] + std::string(widths[0] - row[0].size(), ' ');
  for (std::size_t i = 1; i < row.size(); ++i) {
    line += std::string(2 + widths[i] - row[i].size(), ' ') + row[i];
  }
  out << line << '\n';
}

}  // namespace

void Summary::Set(std::string_view name, SummaryValue value) {
  for (SummaryEntry& entry : entries_) {
    if (entry.name == name) {
      entry.value = std::move(value);
      return;
    }
  }
  entries_.push_back({std::string(name), std::move(value)});
}

const SummaryValue* Summary::Find(std::string_view name) const {
  for (const SummaryEntry& entry : entries_) {
    if (entry.name == name) return &entry.value;
  }
  return nullptr;
}

double Summary::Number(std::string_view name) const {
  const SummaryValue* value = Find(name);
  CHECK(value != nullptr);
  if (const auto* count = std::get_if<std::int64_t>(value)) return static_cast<double>(*count);
  return std::get<double>(*value);
}

void WriteJson(std::ostream& out, const Summary& summary) {
  const char* separator = "{\n";
  for (const SummaryEntry& entry : summary.entries()) {
    out << separator << "  ";
    WriteQuoted(out, entry.name);
    out << ": ";
    WriteValue(out, entry.value);
    separator = ",\n";
  }
  out << (summary.entries().empty() ? "{}\n" : "\n}\n");
}

void WriteTable(std::ostream& out, std::span<const NamedSummary> runs) {
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"metric"});
  for (const NamedSummary& run : runs) rows[0].push_back(run.name);
  for (const std::string& name : RowNames(runs)) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(name);
    for (const NamedSummary& run : runs) row.push_back(CellText(run.summary->Find(name)));
  }
  std::vector<std::size_t> widths(runs.size() + 1, 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) WriteRow(out, row, widths);
}

}  // namespace twin
