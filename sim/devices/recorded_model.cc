#include "sim/devices/recorded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "core/input_error.h"
#include "sim/cost/grid_position.h"

namespace twin::sim {
namespace {

// How far a quantity exceeds what was recorded, in octaves.
double OctavesBeyond(double value, std::int64_t recorded) {
  const double ratio = value / static_cast<double>(std::max<std::int64_t>(1, recorded));
  return ratio <= 1 ? 0 : std::log2(ratio);
}

void Require(bool holds, const RecordedModel& recorded, std::string_view what) {
  if (!holds) throw InputError(InputError::Kind::kUsage, recorded.model, std::string(what));
}

void CheckRatios(const RecordedModel& recorded, std::string_view field,
                 const RecordedRatios& ratios) {
  const auto require = [&](bool holds, std::string_view what) {
    Require(holds, recorded, fmt::format("{}: {}", field, what));
  };
  require(ratios.rows.size() == ratios.log_ratios.size(),
          "rows and log_ratios must be equally many");
  if (ratios.rows.empty()) return;
  require(ratios.rows.front() >= 1 &&
              std::ranges::adjacent_find(ratios.rows, std::greater_equal<>{}) == ratios.rows.end(),
          "rows must be 1 or more and ascend");
  require(std::ranges::all_of(ratios.log_ratios,
                              [](double log_ratio) { return std::abs(log_ratio) <= 1; }),
          "log_ratios must be from -1 to 1");
}

}  // namespace

double RecordedRatios::At(double step_rows) const {
  if (rows.empty()) return 0;
  GridPosition position = Locate(rows, step_rows);
  if (position.low != position.high) {
    const double low = rows[position.low];
    position.share = std::log(step_rows / low) / std::log(rows[position.high] / low);
  }
  return position.In(log_ratios);
}

bool RecordedModel::Is(const ModelSpec& spec, const Parallelism& parallelism) const {
  return parallelism.pipeline == 1 && model == spec.name && tensor == parallelism.tensor &&
         weight_dtype == spec.weight_dtype && kv_dtype == spec.kv_dtype;
}

double RecordedModel::OpenShare(double rows, double decodes, double context_tokens) const {
  const double beyond =
      std::max({OctavesBeyond(rows, rows_max), OctavesBeyond(decodes, decodes_max),
                OctavesBeyond(context_tokens, context_tokens_max)});
  return beyond == 0 ? 0 : 1 - std::exp(-beyond);
}

void Validate(const RecordedModel& recorded) {
  Require(recorded.tensor >= 1, recorded, "tensor must be 1 or more");
  Require(recorded.lasting_sd >= 0 && recorded.prompt_lasting_sd >= 0 && recorded.step_sd >= 0,
          recorded, "standard deviations must be 0 or more");
  CheckRatios(recorded, "decode_ratios", recorded.decode_ratios);
  CheckRatios(recorded, "prompt_ratios", recorded.prompt_ratios);
}

}  // namespace twin::sim
