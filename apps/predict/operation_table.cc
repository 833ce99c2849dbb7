#include "apps/predict/operation_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "run/record/metric_table.h"
#include "traces/field.h"

namespace twin::run {

const std::vector<std::string_view>& PredictedColumns() {
  static const std::vector<std::string_view> columns = {"predicted_us", "predicted_low_us",
                                                        "predicted_high_us"};
  return columns;
}

OperationTable::OperationTable(const std::string& path,
                               const std::vector<std::string_view>& required,
                               const std::vector<std::string_view>& added,
                               const std::vector<Synonym>& synonyms)
    : lines_(path), file_(lines_) {
  const std::string needed = fmt::format("the columns {}, and others", fmt::join(required, ", "));
  if (!file_.Next()) {
    lines_.Refuse(fmt::format("header: the file is empty; allowed: {}", needed));
  }
  const std::vector<std::string_view>& names = file_.cells();
  const std::string_view repeated = RepeatedName(names);
  if (!repeated.empty()) lines_.RefuseField("header", repeated, "each column once");
  for (const std::string_view name : names) {
    kept_.push_back(std::ranges::find(added, name) == added.end());
  }
  header_ = Kept(names);
  columns_.assign(names.begin(), names.end());
  for (std::string& name : columns_) {
    const auto known = std::ranges::find(synonyms, std::string_view(name), &Synonym::first);
    if (known != synonyms.end() && !Has(known->second)) name = known->second;
  }
  for (const std::string_view name : required) {
    if (!Find(name)) {
      lines_.Refuse(fmt::format("header: column '{}' is missing; allowed: {}", name, needed));
    }
  }
}

bool OperationTable::Next() {
  if (!file_.Next()) return false;
  if (file_.cells().size() != columns_.size()) {
    lines_.Refuse(fmt::format("row: has {} fields; allowed: {}, as the header",
                              file_.cells().size(), columns_.size()));
  }
  return true;
}

std::string OperationTable::Kept(const std::vector<std::string_view>& fields) const {
  std::string kept;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!kept_[i]) continue;
    kept += CsvCell(fields[i]);
    kept += ',';
  }
  return kept;
}

std::optional<std::size_t> OperationTable::Find(std::string_view column) const {
  const auto found = std::ranges::find(columns_, column);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

bool OperationTable::Has(std::string_view column) const { return Find(column).has_value(); }

std::string_view OperationTable::Text(std::string_view column) const {
  const std::optional<std::size_t> index = Find(column);
  CHECK(index);
  return file_.cells()[*index];
}

std::int64_t OperationTable::Integer(std::string_view column, std::int64_t low,
                                     std::int64_t high) const {
  return ParseInteger({lines_, column, Text(column)}, low, high);
}

double OperationTable::Positive(std::string_view column, double high) const {
  const double value = ParseReal({lines_, column, Text(column)}, 0, high);
  if (value == 0) lines_.RefuseField(column, Text(column), "a number above 0");
  return value;
}

void OperationTable::Refuse(std::string_view column, std::string_view allowed) const {
  lines_.RefuseField(column, Text(column), std::string(allowed));
}

void OperationTable::RefuseWord(std::string_view column,
                                const std::vector<std::string_view>& allowed) const {
  lines_.RefuseField(column, Text(column), fmt::format("{}", fmt::join(allowed, ", ")));
}

}  // namespace twin::run
