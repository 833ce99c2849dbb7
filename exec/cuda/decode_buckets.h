// Decode buckets: the batch sizes that decodes are padded to, so that few graphs serve all sizes.
#pragma once

#include <cstdint>
#include <vector>

namespace twin::exec {

// The buckets are 1, 2, 4, 8, then multiples of 8 up to 256, then multiples of 16 up to 512, as in
// vLLM. Small batches therefore get little padding.
constexpr std::int64_t kDecodeBucketMax = 512;

// The smallest bucket that holds `sequences`; 0 if there is none.
constexpr std::int64_t DecodeBucketOf(std::int64_t sequences) {
  if (sequences <= 0 || sequences > kDecodeBucketMax) return 0;
  if (sequences <= 2) return sequences;
  if (sequences <= 4) return 4;
  const std::int64_t step = sequences <= 256 ? 8 : 16;
  return (sequences + step - 1) / step * step;
}

// All buckets up to the one that holds `sequences`, ascending.
inline std::vector<std::int64_t> DecodeBuckets(std::int64_t sequences) {
  std::vector<std::int64_t> buckets;
  for (std::int64_t i = 1; i <= sequences && i <= kDecodeBucketMax; ++i) {
    const std::int64_t bucket = DecodeBucketOf(i);
    if (buckets.empty() || buckets.back() != bucket) buckets.push_back(bucket);
  }
  return buckets;
}

}  // namespace twin::exec
