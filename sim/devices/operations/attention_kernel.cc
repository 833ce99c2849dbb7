#include "sim/devices/operations/attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace twin::sim {
namespace {

constexpr double kKeyBlock = 128;

double Fourth(double x) { return x * x * x * x; }
double Norm4(double a, double b) { return std::sqrt(std::sqrt(Fourth(a) + Fourth(b))); }
double Norm(double a, double b, double p) {
  const double large = std::max(a, b);
  if (large <= 0) return 0;
  return large * std::pow(1 + std::pow(std::min(a, b) / large, p), 1 / p);
}

// The share of traffic that finds its data in L2.
double ShareInL2(double bytes, double l2_bytes) { return 1 / (1 + Fourth(bytes / l2_bytes)); }

struct Tiles {
  double count = 0;
  double keys = 0;     // mean of a tile
  double longest = 0;  // keys of the longest
};

// Mean of min(x, limit) for x from `from` to `to`.
double MeanBelow(double from, double to, double limit) {
  if (to <= limit) return (from + to) / 2;
  if (from >= limit) return limit;
  return ((limit * limit - from * from) / 2 + (to - limit) * limit) / (to - from);
}

Tiles TilesOf(const AttentionWork& work, const ContextKernel& kernel) {
  const double group = work.query_heads / work.kv_heads;
  const double length = work.tokens / work.requests;
  const double rows = kernel.packs_heads ? length * group : length;
  const double whole =  // tokens of a full tile
      kernel.packs_heads ? std::max(1.0, kernel.tile_rows / group) : kernel.tile_rows;
  const double tokens = std::min(length, whole);
  Tiles tiles;
  tiles.count = work.requests * (kernel.packs_heads ? work.kv_heads : work.query_heads) *
                std::ceil(rows / kernel.tile_rows - 1e-9);
  const double window = work.window > 0 ? work.window : std::numeric_limits<double>::infinity();
  const double end = work.context_tokens / work.requests;
  tiles.keys = work.context_max > window ? MeanBelow(end - length, end, window) + tokens / 2
                                         : work.pairs / work.tokens + (tokens - 1) / 2;
  tiles.longest = std::min(work.context_max, window + tokens);
  return tiles;
}

// One call of a kernel for several queries per request. REQUIRES: works; of equal `cold`.
double CallMicroseconds(const ContextKernel& kernel, std::span<const AttentionWork> works) {
  double requests = 0;
  double all = 0;
  double longest = 0;
  double written = 0;
  double queries = 0;
  double past = 0;
  for (const AttentionWork& work : works) {
    const Tiles tiles = TilesOf(work, kernel);
    const auto key_time = [&](double keys) {
      return kernel.key * (keys + kKeyBlock / 2) * work.head_dim / 128;
    };
    requests += work.requests;
    all += tiles.count * (kernel.tile / kernel.slots_per_multiprocessor + key_time(tiles.keys)) /
           kernel.multiprocessors;
    longest = std::max(longest, kernel.tile + key_time(tiles.longest));
    const double per_head = work.head_dim * work.tokens;
    written += per_head * work.kv_heads * 2 * (2 + work.kv_bytes);
    queries += per_head * work.query_heads * 4;
    past += std::max(0.0, work.context_tokens - work.tokens) * work.kv_heads * work.head_dim * 2 *
            work.kv_bytes;
  }
  const double compute = Norm(all, longest, 1 + std::min(kernel.sharpness, 6.0));
  const double resident = works.front().cold ? 0 : ShareInL2(written + queries, kernel.l2_bytes);
  const auto time = [&](double bytes, double rate) {
    return bytes * ((1 - resident) / rate + resident / kernel.l2_rate);
  };
  return kernel.launch + kernel.per_request * requests + time(written, kernel.write_rate) +
         Norm4(compute, time(queries + past, kernel.query_rate));
}

}  // namespace

std::array<double*, ContextKernel::kFields> ContextKernel::fields() {
  return {&launch,     &per_request, &tile,    &key,     &sharpness,
          &write_rate, &query_rate,  &l2_rate, &l2_bytes};
}

