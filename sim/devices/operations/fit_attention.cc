#include "sim/devices/operations/fit_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/statistics.h"
#include "sim/devices/operations/attention_table.h"
#include "sim/devices/operations/fit_attention_formula.h"

namespace twin::sim {
namespace {

constexpr double kNoMeasurement = std::numeric_limits<double>::quiet_NaN();

std::vector<AttentionRow> RowsOf(const AttentionTable& table, const AttentionGrid& grid,
                                 const std::vector<AttentionMeasurement>& samples) {
  std::map<std::pair<std::int32_t, std::int32_t>, AttentionRow> rows;
  const auto index = [](const std::vector<std::uint32_t>& values, std::uint32_t value) {
    return static_cast<std::size_t>(std::ranges::lower_bound(values, value) - values.begin());
  };
  for (const AttentionMeasurement& sample : samples) {
    AttentionRow& row = rows[{sample.kv_heads, sample.query_heads}];
    if (row.log_ratios.empty()) {
      row.query_heads = sample.query_heads;
      row.kv_heads = sample.kv_heads;
      row.log_ratios.assign(grid.batches.size() * grid.lengths.size(), kNoMeasurement);
    }
    row.log_ratios[index(grid.batches, sample.batch) * grid.lengths.size() +
                   index(grid.lengths, sample.length)] =
        std::log(sample.microseconds / FormulaMicroseconds(table, sample));
  }
  std::vector<AttentionRow> list;
  for (auto& [heads, row] : rows) list.push_back(std::move(row));
  return list;
}

// A table in the making.
struct Draft {
  AttentionTable table;
  AttentionGrid grid;
  std::vector<AttentionRow> all;   // measured over formula
  std::vector<AttentionRow> rows;  // as `all`, less the corrections of the base
  // The base's correction of each of `all`, without a row of the same heads; empty without a base.
  std::vector<AttentionCorrection> bases;
  std::function<void()> poll;  // of the options
};

struct HeldOut {
  std::vector<double> errors;    // relative, absolute
  std::vector<double> standard;  // logarithm over its predicted standard deviation, absolute
};

int Find(const std::vector<AttentionRow>& rows, const AttentionRow& row) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].query_heads == row.query_heads && rows[i].kv_heads == row.kv_heads) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// Predicts every row from the other rows, by weighted means or as the model does it.
enum class Rule : std::uint8_t { kMeans, kModel };
HeldOut LeaveOut(const AttentionTable& table, const Draft& draft, Rule rule = Rule::kModel) {
  HeldOut result;
  if (draft.rows.size() == 1) return result;
  const AttentionGrid& grid = draft.grid;
  for (std::size_t i = 0; i < draft.all.size(); ++i) {
    if (draft.poll) draft.poll();
    const AttentionRow& row = draft.all[i];
    const int left_out = static_cast<int>(i);
    AttentionCorrection correction(table, grid, draft.rows, row.query_heads, row.kv_heads,
                                   left_out);
    if (rule == Rule::kModel && Kriges(table)) correction.KrigePrompts();
    for (std::size_t b = 0; b < grid.batches.size(); ++b) {
      for (std::size_t l = 0; l < grid.lengths.size(); ++l) {
        double measured = row.log_ratios[b * grid.lengths.size() + l];
        if (std::isnan(measured)) continue;
        if (!draft.bases.empty()) measured -= draft.bases[i](grid.batches[b], grid.lengths[l]).mean;
        const LogRatio predicted = correction(grid.batches[b], grid.lengths[l]);
        result.errors.push_back(std::abs(std::expm1(predicted.mean - measured)));
        result.standard.push_back(std::abs(predicted.mean - measured) / predicted.sd);
      }
    }
  }
  return result;
}

double LossOf(const HeldOut& held) {
  return QuantileOrZero(held.errors, 0.5) + 0.3 * QuantileOrZero(held.errors, 0.9);
}

// The scales with which weighted means of held-out rows have the smallest error; returns the
// model's error.
double ChooseScales(Draft& draft) {
  double best = std::numeric_limits<double>::infinity();
  AttentionTable trial = draft.table;
  for (std::size_t choice = 0; choice < 18; ++choice) {
    constexpr std::array<double, 3> kScales = {0.35, 0.7, 1.4};
    trial.by_query_heads = choice % 2 == 1;
    trial.group_scale = kScales[choice / 2 % 3];
    trial.batch_scale = kScales[choice / 6];
    const double loss = LossOf(LeaveOut(trial, draft, Rule::kMeans));
    if (loss >= best) continue;
    best = loss;
    draft.table = trial;
  }
  return Kriges(draft.table) ? LossOf(LeaveOut(draft.table, draft)) : best;
}

