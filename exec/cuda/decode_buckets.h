// The batch sizes that decodes are padded to, so that a few captured graphs serve all.
#pragma once

#include <cstdint>
#include <vector>

namespace twin::exec {

// 1, 2, 4, 8, then every 8 to 256, then every 16 to 512: vLLM's, so that padding costs little where
// batches are small.
constexpr std::int64_t kDecodeBucketMax = 512;

// The smallest bucket that holds so many sequences; 0 where there is none.
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
