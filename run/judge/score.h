// How much better a policy is than references, from pairs of runs that differ in the policy alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "run/many/output_statistics.h"

namespace twin::run {

// Differences of utility (judged_run.h), by cell: workloads, systems and loads that are looked at
// equally often. Cells may have means of their own: the variance is that within cells.
class PairedScore {
 public:
  explicit PairedScore(std::size_t cells) : differences_(cells) {}

  void Add(std::size_t cell, double difference) { differences_[cell].push_back(difference); }

  [[nodiscard]] std::size_t pairs() const;
  [[nodiscard]] std::size_t PairsOf(std::size_t cell) const { return differences_[cell].size(); }
  [[nodiscard]] double MeanOf(std::size_t cell) const;
  // The mean over cells of their means; the interval's ends are NaN below two pairs in each cell.
  [[nodiscard]] Interval Mean(double level) const;
  // Valid when looked at again after each round; undecided below ten pairs.
  [[nodiscard]] Sign Decide(double alpha) const;

 private:
  // Within cells, over all cells; NaN if no cell has two pairs.
  [[nodiscard]] double Variance() const;

  std::vector<std::vector<double>> differences_;
};

// The error that submission `number`, from 1, may make with each of `references`, so that over all
// submissions the chance of any false "better" stays below `error`: error / (k (k + 1)), whose sum
// over k is `error`.
double ErrorOfSubmission(double error, std::uint64_t number, std::size_t references);

}  // namespace twin::run