// The spread with which 90 % of the held-out rows lie within their 90 % interval.
double CalibratedSpread(const Draft& draft) {
  constexpr double kInterval = 1.645;
  constexpr double kLow = 0.002;
  constexpr double kHigh = 1;
  AttentionTable table = draft.table;
  if (Kriges(table)) {  // standard deviations are proportional to it
    table.spread = 1;
    const HeldOut held = LeaveOut(table, draft);
    if (held.standard.empty()) return 0.1;
    return std::clamp(QuantileOrZero(held.standard, 0.9) / kInterval, kLow, kHigh);
  }
  double low = kLow;
  double high = kHigh;
  for (int i = 0; i < 10; ++i) {
    table.spread = std::sqrt(low * high);
    const HeldOut held = LeaveOut(table, draft);
    if (held.standard.empty()) return 0.1;
    (QuantileOrZero(held.standard, 0.9) > kInterval ? low : high) = table.spread;
  }
  return table.spread;
}

// Lengths of a thinned table.
bool Keeps(AttentionKind kind, std::uint32_t length) {
  const bool power = std::has_single_bit(length);
  const bool alternate = std::countr_zero(length) % 2 == 1;
  return power && (kind == AttentionKind::kContext || length >= 64 || alternate);
}

// To 4 digits, so that a profile reads the same numbers that were fitted.
void Round(std::span<double* const> numbers) {
  for (double* at : numbers) *at = std::strtod(fmt::format("{:.4g}", *at).c_str(), nullptr);
}

std::vector<AttentionRow> ParsedRows(const AttentionFit& fit) {
  std::vector<AttentionRow> rows;
  for (const std::string& text : fit.table.rows) {
    rows.push_back(ParseAttentionRow(fit.grid, text, "base"));
  }
  return rows;
}

// The draft with its rows relative to a base.
Draft WithBase(const Draft& draft, const AttentionFit& base) {
  const std::vector<AttentionRow> base_rows = ParsedRows(base);
  Draft result = draft;
  result.table.base = 0;
  const std::size_t lengths = draft.grid.lengths.size();
  for (AttentionRow& row : result.rows) {
    const AttentionCorrection of_row(base.table, base.grid, base_rows, row.query_heads,
                                     row.kv_heads);
    for (std::size_t i = 0; i < row.log_ratios.size(); ++i) {
      row.log_ratios[i] -=
          of_row(draft.grid.batches[i / lengths], draft.grid.lengths[i % lengths]).mean;
    }
    result.bases.emplace_back(base.table, base.grid, base_rows, row.query_heads, row.kv_heads,
                              Find(base_rows, row));
  }
  return result;
}

// The fit of a finished draft, with its errors.
AttentionFit Judged(const Draft& draft, std::size_t samples) {
  AttentionFit fit;
  fit.samples = samples;
  std::vector<double> formula;
  for (const AttentionRow& row : draft.all) {
    for (const double ratio : row.log_ratios) {
      if (!std::isnan(ratio)) formula.push_back(std::abs(std::expm1(-ratio)));
    }
  }
  fit.formula_median = QuantileOrZero(formula, 0.5);
  fit.formula_p90 = QuantileOrZero(formula, 0.9);
  const HeldOut held = LeaveOut(draft.table, draft);
  fit.held_out_median = QuantileOrZero(held.errors, 0.5);
  fit.held_out_p90 = QuantileOrZero(held.errors, 0.9);
  fit.table = draft.table;
  fit.grid = draft.grid;
  return fit;
}

}  // namespace

AttentionFit FitAttention(const HardwareSpec& hardware, const AttentionTable& key,
                          const std::vector<AttentionMeasurement>& samples,
                          const AttentionFitOptions& options) {
  CHECK(!samples.empty());
  Draft draft;
  draft.poll = options.poll;
  draft.table = FitAttentionFormula(hardware, key, samples, options);
  Round(draft.table.context.fields());
  Round(draft.table.generation.fields());
  std::set<std::uint32_t> batches;
  std::set<std::uint32_t> lengths;
  std::vector<AttentionMeasurement> tabulated;
  for (const AttentionMeasurement& sample : samples) {
    if (sample.past > 0 || sample.decodes > 0) continue;
    if (options.thins_lengths && !Keeps(key.kind, sample.length)) continue;
    tabulated.push_back(sample);
    batches.insert(sample.batch);
    lengths.insert(sample.length);
  }
  draft.grid.batches.assign(batches.begin(), batches.end());
  draft.grid.lengths.assign(lengths.begin(), lengths.end());
  draft.all = RowsOf(draft.table, draft.grid, tabulated);
  draft.rows = draft.all;
  const double loss = ChooseScales(draft);
  if (options.base != nullptr) {
    Draft based = WithBase(draft, *options.base);
    if (ChooseScales(based) < loss) draft = based;
  }
  draft.table.spread = std::round(1e4 * CalibratedSpread(draft)) / 1e4;
  for (const AttentionRow& row : draft.rows) {
    draft.table.rows.push_back(PrintAttentionRow(draft.grid, row));
  }
  return Judged(draft, samples.size());
}

}  // namespace twin::sim
