// How much better a policy is than references, from pairs of runs that differ in the policy alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "run/many/output_statistics.h"

namespace twin::run {

// Where a cell comes from: one of `cells` cells of a stratum, such as a workload, of which some
// were drawn. 0: all of them are there.
struct CellOrigin {
  std::size_t stratum = 0;
  std::size_t cells = 0;
};

// Differences of utility (judged_run.h), by cell: a workload on a system at a load.
//
// The score estimates the mean over strata of the mean over all cells of each, also over those that
// were not drawn. Its variance is that of two-stage sampling (Cochran, Sampling Techniques, section
// 10.3): within cells between runs, and between cells, with the finite population correction, as
// far as cells are left out. If all are there, differences between cells are no noise. Strata of
// which a single cell was drawn share one variance, that of their means (collapsed strata, section
// 5A.12), which is too large if anything.
class PairedScore {
 public:
  // `origins`: by cell.
  explicit PairedScore(std::vector<CellOrigin> origins)
      : origins_(std::move(origins)), differences_(origins_.size()) {}

  void Add(std::size_t cell, double difference) { differences_[cell].push_back(difference); }

  [[nodiscard]] std::size_t pairs() const;
  [[nodiscard]] std::size_t PairsOf(std::size_t cell) const { return differences_[cell].size(); }
  [[nodiscard]] double MeanOf(std::size_t cell) const;
  // The score, with an interval of Student's t; its ends are NaN if no cell has two pairs. Cells
  // with one pair then have the mean variance of the others.
  [[nodiscard]] Interval Mean(double level) const;
  // Valid when looked at again after each round; undecided below ten pairs.
  [[nodiscard]] Sign Decide(double alpha) const;

 private:
  // NaN: cannot be estimated. Degrees of freedom: Satterthwaite's, from estimates of the squared
  // variances without bias.
  struct Estimate {
    double mean = 0;
    double variance = 0;
    double degrees = 0;
  };
  [[nodiscard]] Estimate Estimated() const;
  // The variance of a cell's mean between runs; the degrees of freedom of its estimate.
  struct Component {
    double variance = 0;
    double degrees = 0;
  };
  [[nodiscard]] Component WithinCell(std::size_t cell) const;
  // The variance within cells, over all cells; NaN if no cell has two pairs.
  [[nodiscard]] Component WithinAll() const;

  std::vector<CellOrigin> origins_;
  std::vector<std::vector<double>> differences_;
};

// The error that submission `number`, from 1, may make with each of `references`, so that over all
// submissions the chance of any false "better" stays below `error`: error / (k (k + 1)), whose sum
// over k is `error`.
double ErrorOfSubmission(double error, std::uint64_t number, std::size_t references);

}  // namespace twin::run
