#include "apps/predict/serving_row.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/input_error.h"
#include "core/number_text.h"
#include "core/printable.h"

namespace twin::run {
namespace {

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

[[noreturn]] void Refuse(std::string_view where, std::string_view text,
                         const std::string& allowed) {
  throw InputError(InputError::Kind::kData, std::string(where),
                   fmt::format("is \"{}\"; allowed: {}", Printable(text), allowed));
}

}  // namespace

std::int64_t WholeNumber(std::string_view where, std::string_view text, std::int64_t low,
                         std::int64_t high) {
  const auto value = NumberFrom<double>(text);
  const bool whole = value && *value >= static_cast<double>(low) &&
                     *value <= static_cast<double>(high) &&
                     *value == static_cast<double>(static_cast<std::int64_t>(*value));
  if (!whole) Refuse(where, text, fmt::format("a whole number from {} to {}", low, high));
  return static_cast<std::int64_t>(*value);
}

double NumberAbove0(std::string_view where, std::string_view text, double high) {
  const auto value = NumberFrom<double>(text);
  if (!value || !(*value > 0 && *value <= high)) {
    Refuse(where, text, fmt::format("a number above 0, up to {}", ShortestText(high)));
  }
  return *value;
}

const std::vector<std::string_view>& ServingRow::RequiredColumns() {
  static const std::vector<std::string_view> kColumns = {"id",  "model", "engine",      "device",
                                                         "isl", "osl",   "concurrency", "tp"};
  return kColumns;
}

const std::vector<std::string_view>& ServingRow::Columns() {
  static const std::vector<std::string_view> kColumns = {"id",
                                                         "model",
                                                         "engine",
                                                         "version",
                                                         "device",
                                                         "weights",
                                                         "kv",
                                                         "mode",
                                                         "isl",
                                                         "osl",
                                                         "concurrency",
                                                         "devices",
                                                         "tp",
                                                         "pp",
                                                         "attention_dp",
                                                         "ep",
                                                         "moe_tp",
                                                         "speculation",
                                                         "range_ratio",
                                                         "requests",
                                                         "max_len",
                                                         "max_seqs",
                                                         "memory_fraction",
                                                         "max_batched_tokens",
                                                         "server",
                                                         "graph_max_batch"};
  return kColumns;
}

ServingRow::ServingRow(const CsvTable& table) {
  for (const std::string_view column : Columns()) {
    if (table.Has(column)) cells_[std::string(column)] = Trimmed(table.Text(column));
  }
}

const std::string& ServingRow::Text(std::string_view column) const {
  static const std::string kEmpty;
  const auto found = cells_.find(column);
  return found == cells_.end() ? kEmpty : found->second;
}

std::optional<std::int64_t> ServingRow::Count(std::string_view column, std::int64_t low,
                                              std::int64_t high) const {
  if (!Has(column)) return std::nullopt;
  return WholeNumber(column, Text(column), low, high);
}

std::int64_t ServingRow::RequiredCount(std::string_view column) const {
  const std::optional<std::int64_t> count = Count(column, 1);
  if (!count) Refuse(column, "", "a whole number from 1 on");
  return *count;
}

std::optional<double> ServingRow::Share(std::string_view column, double high) const {
  if (!Has(column)) return std::nullopt;
  return NumberAbove0(column, Text(column), high);
}

std::map<std::string, std::string> ServingRow::Flags() const {
  std::map<std::string, std::string> flags;
  std::string_view rest = Text("server");
  while (!rest.empty()) {
    const std::size_t end = rest.find(';');
    const std::string_view flag = Trimmed(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (flag.empty()) continue;
    const std::size_t equals = flag.find('=');
    std::string name(Trimmed(flag.substr(0, equals)));
    std::ranges::replace(name, '-', '_');
    name.erase(0, std::min(name.find_first_not_of('_'), name.size()));
    const bool has_value = equals != std::string_view::npos;
    flags[name] = has_value ? std::string(Trimmed(flag.substr(equals + 1))) : "true";
  }
  return flags;
}

std::string ServingRow::Key() const {
  std::string key;
  for (const std::string_view column : Columns()) {
    key.append(Text(column)).push_back('\n');
  }
  return key;
}

}  // namespace twin::run
