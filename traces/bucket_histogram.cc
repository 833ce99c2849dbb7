#include "traces/bucket_histogram.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "traces/trace_limits.h"

namespace twin {
namespace {

// The bucket of the sample at `rank` samples from the least, and the samples before that bucket.
struct Place {
  const Bucket* bucket;
  double before;
};

Place PlaceOf(const BucketHistogram& histogram, double rank) {
  double before = 0;
  for (const Bucket& bucket : histogram.buckets) {
    if (rank < before + bucket.count || &bucket == &histogram.buckets.back()) {
      return {&bucket, before};
    }
    before += bucket.count;
  }
  return {nullptr, 0};
}

}  // namespace

QuantileRange BucketHistogram::Quantile(double q) const {
  CHECK(!buckets.empty() && q > 0 && q < 1);
  const double reach = 1.96 * std::sqrt(count * q * (1 - q));
  const Place place = PlaceOf(*this, count * q);
  const Bucket& bucket = *place.bucket;
  const double share = (count * q - place.before) / bucket.count;
  return {.above = PlaceOf(*this, std::max(count * q - reach, 0.0)).bucket->above,
          .up_to = PlaceOf(*this, count * q + reach).bucket->up_to,
          .middle = std::isfinite(bucket.up_to)
                        ? bucket.above + share * (bucket.up_to - bucket.above)
                        : bucket.above};
}

std::vector<std::int32_t> CountsOf(const BucketHistogram& histogram) {
  CHECK(!histogram.buckets.empty());
  double low = 0;
  double width = 0;
  double endless = 0;
  for (const Bucket& bucket : histogram.buckets) {
    low += bucket.count * bucket.above;
    if (std::isfinite(bucket.up_to)) {
      width += bucket.count * (bucket.up_to - bucket.above);
    } else {
      endless = bucket.count;
    }
  }
  const double place = width > 0 ? std::clamp((histogram.sum - low) / width, 0.0, 1.0) : 0;
  const double rest = std::max(histogram.sum - low - place * width, 0.0);
  std::vector<std::int32_t> counts;
  double exact = 0;  // the sum of the values so far, before rounding
  double total = 0;
  for (const Bucket& bucket : histogram.buckets) {
    const double value = std::isfinite(bucket.up_to)
                             ? bucket.above + place * (bucket.up_to - bucket.above)
                             : bucket.above + rest / endless;
    for (std::int64_t i = 0; i < std::llround(bucket.count); ++i) {
      exact += value;
      const double rounded = std::clamp(std::round(exact - total), 1.0, double{kTokensMax});
      total += rounded;
      counts.push_back(static_cast<std::int32_t>(rounded));
    }
  }
  return counts;
}

}  // namespace twin
