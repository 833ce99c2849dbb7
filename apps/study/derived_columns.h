// Columns of results.csv that are computed from the other columns of their row.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/study_config.h"

namespace twin::run {

// Expressions (muParser) over the numbers of a row: keys of summaries, warmup_requests
// (StudyMetrics()), axes by path, and derived columns that are listed before. Not thread-safe.
class DerivedColumns {
 public:
  // Borrows the study. Throws InputError (usage) with the column: a name that is taken or that is
  // no identifier, an expression that cannot be read, or that names what does not exist, with the
  // nearest names.
  explicit DerivedColumns(const StudyConfig& study);
  ~DerivedColumns();
  DerivedColumns(const DerivedColumns&) = delete;
  DerivedColumns& operator=(const DerivedColumns&) = delete;

  // Throws as the constructor.
  static void Check(const StudyConfig& study) { const DerivedColumns columns(study); }

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  // The columns of the rows to come, without derived ones. An expression whose columns are not
  // there has no value.
  void SetColumns(std::span<const std::string> columns);

  // Appends the values to the cells of a row, in the shortest form that reads back equal. A cell is
  // empty if the value is not finite or if a number that the expression names is not there.
  void AppendTo(std::vector<std::string>& cells);

 private:
  class Expression;
  void Add(const StudyConfig& study, std::size_t place);

  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Expression>> expressions_;
};

}  // namespace twin::run