std::array<double*, GenerationKernel::kFields> GenerationKernel::fields() {
  return {&launch, &per_block, &rate, &l2_rate, &key, &split, &l2_bytes};
}

double ContextMicroseconds(const ContextKernel& kernel, const AttentionWork& work) {
  return CallMicroseconds(kernel, std::span(&work, 1));
}

double ContextTiles(const ContextKernel& kernel, const AttentionWork& work) {
  return TilesOf(work, kernel).count;
}

double MixedMicroseconds(const ContextKernel& kernel, const AttentionWork& chunks,
                         const AttentionWork& decodes) {
  const std::array<AttentionWork, 2> work = {chunks, decodes};
  return CallMicroseconds(kernel, work);
}

double GenerationBytes(const AttentionWork& work) {
  double keys = work.context_tokens;
  if (work.window > 0) keys = std::min(keys, work.requests * work.window);
  return keys * work.kv_heads * work.head_dim * 2 * work.kv_bytes;
}

double KeyBytes(const AttentionWork& work) {
  double keys = work.context_tokens;
  if (work.window > 0) keys = std::min(keys, work.requests * (work.window - 1) + work.tokens);
  return keys * work.kv_heads * work.head_dim * 2 * work.kv_bytes;
}

double VisiblePairs(const AttentionWork& work) {
  if (work.window <= 0 || work.context_max <= work.window) return work.pairs;
  const double end = work.context_tokens / work.requests;
  const double length = work.tokens / work.requests;
  return std::min(work.pairs, work.tokens * MeanBelow(end - length, end, work.window));
}

double ReadingHeads(const GenerationKernel& kernel, double query_heads, double kv_heads) {
  const bool packs =
      kernel.packed_group_max == 0 || query_heads <= kernel.packed_group_max * kv_heads;
  return packs ? kv_heads : query_heads;
}

GenerationCall GenerationCallOf(const GenerationKernel& kernel, const AttentionWork& work) {
  const double readers = ReadingHeads(kernel, work.query_heads, work.kv_heads);
  const double blocks = work.requests * readers;
  const double slots = kernel.multiprocessors * kernel.slots_per_multiprocessor;
  GenerationCall call;
  call.shares_blocks = readers == work.kv_heads;
  call.splits =
      blocks < 0.8 * slots && (kernel.splits_single_heads || work.query_heads != work.kv_heads);
  call.readers = readers;
  call.row_bytes = work.head_dim * 2 * work.kv_bytes;
  call.request_bytes = work.requests * work.kv_heads * call.row_bytes;
  call.slots_per_block = slots / blocks;
  if (!call.splits) call.waves = std::max(1.0, std::ceil(blocks / slots - 1e-9));
  call.start = kernel.launch + kernel.per_block * blocks / kernel.multiprocessors;
  return call;
}

double GenerationMicroseconds(const GenerationKernel& kernel, const GenerationCall& call,
                              const AttentionWork& work) {
  const double bytes = GenerationBytes(work);
  const double keys = bytes / call.request_bytes;
  const double resident = work.cold ? 0 : ShareInL2(bytes, kernel.l2_bytes);
  const double once = bytes * ((1 - resident) / kernel.rate + resident / kernel.l2_rate);
  const double memory = call.shares_blocks
                            ? once
                            : Norm4(once, bytes * call.readers / work.kv_heads / kernel.l2_rate);

  const double parts =
      call.splits ? std::clamp(call.slots_per_block, 1.0, std::max(1.0, std::min(64.0, keys / 128)))
                  : 1;
  const double per_key = call.row_bytes / 512;
  const double chain = call.waves * keys / parts * kernel.key * per_key;

  double longest = work.context_max;
  if (work.window > 0) longest = std::min(longest, work.window);
  const double straggler =
      call.splits ? 0 : std::max(0.0, longest - keys) * kernel.straggler * per_key;
  return call.start + Norm4(memory, chain) + kernel.split * std::min(1.0, parts - 1) + straggler;
}

double GenerationMicroseconds(const GenerationKernel& kernel, const AttentionWork& work) {
  return GenerationMicroseconds(kernel, GenerationCallOf(kernel, work), work);
}

}  // namespace twin::sim
