// The paged KV cache as bookkeeping: which request holds which block. It owns no tensor memory.
//
// Keys and values of a request lie in blocks of block_size tokens, which need not be contiguous; a
// BlockTable lists them in order. The pool hands out block ids, and an executor with equally many
// blocks follows the ids in the plans, so that simulated and real runs hold the same memory.
//
// Source: Kwon et al., SOSP'23 (paged attention); the block pools of vLLM V1 for prefix caching.
//
// Easy to get wrong:
// - A block that several requests share (prefix caching) is free only when the last one lets it go.
// - A free block keeps its key, and with it its content, until it is taken for something else. A
//   cache hit on such a block takes it out of the free queue: a hit costs free blocks, too.
// - Which block is taken decides which cached content is lost. The queue is taken from the front;
//   a request's blocks are returned last block first, so that the tail of a prompt is lost before
//   the prefix that other requests share.
// - Reserved blocks lie in the free queue but are not free(): they are promised to a request.
// - Blocks that a prefix tree keeps are not free either, even if no request holds them (cached()):
//   the tree's owner gives them up, one by one, when it needs room.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "sched/cache/block_key_index.h"
#include "sched/cache/block_table.h"
#include "sched/cache/free_queue.h"

namespace twin {

// Where a released block is put in the queue of free blocks; blocks are taken from its front.
enum class ReleaseOrder : std::uint8_t {
  kBack,          // to the back, last block of the sequence first (vLLM V1 up to 0.15)
  kKeylessFront,  // blocks without a key to the front, with one to the back, last first (vLLM 0.33)
};

struct KvPoolConfig {
  std::int32_t block_size = 16;  // tokens per block, >= 1
  std::int32_t blocks = 0;       // device blocks that can ever be handed out
  std::int32_t host_blocks = 0;  // swap space
  ReleaseOrder release_order = ReleaseOrder::kBack;
  // Tokens that a prefix key stands for: a block has a whole number of keys. 0 = one.
  std::int32_t key_tokens = 0;
  // Pages of a second pool, for layers with windows (window_pool.h); for policies that have one.
  std::int32_t window_blocks = 0;

  [[nodiscard]] std::int32_t tokens_per_key() const {
    return key_tokens > 0 ? key_tokens : block_size;
  }
  [[nodiscard]] std::int32_t keys_per_block() const { return block_size / tokens_per_key(); }

  bool operator==(const KvPoolConfig&) const = default;
};

// Leading blocks of a sequence that the prefix cache can supply. Of several KV groups `tokens` says
// how many; `free_blocks` counts the blocks of all groups, and `blocks` is not set.
struct CacheHit {
  std::int32_t blocks = 0;
  std::int32_t free_blocks = 0;  // of `blocks`, the ones now in the free queue
  std::int32_t tokens = 0;       // in all of them
  // With KV groups: a state of it is computed in the step that is being planned. It can be attached
  // from the next one on.
  bool is_being_computed = false;
};

// One block of the KV cache, as the pool keeps account of it. A byte, because the blocks of a pool
// are taken and given back in an order of their own: of a thousand replicas each account would
// otherwise be fetched from memory. Keys lie with the index, and the pool counts the sequences that
// share a block.
struct Block {
  bool held : 1 = false;         // by at least one sequence
  bool shared : 1 = false;       // by several
  bool kept : 1 = false;         // by a prefix tree
  bool carries_key : 1 = false;  // its content is known by a key
  bool listed : 1 = false;       // in the index, under its key
  std::uint8_t unused : 3 = 0;   // so that all flags can be compared at once

  bool operator==(const Block& other) const {
    return std::bit_cast<std::uint8_t>(*this) == std::bit_cast<std::uint8_t>(other);
  }
};
static_assert(sizeof(Block) == 1);

// Reference counts, reservations, swap space and prefix keys over a fixed set of blocks.
//
// A block is referenced by one or more sequences or a prefix tree, or it lies in the free queue.
// A key stands for a block's content and all content before it, so the keys of one sequence differ.
// Invariants (I4): free queue length + referenced blocks = usable(); reserved() <= queue length.
// Deterministic: equal calls give equal block ids. Allocates only while tables grow, and once for
// the keys.
class KvPool {
 public:
  explicit KvPool(const KvPoolConfig& config);

  [[nodiscard]] const KvPoolConfig& config() const { return config_; }
  [[nodiscard]] std::int32_t block_size() const { return config_.block_size; }
  [[nodiscard]] std::int32_t usable() const { return config_.blocks; }
  // Blocks neither held nor reserved.
  [[nodiscard]] std::int32_t free() const { return queue_.size() - reserved_; }
  [[nodiscard]] std::int32_t reserved() const { return reserved_; }
  // Blocks that a prefix tree keeps and no sequence holds.
  [[nodiscard]] std::int32_t cached() const { return cached_; }
  // Calls of Discard so far: blocks that were evicted.
  [[nodiscard]] std::int64_t discards() const { return discards_; }
  [[nodiscard]] std::int32_t host_free() const {
    return static_cast<std::int32_t>(host_free_.size());
  }

  // ceil(tokens / block_size). REQUIRES: tokens >= 0.
  [[nodiscard]] std::int32_t BlocksFor(std::int32_t tokens) const {
    const auto size = static_cast<std::uint32_t>(config_.block_size);
    const std::uint32_t rounded_up = static_cast<std::uint32_t>(tokens) + size - 1;
    return static_cast<std::int32_t>(shift_ >= 0 ? rounded_up >> shift_ : rounded_up / size);
  }

