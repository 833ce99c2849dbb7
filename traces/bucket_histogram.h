// Samples that were counted by ranges of their values, as Prometheus' histograms keep them.
#pragma once

#include <cstdint>
#include <vector>

namespace twin {

// A range of values, without its lower end and with its upper one, and its number of samples.
struct Bucket {
  double above = 0;
  double up_to = 0;  // infinite in the last one
  double count = 0;

  bool operator==(const Bucket&) const = default;
};

// A quantile between the ends of buckets.
struct QuantileRange {
  double above = 0;
  double up_to = 0;
  double middle = 0;  // as if the samples of the bucket were spread evenly over it
};

struct BucketHistogram {
  std::vector<Bucket> buckets;  // in order, without empty ones; none if only `sum` is known
  double count = 0;
  double sum = 0;

  [[nodiscard]] double mean() const { return sum / count; }

  // The range in which the q-quantile of a population lies, of which the samples are independent
  // draws: the buckets of the order statistics at n q +- 1.96 sqrt(n q (1 - q)), an interval of
  // 95 %. REQUIRES: there are buckets; 0 < q < 1.
  [[nodiscard]] QuantileRange Quantile(double q) const;
};

// Whole numbers >= 1, as many as there are samples, from the least on: each at the same relative
// place of its bucket, which is chosen so that their mean is the histogram's as closely as whole
// numbers allow. Samples of the infinite bucket share what is then left of the sum. REQUIRES: there
// are buckets.
std::vector<std::int32_t> CountsOf(const BucketHistogram& histogram);

}  // namespace twin
