#include "apps/study/derived_columns.h"

#include <fmt/format.h>
#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "apps/study/metric_columns.h"
#include "core/input_error.h"
#include "core/nearest_names.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "run/record/metric_catalog.h"

namespace twin::run {
namespace {

constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
constexpr const char* kDigits = "0123456789";
// Columns of results.csv and summary.csv that are no metrics.
constexpr std::string_view kReserved[] = {"base", "point",  "replication", "seed",
                                          "n",    "errors", "error",       "saturated"};

// Endings of the columns of summary.csv that describe a metric.
constexpr std::string_view kEndings[] = {"_low", "_high", "_n", "_runs_wanted"};

std::vector<std::string> AxesOf(const StudyConfig& study) {
  std::vector<std::string> paths;
  for (const AxisConfig& axis : study.axes) {
    paths.push_back(axis.path);
    for (const AxisConfig& coupled : axis.coupled) paths.push_back(coupled.path);
  }
  return paths;
}

// Whether summary.csv has a column of this name for a metric.
bool IsColumnOf(std::string_view name, std::string_view metric) {
  if (!name.starts_with(metric)) return false;
  const std::string_view rest = name.substr(metric.size());
  return rest.empty() || std::ranges::count(kEndings, rest) > 0;
}

bool IsTaken(const std::string& name, std::span<const std::string> earlier) {
  if (std::ranges::count(kReserved, std::string_view(name)) > 0 || IsRowMetric(name)) return true;
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending) && IsRowMetric(name.substr(0, name.size() - ending.size())))
      return true;
  }
  return std::ranges::any_of(earlier, [&name](const std::string& other) {
    return IsColumnOf(name, other) || IsColumnOf(other, name);
  });
}

// Whether an = is no part of a comparison.
bool Assigns(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '=') continue;
    if (text.substr(i).starts_with("==")) {
      ++i;
    } else if (i == 0 || (text[i - 1] != '<' && text[i - 1] != '>' && text[i - 1] != '!')) {
      return true;
    }
  }
  return false;
}

}  // namespace

class DerivedColumns::Expression {
 public:
  // `where` names the column in errors; `others`: names of the axes and of the columns derived
  // before.
  Expression(const std::string& text, const std::string& where, std::span<const std::string> others)
      : where_(where) {
    if (Assigns(text)) Refuse("= assigns; allowed: comparisons with ==");
    try {
      parser_.DefineNameChars(fmt::format("{}{}.[]", kDigits, kLetters).c_str());
      parser_.SetExpr(text);
      for (const auto& [name, slot] : parser_.GetUsedVar()) Use(name, others);
      for (const auto& input : inputs_) parser_.DefineVar(input->name, &input->value);
      int results = 0;
      parser_.Eval(results);
      if (results != 1) Refuse("has several values, separated by commas; allowed: one");
    } catch (const mu::ParserError& error) {
      Refuse(fmt::format("{} (in \"{}\")", Printable(error.GetMsg(), kMessageBytesMax),
                         Printable(text, kMessageBytesMax)));
    }
  }

  void SetColumns(std::span<const std::string> columns) {
    for (const auto& input : inputs_) {
      const auto found = std::ranges::find(columns, input->name);
      input->column.reset();
      if (found != columns.end()) input->column = static_cast<std::size_t>(found - columns.begin());
    }
  }

  // Nothing if an input has no value, or the result is not finite.
  std::optional<double> ValueIn(const std::vector<std::string>& cells) {
    for (const auto& input : inputs_) {
      if (!input->column) return std::nullopt;
      const auto value = NumberFrom<double>(cells[*input->column]);
      if (!value) return std::nullopt;
      input->value = *value;
    }
    const double value = parser_.Eval();
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
  }

 private:
  struct Input {
    std::string name;
    double value = 1;
    std::optional<std::size_t> column;
  };

  [[noreturn]] void Refuse(const std::string& what) const {
    throw InputError(InputError::Kind::kUsage, where_, what);
  }

  void Use(const std::string& name, std::span<const std::string> others) {
    const bool known = IsRowMetric(name) || std::ranges::count(others, name) > 0;
    if (!known) RefuseName(name, others);
    if (IsTextMetric(name)) Refuse(fmt::format("{} is a text", name));
    inputs_.push_back(std::make_unique<Input>(Input{.name = name, .value = 1, .column = {}}));
  }

  [[noreturn]] void RefuseName(const std::string& name, std::span<const std::string> others) const {
    std::vector<std::string_view> names(others.begin(), others.end());
    names.insert(names.end(), StudyMetrics().begin(), StudyMetrics().end());
    for (const Metric& metric : MetricCatalog()) names.push_back(metric.name);
    Refuse(fmt::format("no column \"{}\"; nearest: {}; allowed: keys of summary.json, {}{}{}",
                       Printable(name), NearestNames(name, names), fmt::join(StudyMetrics(), ", "),
                       others.empty() ? "" : ", ", fmt::join(others, ", ")));
  }

  std::string where_;
  mu::Parser parser_;
  std::vector<std::unique_ptr<Input>> inputs_;
};

DerivedColumns::DerivedColumns(const StudyConfig& study) {
  for (std::size_t i = 0; i < study.derived.size(); ++i) Add(study, i);
}

DerivedColumns::~DerivedColumns() = default;

void DerivedColumns::Add(const StudyConfig& study, std::size_t place) {
  const DerivedConfig& derived = study.derived[place];
  const std::string where =
      fmt::format("{}: derived[{}]: {}", study.source, place, Printable(derived.name));
  const auto refuse = [&where](const std::string& what) {
    throw InputError(InputError::Kind::kUsage, where, what);
  };
  const std::string& name = derived.name;
  if (name.empty() || name.find_first_of(kDigits) == 0 ||
      name.find_first_not_of(fmt::format("{}{}", kDigits, kLetters)) != std::string::npos)
    refuse("name: is no name; allowed: letters, digits and _, not a digit first");
  if (IsTaken(name, names_)) refuse("name: is a column already; allowed: other names");
  if (derived.value.empty()) refuse("value: is missing; allowed: an expression");
  std::vector<std::string> others = AxesOf(study);
  others.insert(others.end(), names_.begin(), names_.end());
  expressions_.push_back(std::make_unique<Expression>(derived.value, where, others));
  names_.push_back(name);
}

void DerivedColumns::SetColumns(std::span<const std::string> columns) {
  std::vector<std::string> all(columns.begin(), columns.end());
  all.insert(all.end(), names_.begin(), names_.end());
  for (const auto& expression : expressions_) expression->SetColumns(all);
}

void DerivedColumns::AppendTo(std::vector<std::string>& cells) {
  for (const auto& expression : expressions_) {
    const std::optional<double> value = expression->ValueIn(cells);
    cells.push_back(value ? ShortestText(*value) : "");
  }
}

}  // namespace twin::run
