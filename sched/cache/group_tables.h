// The block tables of sequences that have one for each KV group (core/kv_groups.h).
//
// Layers of a group need the same tokens for equally long. The table of a group lists blocks in the
// order of the tokens, and an entry without a block (kNone) where no layer needs them any more:
// what lies behind a window, before the current chunk, or before the running state. All groups take
// blocks from one pool.
//
// Source: vLLM 0.33.0, decisions observed.
//
// Easy to get wrong:
// - What is behind a window counts from the tokens of steps that have returned: a step in flight
//   still reads what its first token can see.
// - Blocks that are no longer needed come back before a table grows, also if it then cannot grow.
// - A prefix hit is the longest length that all groups can serve. A window needs only the blocks
//   that the next token can see, and a state only its last block, so that a longer prefix can be
//   cached where a shorter one is not.
// - Windows and states enter the cache only where a later request is expected to end its hit: at
//   the end of the prompt, and where an earlier lookup of a group found more than all groups have
//   (the junction). Other full blocks get no key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/id_map.h"
#include "core/ids.h"
#include "core/kv_groups.h"
#include "sched/cache/block_table.h"
#include "sched/cache/kv_pool.h"
#include "sched/step_plan.h"

namespace twin {

// The limits on which numbers of blocks depend, besides the groups.
struct GroupLimits {
  static constexpr std::int32_t kRetainAll = -1;

  std::int64_t tokens_in_flight = 0;  // of all steps that may be in flight, at most
  std::int32_t context_tokens = std::numeric_limits<std::int32_t>::max();  // of one sequence
  // A multiple of scheduler_block: windows and states keep in the cache what prefixes of every so
  // many tokens need, besides ends of prompts and junctions. 0 = only these. kRetainAll = all.
  std::int32_t retention_interval = 0;
};

// The most blocks of a group that a sequence of the longest length needs at a time. A pool that
// holds fewer than the sum over all groups cannot serve such a sequence.
[[nodiscard]] std::int64_t MostBlocks(const KvGroup& group, const GroupLimits& limits);
[[nodiscard]] std::int64_t MostBlocks(const KvGroups& groups, const GroupLimits& limits);

// Whether sequences need the tables of this file. A model of one full group has one table of equal
// blocks, BlockTable.
[[nodiscard]] bool NeedGroupTables(const KvGroups& groups);

// The tables of all live sequences over one pool, which it borrows. A sequence has tables from
// Attach, or its first Grow, to Release. Changes of tables are appended to `log`, for executors.
// Deterministic. A call costs time linear in the groups and in the blocks that it moves or looks
// up.
class GroupTables {
 public:
  // REQUIRES: NeedGroupTables(groups); pool.config().tokens_per_key() is groups.hash_block.
  GroupTables(const KvGroups& groups, const GroupLimits& limits, KvPool& pool);

  [[nodiscard]] const KvGroups& groups() const { return groups_; }
  [[nodiscard]] bool empty() const { return tables_.empty(); }
  [[nodiscard]] bool contains(RequestId id) const { return tables_.contains(id); }
  // The blocks of a group, kNone where an entry has none. REQUIRES: contains(id).
  [[nodiscard]] std::span<const BlockId> Table(RequestId id, std::size_t group) const {
    return tables_[id].groups[group].blocks;
  }
  // Block size of the groups of states that can be found again; 0 if there is none.
  [[nodiscard]] std::int32_t state_block() const { return state_block_; }
  // The longest prefix, in tokens, that one group could supply at the sequence's admission, or at
  // the latest Lookup, if all together supplied less; 0 otherwise, or without a Lookup.
  [[nodiscard]] std::int32_t junction(RequestId id) const { return tables_[id].junction; }
  [[nodiscard]] std::int32_t found_junction() const { return found_junction_; }

  // A step is planned from now on.
  void BeginStep() { states_of_this_step_.clear(); }

  // The longest prefix of at most `tokens_max` tokens that all groups can supply. `keys`: of the
  // sequence, one for each hash_block tokens.
  CacheHit Lookup(std::span<const BlockKey> keys, std::int32_t tokens_max);
  // Opens the tables of a sequence with what the latest Lookup found, and returns how many tokens
  // that are. REQUIRES: it was of this sequence, in the present state.
  std::int32_t Attach(RequestId id, std::vector<KvOperation>& log);

  // Free blocks that a sequence without tables must find to hold `tokens` tokens after a hit.
  [[nodiscard]] std::int32_t BlocksToAdmit(std::int32_t tokens, const CacheHit& hit) const;
  // BlocksToAdmit for all tokens, of which a group counts only what it can need at a time.
  [[nodiscard]] std::int32_t BlocksForWhole(std::int32_t tokens, const CacheHit& hit) const;
  // Blocks that an otherwise empty pool must have for a sequence of `tokens` tokens.
  [[nodiscard]] std::int64_t BlocksAtMost(std::int32_t tokens) const;

