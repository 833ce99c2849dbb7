// Quantiles of very many values in little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace twin {

// A multiset of non-negative int64 values (nanoseconds, tokens), each with a weight.
//
// The idea: a run has too many token gaps to keep, but few of them when it is short, and then exact
// quantiles are worth having. So a sketch keeps the values themselves until they are too many and
// only then goes over to a histogram with logarithmic buckets, each divided evenly (the layout of
// HdrHistogram, Gil Tene): values below 1024 have a bucket each, larger ones share a bucket with
// those whose leading 10 bits are equal, and a bucket stands for its middle.
//
// Exact       while at most exact_entries insertions were made, and for longer while at most half
//             as many distinct values occur; count, sum, mean, minimum and maximum always; the
//             standard deviation to 1e-9.
// Error       of a quantile afterwards: at most 1/1024 (0.098 %) of the value.
// Quantiles   as quantile.h defines them.
// Memory      16 bytes an entry while exact (256 KiB by default), then 220 KiB; nothing is
//             allocated after the change.
// Cost        Insert: about 15 ns.
//
// Easy to get wrong: sums of squares of nanoseconds cancel, so they are taken of offsets from the
// first value; a mean of runs' quantiles is no quantile, so sketches are merged instead (in any
// order: once bucketed, the answers are the same); equal values in a row are one entry with a
// weight, so the number of entries says nothing about the number of values.
class Sketch {
 public:
  static constexpr std::size_t kExactEntries = 16384;
  static constexpr double kRelativeError = 1.0 / 1024;

  // `exact_entries`: how many values are kept before the sketch becomes a histogram. >= 2.
  explicit Sketch(std::size_t exact_entries = kExactEntries) : exact_entries_(exact_entries) {}

  // Adds `value` `weight` times. REQUIRES: value >= 0, weight >= 1.
  void Insert(std::int64_t value, std::int64_t weight = 1);

  void Merge(const Sketch& other);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] bool exact() const { return buckets_.empty(); }

  [[nodiscard]] double sum() const;
  // These are NaN while the sketch is empty.
  [[nodiscard]] double mean() const;
  [[nodiscard]] double deviation() const;  // of the population, numpy's std
  [[nodiscard]] double minimum() const;
  [[nodiscard]] double maximum() const;
  // REQUIRES: 0 <= q <= 1. Cost: passes over the entries (the first time: sorts
  // them) or over the buckets.
  [[nodiscard]] double Quantile(double q) const;

 private:
  __extension__ using Wide = __int128;
  using Entry = std::pair<std::int64_t, std::int64_t>;  // value, weight

  static std::size_t BucketOf(std::int64_t value);
  static double MiddleOf(std::size_t bucket);

  void MakeRoom();
  void UseBuckets();
  void AddToBucket(std::int64_t value, std::int64_t weight);
  void SortEntries() const;
  void JoinEqual() const;  // REQUIRES: entries_ are in order
  // The order statistic at `rank`, from 0.
  [[nodiscard]] double ValueAt(std::int64_t rank) const;

  std::size_t exact_entries_;
  // Sorting and joining equal values changes no answer, so that questions may do it.
  mutable std::vector<Entry> entries_;
  mutable bool sorted_ = true;
  std::vector<std::int64_t> buckets_;  // weights; empty while exact
  std::int64_t count_ = 0;
  std::int64_t reference_ = 0;  // the first value; sums of offsets from it cancel little
  Wide sum_ = 0;                // of offsets
  double sum_of_squares_ = 0;   // of offsets
  std::int64_t minimum_ = 0;
  std::int64_t maximum_ = 0;
};

}  // namespace twin
