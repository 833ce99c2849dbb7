#include "sim/devices/kv_grouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/check.h"
#include "core/input_error.h"
#include "core/layer_groups.h"

namespace twin::sim {
namespace {

// Tokens that kernels of paged attention want a block to be a multiple of.
constexpr std::int64_t kKernelBlock = 16;
constexpr std::int64_t kLatentKernelBlock = 128;

// Layers with equal needs: the layer numbers of the whole model, and their page.
struct Bucket {
  KvGroup group;  // its `layers` are not counted here
  bool latent = false;
  std::int64_t token_bytes = 0;  // 0 for states
  std::int64_t page_bytes = 0;
  std::vector<std::int32_t> layers;

  [[nodiscard]] bool Alike(const Bucket& other) const {
    return group == other.group && latent == other.latent && page_bytes == other.page_bytes;
  }
};

Bucket BucketOf(const ModelSpec& model, const LayerSpec& layer, const Parallelism& parallelism,
                const KvGroupingConfig& config) {
  Bucket bucket;
  bucket.group.block_size = config.block_size;
  if (layer.recurrent) {
    bucket.group.kind = KvGroupKind::kState;
    bucket.group.states = config.prefix_caching ? StateBlocks::kAligned : StateBlocks::kOne;
    LayerSpec kept = layer;
    if (kept.recurrent->state_value_bytes == 0) kept.recurrent->state_value_bytes = 2;
    bucket.page_bytes = FixedKvBytes(model, kept, parallelism);
    return bucket;
  }
  bucket.latent = layer.latent.has_value();
  bucket.token_bytes =
      KvBytesPerTokenAndLayer(model, layer, parallelism) + IndexBytesPerToken(layer);
  if (config.hybrid && !KeepsAllTokens(layer)) {
    const bool windowed = layer.sliding_window > 0;
    bucket.group.kind = windowed ? KvGroupKind::kWindow : KvGroupKind::kChunked;
    bucket.group.span = windowed ? layer.sliding_window : layer.chunk;
  }
  bucket.page_bytes = bucket.group.block_size * bucket.token_bytes;
  return bucket;
}

std::vector<Bucket> BucketsOf(const ModelSpec& model, const Parallelism& parallelism,
                              const KvGroupingConfig& config) {
  std::vector<Bucket> buckets;
  std::int32_t number = 0;
  for (const LayerSpec& layer : LayerList(model)) {
    const std::int32_t layer_number = number++;
    if (layer.query_heads == 0 && !layer.recurrent) continue;
    Bucket bucket = BucketOf(model, layer, parallelism, config);
    const auto known =
        std::ranges::find_if(buckets, [&](const Bucket& other) { return bucket.Alike(other); });
    if (known == buckets.end()) {
      buckets.push_back(std::move(bucket));
      buckets.back().layers = {layer_number};
    } else {
      known->layers.push_back(layer_number);
    }
  }
  CHECK(!buckets.empty());
  return buckets;
}

bool OfKind(const Bucket& bucket, KvGroupKind kind) { return bucket.group.kind == kind; }

// Lets the attention's block be as long as the largest state needs; states are padded to its page.
void FitStates(std::vector<Bucket>& buckets, const KvGroupingConfig& config) {
  std::int64_t state_bytes = 0;
  for (const Bucket& bucket : buckets) {
    if (OfKind(bucket, KvGroupKind::kState)) state_bytes = std::max(state_bytes, bucket.page_bytes);
  }
  if (state_bytes == 0) return;
  std::int32_t block = 0;
  for (Bucket& bucket : buckets) {
    if (OfKind(bucket, KvGroupKind::kState)) continue;
    const std::int64_t unit = bucket.latent ? kLatentKernelBlock : kKernelBlock;
    const std::int64_t unit_bytes = unit * bucket.token_bytes;
    const std::int64_t units = (state_bytes + unit_bytes - 1) / unit_bytes;
    bucket.group.block_size =
        std::max(bucket.group.block_size, static_cast<std::int32_t>(units * unit));
    bucket.page_bytes = bucket.group.block_size * bucket.token_bytes;
    block = std::max(block, bucket.group.block_size);
  }
  if (block == 0) block = config.block_size;
  for (Bucket& bucket : buckets) {
    if (!OfKind(bucket, KvGroupKind::kState)) continue;
    const bool aligned = bucket.group.states == StateBlocks::kAligned;
    bucket.group.block_size = aligned ? block : config.max_model_length;
  }
}

std::int64_t LargestPage(const std::vector<Bucket>& buckets) {
  return std::ranges::max(buckets, {}, &Bucket::page_bytes).page_bytes;
}

// Smaller pages get longer blocks where these fill the page, and padding otherwise.
void UnifyPages(const ModelSpec& model, std::vector<Bucket>& buckets) {
  const std::int64_t page = LargestPage(buckets);
  for (Bucket& bucket : buckets) {
    if (!OfKind(bucket, KvGroupKind::kState) && page % bucket.page_bytes == 0) {
      bucket.group.block_size *= static_cast<std::int32_t>(page / bucket.page_bytes);
    } else if (bucket.latent) {
      throw InputError(InputError::Kind::kUsage, "model " + model.name,
                       fmt::format("a block of latent vectors has {} bytes, which do not divide "
                                   "another layer's {}; allowed: another memory.block_size",
                                   bucket.page_bytes, page));
    }
    bucket.page_bytes = page;
  }
}

std::int32_t LayersPerGroup(const std::vector<Bucket>& buckets) {
  constexpr double kNearlyEqual = 1.5;
  const auto size = [](const Bucket& bucket) { return bucket.layers.size(); };
  const auto [least, most] = std::ranges::minmax(buckets, {}, size);
  const auto smallest = static_cast<double>(least.layers.size());
  const auto largest = static_cast<double>(most.layers.size());
  return static_cast<std::int32_t>(largest < kNearlyEqual * smallest ? largest : smallest);
}

// Which layers of the model a stage has: from `first`, `count`.
struct StageRange {
  std::int32_t first = 0;
  std::int32_t count = 0;

