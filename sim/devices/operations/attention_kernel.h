// Closed forms of attention kernels: how long one layer takes on one rank, from a few numbers that
// have a physical meaning.
//
// Prompt chunks: thread blocks compute tiles of 64 or 128 query rows; with packed heads a tile
// holds the query heads that share a KV head. All tiles together fill the multiprocessors, and no
// step is shorter than its longest tile. Blocks that share a multiprocessor hide each other's fixed
// time. The new keys and values are written by a kernel of their own.
//
//   t = launch + per_request n + written / write_rate + norm4(norm_p(all, longest),
//                                                             read / query_rate)
//   all = tiles (tile / slots + key * (keys + 64) * head_dim / 128) / SMs
//   longest = tile + key * (keys + 64) * head_dim / 128
//
// Decodes: one thread block per request and KV head, or several that split its keys if fewer than
// 0.8 of the slots were filled:
//
//   t = launch + per_block blocks / SMs + norm4(bytes / rate, waves keys / splits * key) + split
//
// Query heads that do not share the block of their KV head have blocks of their own, which read the
// same keys again from L2. If blocks start in the order of the batch and are not split, the blocks
// of the longest request may start last: each of its keys above the mean adds `straggler`. Kernels
// that start with the longest request show nothing of it.
//
// Chunks and decodes in one call, of a kernel that does not pack heads: each decode is a tile per
// query head, with one row in use, that takes as long for a key as any other tile.
//
// `norm_p` is (a^p + b^p)^(1/p): the larger of two, rounded where they are close. Small caches stay
// in L2 between repetitions of a benchmark, but not between the layers of a step: `cold` says which
// of the two is meant. Units: microseconds, bytes, bytes per microsecond.
#pragma once

#include <array>

namespace twin::sim {

// Work of one call. Query heads are a multiple of KV heads.
struct AttentionWork {
  double requests = 0;
  double tokens = 0;          // queries of all requests
  double context_tokens = 0;  // keys: sum over requests of their last position + 1
  double pairs = 0;           // (query, key) combinations, causal; without regard to the window
  double context_max = 0;     // the longest of context_tokens
  double query_heads = 0;
  double kv_heads = 0;
  double head_dim = 0;
  double window = 0;    // keys that a query sees; 0 = all
  double kv_bytes = 2;  // of one element of the cache
  bool cold = false;
};

struct ContextKernel {
  // Fitted, in the order of fields().
  double launch = 8;
  double per_request = 0.02;
  double tile = 1.5;
  double key = 0.014;
  double sharpness = 2;  // p - 1
  double write_rate = 1.3e6;
  double query_rate = 1.3e6;
  double l2_rate = 4e6;
  double l2_bytes = 50e6;  // traffic up to about this stays in L2
  // Chosen.
  bool packs_heads = true;
  double tile_rows = 128;               // `tile` and `key` are times of such a tile
  double slots_per_multiprocessor = 1;  // thread blocks at a time
  // From the device.
  double multiprocessors = 132;

  static constexpr int kFields = 9;
  [[nodiscard]] std::array<double*, kFields> fields();
  bool operator==(const ContextKernel&) const = default;
};

struct GenerationKernel {
  double launch = 10;
  double per_block = 3;
  double rate = 3e6;
  double l2_rate = 6e6;
  double key = 0.02;  // one key of 512 bytes (both tensors), read by one thread block
  double split = 3;
  double l2_bytes = 50e6;
  // Chosen.
  bool splits_single_heads = true;  // also without grouped queries
  double slots_per_multiprocessor = 1;
  // Larger groups of query heads per KV head do not share a thread block; 0 = all share one.
  double packed_group_max = 0;
  // From the device and the profile.
  double multiprocessors = 132;
  double straggler = 0.024;

  static constexpr int kFields = 7;
  [[nodiscard]] std::array<double*, kFields> fields();
  bool operator==(const GenerationKernel&) const = default;
};

// REQUIRES: requests, tokens, heads, head_dim > 0.
[[nodiscard]] double ContextMicroseconds(const ContextKernel& kernel, const AttentionWork& work);
// Thread blocks of the call: one per tile.
[[nodiscard]] double ContextTiles(const ContextKernel& kernel, const AttentionWork& work);
// A call of prompt chunks together with decodes.
[[nodiscard]] double MixedMicroseconds(const ContextKernel& kernel, const AttentionWork& chunks,
                                       const AttentionWork& decodes);
[[nodiscard]] double GenerationMicroseconds(const GenerationKernel& kernel,
                                            const AttentionWork& work);

// The part of a call for decodes that follows from the number of requests and their heads, whatever
// their lengths are.
struct GenerationCall {
  bool shares_blocks = true;  // query heads, that of their KV head
  bool splits = false;
  double readers = 1;        // thread blocks that read a key
  double row_bytes = 0;      // keys and values of a token and a head
  double request_bytes = 0;  // of a key of each request
  double slots_per_block = 1;
  double waves = 1;
  double start = 0;  // launch and blocks
};
[[nodiscard]] GenerationCall GenerationCallOf(const GenerationKernel& kernel,
                                              const AttentionWork& work);
// GenerationMicroseconds of `work`. REQUIRES: `call` is of its requests and heads.
[[nodiscard]] double GenerationMicroseconds(const GenerationKernel& kernel,
                                            const GenerationCall& call, const AttentionWork& work);

// Heads with thread blocks of their own: KV heads, or query heads of groups that are not packed.
[[nodiscard]] double ReadingHeads(const GenerationKernel& kernel, double query_heads,
                                  double kv_heads);

// Bytes of the cache that decodes read.
[[nodiscard]] double GenerationBytes(const AttentionWork& work);
// The least work of prompts and decodes: bytes of all keys and values that a query sees, and
// (query, key) combinations within the window.
[[nodiscard]] double KeyBytes(const AttentionWork& work);
[[nodiscard]] double VisiblePairs(const AttentionWork& work);

}  // namespace twin::sim
