// Groups of layers that share one table of KV blocks.
//
// Layers that need the same tokens of a sequence for equally long form a group: all tokens, those
// of a sliding window, those of the current chunk, or a state of fixed size. Each group of a
// sequence has a block table of its own. All tables take blocks from one pool, and a block is used
// by one group at a time, so that blocks of all groups have equally many bytes.
//
// Source: the hybrid KV cache manager of vLLM 0.33.0.
#pragma once

#include <cstdint>
#include <vector>

namespace twin {

enum class KvGroupKind : std::uint8_t {
  kFull,     // all tokens of the sequence
  kWindow,   // the last `span` tokens, the one being computed included
  kChunked,  // the tokens of the current chunk of `span` tokens
  kState,    // a state: what a recurrent layer keeps of all tokens before
};

// Which states a sequence keeps (vLLM: mamba_cache_mode).
enum class StateBlocks : std::uint8_t {
  kOne,      // "none": the running state, in one block for the whole life of the sequence
  kAligned,  // "align": the states at multiples of the block size can be kept and found again
};

struct KvGroup {
  KvGroupKind kind = KvGroupKind::kFull;
  std::int32_t block_size = 16;  // tokens
  std::int32_t layers = 1;
  std::int32_t span = 0;                       // tokens; kWindow and kChunked only, >= 1
  StateBlocks states = StateBlocks::kAligned;  // kState only

  bool operator==(const KvGroup&) const = default;
};

// The groups of one model on one rank. A model of equal layers has one group.
struct KvGroups {
  std::vector<KvGroup> groups = {KvGroup{}};
  std::int32_t scheduler_block = 16;  // least common multiple of the groups' block sizes
  std::int32_t hash_block = 16;       // tokens that a prefix key stands for

  bool operator==(const KvGroups&) const = default;
};

}  // namespace twin