  [[nodiscard]] bool Has(std::int32_t layer) const {
    return layer >= first && layer < first + count;
  }
};

StageRange RangeOf(const ModelSpec& model, const Parallelism& parallelism, std::int32_t stage) {
  StageRange range{.count = StageLayers(model, parallelism, stage)};
  for (std::int32_t i = 0; i < stage; ++i) range.first += StageLayers(model, parallelism, i);
  return range;
}

std::int32_t CountInside(const std::vector<std::int32_t>& layers, const StageRange& range) {
  return static_cast<std::int32_t>(
      std::ranges::count_if(layers, [&](std::int32_t layer) { return range.Has(layer); }));
}

// One group of layers that all keep all tokens: its page is the sum of theirs.
KvGrouping OneGroup(const std::vector<Bucket>& buckets, const StageRange& range) {
  KvGrouping grouping;
  KvGroup group = buckets.front().group;
  group.layers = 0;
  for (const Bucket& bucket : buckets) {
    group.layers += static_cast<std::int32_t>(bucket.layers.size());
    grouping.block_bytes += CountInside(bucket.layers, range) * bucket.page_bytes;
  }
  grouping.groups.groups = {group};
  return grouping;
}

KvGrouping CutIntoGroups(const std::vector<Bucket>& buckets, const StageRange& range) {
  KvGrouping grouping;
  grouping.groups.groups.clear();
  const std::int32_t most = LayersPerGroup(buckets);
  std::int32_t largest = 0;
  for (const Bucket& bucket : buckets) {
    const auto layers = static_cast<std::int32_t>(bucket.layers.size());
    const std::int32_t groups = (layers + most - 1) / most;
    for (std::int32_t g = 0; g < groups; ++g) {
      std::vector<std::int32_t> members;
      for (std::int32_t i = g; i < layers; i += groups) {
        members.push_back(bucket.layers[static_cast<std::size_t>(i)]);
      }
      KvGroup group = bucket.group;
      group.layers = static_cast<std::int32_t>(members.size());
      grouping.groups.groups.push_back(group);
      largest = std::max(largest, CountInside(members, range));
    }
  }
  grouping.block_bytes = largest * buckets.front().page_bytes;
  return grouping;
}

// A prefix key stands for the tokens of the shortest block, unless no prefix is ever looked up.
void SetCommonBlocks(const KvGroupingConfig& config, KvGroups& groups) {
  std::int32_t multiple = 1;
  std::int32_t divisor = 0;
  for (const KvGroup& group : groups.groups) {
    multiple = std::lcm(multiple, group.block_size);
    divisor = std::gcd(divisor, group.block_size);
  }
  groups.scheduler_block = multiple;
  groups.hash_block = config.prefix_caching ? divisor : multiple;
}

}  // namespace

KvGrouping GroupAsVllm(const ModelSpec& model, const Parallelism& parallelism, std::int32_t stage,
                       const KvGroupingConfig& config) {
  std::vector<Bucket> buckets = BucketsOf(model, parallelism, config);
  const StageRange range = RangeOf(model, parallelism, stage);
  const auto is_state = [](const Bucket& bucket) { return OfKind(bucket, KvGroupKind::kState); };
  if (!config.hybrid && buckets.size() > 1 && std::ranges::any_of(buckets, is_state)) {
    throw InputError(
        InputError::Kind::kUsage, "model " + model.name,
        "has states, which only the hybrid KV cache manager keeps beside other layers");
  }
  FitStates(buckets, config);
  const bool alike = buckets.size() == 1 || std::ranges::all_of(buckets, [&](const Bucket& bucket) {
                       return OfKind(bucket, KvGroupKind::kFull) &&
                              bucket.group.block_size == buckets.front().group.block_size;
                     });
  if (!alike) UnifyPages(model, buckets);
  KvGrouping grouping = alike ? OneGroup(buckets, range) : CutIntoGroups(buckets, range);
  SetCommonBlocks(config, grouping.groups);
  return grouping;
}

}  // namespace twin::sim