  // Gives back what is no longer needed, and then takes blocks for `tokens` tokens in all groups;
  // false, without taking any, if too few are free.
  [[nodiscard]] bool Grow(RequestId id, std::int32_t tokens, std::vector<KvOperation>& log);
  // A step that has computed the first `tokens` tokens has returned.
  void Returned(RequestId id, std::int32_t tokens);
  // Enters full blocks of the first `tokens` tokens into the cache, as far as they are kept.
  void Publish(RequestId id, std::span<const BlockKey> keys, std::int32_t tokens,
               std::int32_t prompt_tokens);
  // Takes all but the full blocks of the first `tokens` tokens out of the cache. REQUIRES: nobody
  // else has attached them.
  void Unpublish(RequestId id, std::int32_t tokens);
  // Frees all blocks of the sequence and closes its tables.
  void Release(RequestId id);

  // For audits. Appends one table for each sequence, with the blocks of all groups.
  void AppendTables(std::vector<BlockTable>& tables) const;
  // False if an entry that a future token can see has no block, or one that none can see has one
  // although the sequence has grown since. Cost: all entries.
  [[nodiscard]] bool Audit() const;

 private:
  struct GroupTable {
    std::vector<BlockId> blocks;
    std::int32_t dropped = 0;        // so many leading entries have no block
    std::int32_t published = 0;      // leading entries that have been published or passed over
    std::int32_t state_before = -1;  // kAligned: the last entry before the table last grew
  };
  struct SequenceTables {
    std::vector<GroupTable> groups;
    std::int32_t returned = 0;  // computed tokens, those of steps in flight not counted
    std::int32_t junction = 0;
  };

  SequenceTables& Open(RequestId id);
  // Leading entries that no layer of the group needs once `tokens` tokens are computed.
  [[nodiscard]] static std::int32_t Unneeded(const KvGroup& group, std::int32_t tokens);
  // Blocks to take until a table of `entries` entries covers `tokens` tokens.
  [[nodiscard]] static std::int32_t Missing(const KvGroup& group, std::int32_t tokens,
                                            std::int32_t entries);
  void DropUnneeded(RequestId id, std::size_t group, GroupTable& table, std::int32_t returned,
                    std::vector<KvOperation>& log);
  void Take(RequestId id, std::size_t group, GroupTable& table, std::int32_t tokens,
            std::vector<KvOperation>& log);
  [[nodiscard]] BlockKey KeyOf(std::span<const BlockKey> keys, std::size_t group,
                               std::int32_t entry) const;
  // Whether the group keeps the entry's block in the cache.
  [[nodiscard]] bool Keeps(const KvGroup& group, std::int32_t entry, std::int32_t prompt_tokens,
                           std::int32_t junction) const;
  // Groups that are looked up together, and their longest prefix of at most `tokens_max` tokens,
  // whose blocks are left in found_.
  using Members = std::vector<std::size_t>;
  std::int32_t LookupMembers(const Members& members, std::span<const BlockKey> keys,
                             std::int32_t tokens_max);
  [[nodiscard]] std::int32_t LookupFull(const Members& members, std::span<const BlockKey> keys,
                                        std::int32_t entries_max);
  [[nodiscard]] std::int32_t LookupChunk(const Members& members, std::span<const BlockKey> keys,
                                         std::int32_t tokens_max, std::int32_t entries_max);
  [[nodiscard]] std::int32_t LookupEnd(const Members& members, std::span<const BlockKey> keys,
                                       std::int32_t entries_max);
  // Sets the entry of all members; false, and nothing changed, unless all have the block.
  bool FindEntry(const Members& members, std::span<const BlockKey> keys, std::int32_t entry);
  [[nodiscard]] bool Ends(const KvGroup& group, std::int32_t entries) const {
    return std::int64_t{entries} * group.block_size % alignment_ == 0;
  }

  KvGroups groups_;
  GroupLimits limits_;
  KvPool& pool_;
  bool several_;
  std::int32_t alignment_;  // of hits, in tokens
  std::int32_t state_block_ = 0;
  std::vector<Members> lookups_;  // in order: full groups first
  IdMap<SequenceTables> tables_;
  std::vector<BlockKey> states_of_this_step_;  // published since BeginStep
  // The length of the latest Lookup, and the entries of each group, at least as many.
  std::int32_t found_tokens_ = 0;
  std::int32_t found_junction_ = 0;
  std::vector<std::vector<BlockId>> found_;
  std::vector<BlockId> going_;  // scratch of releases
};

}  // namespace twin
