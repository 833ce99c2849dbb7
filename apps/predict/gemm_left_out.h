// Errors of a table of matrix products for rows that are left out of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "run/run_control.h"
#include "sim/devices/operations/gemm_profile.h"

namespace twin::run {

// Relative errors: quantiles of their absolute values, and the bias of the middle prediction.
struct ImportError {
  std::int64_t rows = 0;
  double median = 0;
  double p90 = 0;
  double bias = 0;
};

// Errors from logarithms of predicted over measured times.
ImportError ImportErrorOf(const std::vector<double>& logs);

// Errors of interpolation: logarithms of predicted over measured times.
struct GemmJudged {
  std::vector<double> logs;
  // By range of m: absolute errors divided by the deviation of kriging.
  std::array<std::vector<double>, sim::kGemmRanges> in_deviations;

  void Add(std::int64_t m, double log, double variance);
  // GemmTable's shape_sd or m_sd: the deviations with which 90 % of the errors lie in their
  // intervals.
  [[nodiscard]] std::vector<double> Deviations() const;
};

// Errors where each (n, k), and each m but the first and last, is left out of a table.
struct GemmLeftOut {
  GemmJudged shapes;
  GemmJudged tokens;
};

// Tables of other libraries that a table may take into account. Nothing is left out of them.
struct GemmOthers {
  std::span<const sim::GemmTable* const> pool = {};  // counts for the errors of (n, k) alone
  const sim::GemmTable* trend = nullptr;             // for the errors of m alone; null: none
};

// Ends early as EndIfStopped() does.
GemmLeftOut JudgeLeftOut(const sim::GemmTable& table, const RunControl& control,
                         const GemmOthers& others = {});

// Whether the mean absolute error of `with` is less by 1 % or more. Each change of an interpolation
// has to pass it: one that gains less on isolated products has cost as much on recorded steps.
bool IsGain(const std::vector<double>& without, const std::vector<double>& with);

// The share of a change, from 0 to 1, with the least mean absolute error, where errors are linear
// in the share: `none` and `whole` are the errors at 0 and 1. 0 unless the change is a gain
// (IsGain). REQUIRES: equally many of both, one or more.
double BestShare(const std::vector<double>& none, const std::vector<double>& whole);

}  // namespace twin::run