  // floor(tokens / block_size).
  [[nodiscard]] std::int32_t FullBlocks(std::int32_t tokens) const {
    return shift_ >= 0 ? tokens >> shift_ : tokens / config_.block_size;
  }
  // True if `tokens` tokens fill a block that is not published. Cheaper than to divide.
  [[nodiscard]] bool HasUnpublished(const BlockTable& table, std::int32_t tokens) const {
    return table.published_tokens + config_.block_size <= tokens;
  }

  // Extends the table to hold `tokens` tokens, using the sequence's own reservation first. Returns
  // false and changes nothing if too few blocks are free.
  [[nodiscard]] bool Grow(BlockTable& table, std::int32_t tokens);

  // Reserves `blocks` further blocks for the sequence; false if fewer are free.
  [[nodiscard]] bool Reserve(BlockTable& table, std::int32_t blocks);

  // Frees all device blocks, all host blocks and the reservation.
  void Release(BlockTable& table);
  // As Release, for a preempted sequence: it will look its blocks up in the prefix cache again,
  // under the keys with which they were published.
  void Suspend(BlockTable& table, std::span<const BlockKey> keys);

  // Moves all device blocks to host blocks, in order; false if too few host blocks are free.
  [[nodiscard]] bool SwapOut(BlockTable& table);
  // The reverse; false if too few device blocks are free.
  [[nodiscard]] bool SwapIn(BlockTable& table);

  // Adds the blocks of `table` to `hold`, which was empty: they stay taken until both tables are
  // released.
  void Share(const BlockTable& table, BlockTable& hold);

  // Finds how many of the leading `keys` are cached, up to `blocks_max`.
  [[nodiscard]] CacheHit Lookup(std::span<const BlockKey> keys, std::int32_t blocks_max) const;
  // Adds the first `blocks` cached blocks of `keys` to an empty table.
  // REQUIRES: a Lookup in the present state that found at least as many.
  void Attach(BlockTable& table, std::span<const BlockKey> keys, std::int32_t blocks);
  // Enters the table's first `blocks` blocks into the cache under their keys, unless they are there
  // already. Several blocks may carry one key; Lookup finds the one published first. Private keys
  // are indexed only by Suspend: no other request has them, and most are never looked up.
  void Publish(BlockTable& table, std::span<const BlockKey> keys, std::int32_t blocks);
  // Removes all but the table's first `blocks` blocks from the cache.
  // REQUIRES: nobody else has attached them.
  void Unpublish(BlockTable& table, std::int32_t blocks);

  // For a prefix tree beside the pool (sched/cache/radix_cache.h). A kept block stays out of the
  // free queue when no sequence holds it any more. REQUIRES: a sequence holds it; it is not kept.
  void Keep(BlockId id);
  // Ends that. REQUIRES: it is kept, and no sequence holds it.
  void Discard(BlockId id) {
    DropKept(id);
    ++discards_;
  }
  // As Discard, but not counted: a copy stays.
  void DropKept(BlockId id);
  // Makes kept blocks the first ones of an empty table.
  void AttachKept(BlockTable& table, std::span<const BlockId> blocks);
  // Lets the kept block take the place of the table's block at `position`, which goes.
  void ReplaceByKept(BlockTable& table, std::int32_t position, BlockId kept);

  // For tables of several KV groups (sched/cache/group_tables.h), block by block. Takes one off the
  // front of the free queue. REQUIRES: free() > 0.
  [[nodiscard]] BlockId TakeBlock() { return TakeOne(); }
  // The block that carries the key, and was given it first; kNone if there is none.
  [[nodiscard]] BlockId Find(BlockKey key) const { return keys_.Find(key); }
  [[nodiscard]] bool IsHeld(BlockId id) const { return blocks_[Index(id)].held; }
  // A further sequence holds a block that carries a key.
  void HoldKeyed(BlockId id);
  // Enters a block into the cache. REQUIRES: it is held and carries no key.
  void GiveKey(BlockId id, BlockKey key);
  // Takes a block out of the cache, if it is there. REQUIRES: one sequence holds it.
  void TakeKey(BlockId id);
  // One sequence lets the blocks go; they are visited in this order (ReleaseOrder).
  void LetGo(std::span<const BlockId> blocks);

  // Recounts everything from the tables of all live sequences; false if any invariant of this
  // class is broken. Cost: all blocks. For tests and audits.
  [[nodiscard]] bool Audit(std::span<const BlockTable* const> tables) const;

 private:
  [[nodiscard]] Block& At(BlockId id) { return blocks_[Index(id)]; }
  // Takes a block, or `count`, off the front of the free queue. REQUIRES: it has as many.
  [[nodiscard]] BlockId TakeOne();
  void TakeFront(std::int32_t count, std::vector<BlockId>& taken);
  // The block has left the free queue: its content is lost.
  void Take(BlockId id) {
    Block& b = At(id);
    if (b.listed) keys_.Remove(id);
    b = {.held = true};
  }
  // A further sequence holds the block.
  void Hold(BlockId id);
  // One of several that hold it lets it go.
  void Unshare(BlockId id);
  void List(BlockId id, BlockKey key);
  void ForgetKey(BlockId id);
  void HoldKept(BlockId id);

  KvPoolConfig config_;
  std::int32_t shift_ = -1;  // log2(block_size), or -1
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> holders_;  // of shared blocks; empty until one is shared
  FreeQueue queue_;
  std::int32_t reserved_ = 0;
  std::int32_t cached_ = 0;
  std::int64_t discards_ = 0;
  std::vector<BlockId> host_free_;  // a stack; the lowest id is taken first at the start
  BlockKeyIndex keys_;
};

}  // namespace twin
