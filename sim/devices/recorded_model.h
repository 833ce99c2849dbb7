// Correction of step times for models whose steps were recorded: ratio recorded / predicted by
// number of rows, with its uncertainty, on top of the terms of all models (step_profile.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/model_spec.h"

namespace twin::sim {

// Ratio recorded / predicted of the operations of steps (step time without the gap between steps),
// by rows with padding: medians, as logarithms. Between the given rows the logarithm is linear over
// log2(rows), beyond them constant.
struct RecordedRatios {
  std::vector<double> rows;  // at least 1, ascending
  std::vector<double> log_ratios;

  // The logarithm; 0 without ratios. REQUIRES: rows >= 1.
  [[nodiscard]] double At(double step_rows) const;

  bool operator==(const RecordedRatios&) const = default;
};

// Recorded steps determine a model's steps better than its operations do, up to the largest of
// them.
struct RecordedModel {
  std::string model;
  std::int32_t tensor = 1;
  DType weight_dtype = DType::kBf16;
  DType kv_dtype = DType::kBf16;
  // Ratios of steps without prompts, and of steps with prompts.
  RecordedRatios decode_ratios;
  RecordedRatios prompt_ratios;
  // Standard deviations of logarithms: of the mean error of a recording's decode steps; of the mean
  // error of its steps with prompts, which is independent; and of single steps.
  double lasting_sd = 0;
  double prompt_lasting_sd = 0;
  double step_sd = 0;
  // The most rows, decodes and tokens of context of one recorded step.
  std::int64_t rows_max = 0;
  std::int64_t decodes_max = 0;
  std::int64_t context_tokens_max = 0;

  // True if steps of this model, in its formats and on as many ranks, were recorded.
  [[nodiscard]] bool Is(const ModelSpec& spec, const Parallelism& parallelism) const;

  // Share of the variance of a step's operations that remains although steps were recorded: 0 up to
  // the largest recorded step, 1 - 1/e an octave beyond, and so on.
  [[nodiscard]] double OpenShare(double rows, double decodes, double context_tokens) const;

  bool operator==(const RecordedModel&) const = default;
};

// Throws InputError (usage) "NAME: decode_ratios: ..." for ratios whose rows do not match or
// ascend, or that exceed a factor of e, and for negative deviations and less than one rank.
void Validate(const RecordedModel& recorded);

}  // namespace twin::sim
