// A quantile sketch: quantiles of a large number of values in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace twin {

// A multiset of non-negative int64 values (nanoseconds, tokens), each with a weight.
//
// Idea: a long run has too many ITLs to store, while a short run has few, and its exact quantiles
// are affordable. A sketch therefore stores the values themselves until there are too
// many. Then it switches to a histogram with the layout of HdrHistogram (Gil Tene): logarithmic
// ranges, each divided into equal buckets. Values below 1024 have a bucket each, larger ones share
// a bucket if their leading 10 bits are equal. The middle of a bucket represents its values.
//
// Exact       while at most exact_entries insertions were made, and for longer while at most half
//             as many distinct values occur; count, sum, mean, minimum and maximum always; the
//             standard deviation to 1e-9.
// Error       of a quantile after the switch: at most 1/1024 (0.098 %) of the value.
// Quantiles   as statistics.h defines them.
// Memory      16 bytes per entry while exact (256 KiB by default), then 220 KiB; nothing is
//             allocated after the switch.
// Cost        Insert: about 15 ns.
//
// Easy to get wrong:
// - Sums of squares of nanoseconds cancel, so they are computed from offsets to the first value.
// - A mean of the quantiles of several runs is not a quantile: merge their sketches instead. The
//   order of merging does not matter: once bucketed, the answers are the same.
// - Consecutive equal values are one entry with a weight, so that the number of entries is not the
//   number of values.
class Sketch {
 public:
  static constexpr std::size_t kExactEntries = 16384;
  static constexpr double kRelativeError = 1.0 / 1024;

  // `exact_entries`: entries stored before the sketch becomes a histogram. REQUIRES: >= 2.
  explicit Sketch(std::size_t exact_entries = kExactEntries) : exact_entries_(exact_entries) {}

  // Adds `value` `weight` times. REQUIRES: value >= 0, weight >= 1.
  void Insert(std::int64_t value, std::int64_t weight = 1);

  // Adds all values of `other`.
  void Merge(const Sketch& other);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] bool exact() const { return buckets_.empty(); }

  [[nodiscard]] double sum() const;
  // The functions below return NaN while the sketch is empty.
  [[nodiscard]] double mean() const;
  [[nodiscard]] double deviation() const;  // population standard deviation, as numpy's std
  [[nodiscard]] double minimum() const;
  [[nodiscard]] double maximum() const;
  // Number of values that are at least `value`, to the precision of the buckets.
  [[nodiscard]] std::int64_t CountAtLeast(double value) const;
  // REQUIRES: 0 <= q <= 1. Cost: passes over the buckets or, while exact, over the entries, which
  // are sorted first if necessary.
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
  void JoinEqual() const;  // REQUIRES: entries_ are sorted
  // The order statistic at `rank`, from 0.
  [[nodiscard]] double ValueAt(std::int64_t rank) const;

  std::size_t exact_entries_;
  // Mutable so that const functions can sort and join equal values, which changes no result.
  mutable std::vector<Entry> entries_;
  mutable bool sorted_ = true;
  std::vector<std::int64_t> buckets_;  // weights; empty while exact
  std::int64_t count_ = 0;
  std::int64_t reference_ = 0;  // the first value; sums of offsets from it cancel little
  Wide sum_ = 0;                // sum of offsets
  double sum_of_squares_ = 0;   // sum of squares of offsets
  std::int64_t minimum_ = 0;
  std::int64_t maximum_ = 0;
};

}  // namespace twin
