#include "sched/cache/group_tables.h"

#include <algorithm>

#include "core/check.h"
#include "core/hash.h"

namespace twin {
namespace {

std::int64_t CeilDivide(std::int64_t tokens, std::int32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

bool IsAligned(const KvGroup& group) {
  return group.kind == KvGroupKind::kState && group.states == StateBlocks::kAligned;
}

// Consecutive blocks that a hit ends with: what the next token needs.
std::int32_t BlocksOfEnd(const KvGroup& group) {
  if (group.kind == KvGroupKind::kState) return 1;
  return static_cast<std::int32_t>(CeilDivide(group.span - 1, group.block_size));
}

BlockId TableNumber(std::size_t group) { return BlockId{static_cast<std::int32_t>(group)}; }

}  // namespace

std::int64_t MostBlocks(const KvGroup& group, const GroupLimits& limits) {
  const std::int64_t context = limits.context_tokens;
  const std::int64_t span = group.span;
  switch (group.kind) {
    case KvGroupKind::kFull:
      return CeilDivide(context, group.block_size);
    case KvGroupKind::kWindow:  // the oldest and the newest block of it need not be whole
      return CeilDivide(std::min(span - 1 + limits.tokens_in_flight, context), group.block_size) +
             1;
    case KvGroupKind::kChunked:
      return CeilDivide(std::min(span + limits.tokens_in_flight, context), group.block_size);
    case KvGroupKind::kState:
      return IsAligned(group) ? 2 : 1;
  }
  CHECK(false);
}

std::int64_t MostBlocks(const KvGroups& groups, const GroupLimits& limits) {
  std::int64_t blocks = 0;
  for (const KvGroup& group : groups.groups) blocks += MostBlocks(group, limits);
  return blocks;
}

bool NeedGroupTables(const KvGroups& groups) {
  return groups.groups.size() != 1 || groups.groups.front().kind != KvGroupKind::kFull;
}

GroupTables::GroupTables(const KvGroups& groups, const GroupLimits& limits, KvPool& pool)
    : groups_(groups),
      limits_(limits),
      pool_(pool),
      several_(groups.groups.size() > 1),
      alignment_(groups.scheduler_block),
      found_(groups.groups.size()) {
  CHECK(NeedGroupTables(groups) && !groups.groups.empty());
  CHECK(pool.config().tokens_per_key() == groups.hash_block);
  for (std::size_t g = 0; g < groups.groups.size(); ++g) {
    const KvGroup& group = groups.groups[g];
    const bool spans = group.kind == KvGroupKind::kWindow || group.kind == KvGroupKind::kChunked;
    CHECK(group.block_size >= 1 && (!spans || group.span >= 1));
    CHECK(alignment_ >= 1 && alignment_ % group.block_size == 0);
    if (IsAligned(group)) {
      CHECK(state_block_ == 0 || state_block_ == group.block_size);
      state_block_ = group.block_size;
    }
    const auto is_same = [&](const Members& members) {
      KvGroup other = groups.groups[members.front()];
      other.layers = group.layers;
      return other == group;
    };
    const auto found = std::ranges::find_if(lookups_, is_same);
    if (found != lookups_.end()) {
      found->push_back(g);
    } else {
      lookups_.push_back({g});
    }
  }
  std::ranges::stable_partition(lookups_, [&](const Members& members) {
    return groups.groups[members.front()].kind == KvGroupKind::kFull;
  });
}

std::int32_t GroupTables::Unneeded(const KvGroup& group, std::int32_t tokens) {
  switch (group.kind) {
    case KvGroupKind::kFull:
      return 0;
    case KvGroupKind::kWindow:
      return std::max(0, tokens - group.span + 1) / group.block_size;
    case KvGroupKind::kChunked:
      return tokens / group.span * group.span / group.block_size;
    case KvGroupKind::kState:
      return IsAligned(group) ? std::max(0, tokens - 1) / group.block_size : 0;
  }
  CHECK(false);
}

std::int32_t GroupTables::Missing(const KvGroup& group, std::int32_t tokens, std::int32_t entries) {
  const auto covering = static_cast<std::int32_t>(CeilDivide(tokens, group.block_size));
  if (group.kind == KvGroupKind::kState) return covering > entries ? 1 : 0;
  return std::max(0, covering - entries);
}

std::int32_t GroupTables::BlocksToAdmit(std::int32_t tokens, const CacheHit& hit) const {
  std::int32_t blocks = hit.free_blocks;
  for (const KvGroup& group : groups_.groups) {
    blocks += Missing(group, tokens, hit.tokens / group.block_size);
  }
  return blocks;
}

std::int32_t GroupTables::BlocksForWhole(std::int32_t tokens, const CacheHit& hit) const {
  std::int32_t blocks = hit.free_blocks;
  for (const KvGroup& group : groups_.groups) {
    const std::int32_t entries = hit.tokens / group.block_size;
    std::int64_t missing = Missing(group, tokens, entries);
    // A group of states counts one at most, whatever the hit.
    if (group.kind != KvGroupKind::kState) {
      missing = std::clamp<std::int64_t>(MostBlocks(group, limits_) - entries, 0, missing);
    }
    blocks += static_cast<std::int32_t>(missing);
  }
  return blocks;
}

std::int64_t GroupTables::BlocksAtMost(std::int32_t tokens) const {
  std::int64_t blocks = 0;
  for (const KvGroup& group : groups_.groups) {
    blocks += std::min(MostBlocks(group, limits_), CeilDivide(tokens, group.block_size));
  }
  return blocks;
}

GroupTables::SequenceTables& GroupTables::Open(RequestId id) {
  SequenceTables& tables = tables_.OpenInAnyOrder(id);
  tables.groups.resize(groups_.groups.size());
  for (GroupTable& table : tables.groups) {
    table.blocks.clear();
    table.dropped = table.published = 0;
    table.state_before = -1;
  }
  tables.returned = tables.junction = 0;
  return tables;
}

bool GroupTables::Grow(RequestId id, std::int32_t tokens, std::vector<KvOperation>& log) {
  SequenceTables* const open = tables_.Find(id);
  SequenceTables& tables = open == nullptr ? Open(id) : *open;
  std::int32_t missing = 0;
  for (std::size_t g = 0; g < tables.groups.size(); ++g) {
    GroupTable& table = tables.groups[g];
    DropUnneeded(id, g, table, tables.returned, log);
    missing += Missing(groups_.groups[g], tokens, static_cast<std::int32_t>(table.blocks.size()));
  }
  if (missing > pool_.free()) return false;
  for (std::size_t g = 0; g < tables.groups.size(); ++g) {
    Take(id, g, tables.groups[g], tokens, log);
  }
  return true;
}

void GroupTables::DropUnneeded(RequestId id, std::size_t group, GroupTable& table,
                               std::int32_t returned, std::vector<KvOperation>& log) {
  const KvGroup& kind = groups_.groups[group];
  const auto drop = [&](std::int32_t entry) {
    BlockId& block = table.blocks[static_cast<std::size_t>(entry)];
    if (block == BlockId::kNone) return;
    going_.push_back(block);
    log.push_back({KvOperation::Kind::kDropFrom, id, block, TableNumber(group)});
    block = BlockId::kNone;
  };
  going_.clear();
  const std::int32_t end =
      std::min(Unneeded(kind, returned), static_cast<std::int32_t>(table.blocks.size()));
  for (std::int32_t entry = end; entry-- > table.dropped;) drop(entry);
  table.dropped = std::max(table.dropped, end);
  if (!going_.empty()) pool_.LetGo(going_);
  // The state before the running one was read by the step that began the running one.
  const std::int64_t running = CeilDivide(returned, kind.block_size) - 1;
  if (table.state_before < 0 || table.state_before >= running) return;
  going_.clear();
  drop(table.state_before);
  if (!going_.empty()) pool_.LetGo(going_);
}

void GroupTables::Take(RequestId id, std::size_t group, GroupTable& table, std::int32_t tokens,
                       std::vector<KvOperation>& log) {
  const KvGroup& kind = groups_.groups[group];
  const auto covering = static_cast<std::size_t>(CeilDivide(tokens, kind.block_size));
  const std::size_t held = table.blocks.size();
  if (covering <= held) return;
  if (IsAligned(kind)) {
    table.state_before = static_cast<std::int32_t>(held) - 1;
    table.blocks.resize(covering - 1, BlockId::kNone);
    for (std::size_t i = held; i + 1 < covering; ++i) {
      log.push_back({KvOperation::Kind::kSkipIn, id, BlockId::kNone, TableNumber(group)});
    }
  }
  while (table.blocks.size() < covering) {
    const BlockId block = pool_.TakeBlock();
    table.blocks.push_back(block);
    log.push_back({KvOperation::Kind::kAllocateIn, id, block, TableNumber(group)});
  }
}

void GroupTables::Returned(RequestId id, std::int32_t tokens) {
  if (SequenceTables* const tables = tables_.Find(id)) tables->returned = tokens;
}

void GroupTables::Release(RequestId id) {
  for (GroupTable& table : tables_[id].groups) {
    going_.clear();
    for (std::size_t i = table.blocks.size(); i-- > 0;) {
      if (table.blocks[i] != BlockId::kNone) going_.push_back(table.blocks[i]);
    }
    pool_.LetGo(going_);
  }
  tables_.Close(id);
}

// For the prefix cache.

BlockKey GroupTables::KeyOf(std::span<const BlockKey> keys, std::size_t group,
                            std::int32_t entry) const {
  const std::int32_t keys_per_block = groups_.groups[group].block_size / groups_.hash_block;
  const auto last = static_cast<std::size_t>((entry + 1) * keys_per_block - 1);
  return BlockKey{MixWords(static_cast<std::uint64_t>(keys[last]), group)};
}

bool GroupTables::Keeps(const KvGroup& group, std::int32_t entry, std::int32_t prompt_tokens,
                        std::int32_t junction) const {
  if (group.kind == KvGroupKind::kFull || group.kind == KvGroupKind::kChunked) return true;
  const std::int32_t blocks = BlocksOfEnd(group);
  const auto serves = [&](std::int64_t tokens) {
    const std::int64_t end = tokens / group.block_size;
    return entry < end && entry >= end - blocks;
  };
  if (serves((prompt_tokens - 1) / alignment_ * alignment_)) return true;
  if (serves(junction / alignment_ * alignment_)) return true;
  if (limits_.retention_interval == 0) return false;
  const std::int32_t interval =
      limits_.retention_interval < 0 ? alignment_ : limits_.retention_interval;
  return serves(CeilDivide(std::int64_t{entry + 1} * group.block_size, interval) * interval);
}

void GroupTables::Publish(RequestId id, std::span<const BlockKey> keys, std::int32_t tokens,
                          std::int32_t prompt_tokens) {
  SequenceTables& tables = tables_[id];
  tokens = static_cast<std::int32_t>(
      std::min<std::int64_t>(tokens, std::ssize(keys) * groups_.hash_block));
  if (several_) tokens = tokens / alignment_ * alignment_;
  for (std::size_t g = 0; g < tables.groups.size(); ++g) {
    const KvGroup& group = groups_.groups[g];
    CHECK(group.block_size % groups_.hash_block == 0);
    GroupTable& table = tables.groups[g];
    const std::int32_t full = tokens / group.block_size;
    for (; table.published < full; ++table.published) {
      const BlockId block = table.blocks[static_cast<std::size_t>(table.published)];
      if (block == BlockId::kNone) continue;
      if (!Keeps(group, table.published, prompt_tokens, tables.junction)) continue;
      const BlockKey key = KeyOf(keys, g, table.published);
      pool_.GiveKey(block, key);
      if (group.kind == KvGroupKind::kState) states_of_this_step_.push_back(key);
    }
  }
}

void GroupTables::Unpublish(RequestId id, std::int32_t tokens) {
  SequenceTables& tables = tables_[id];
  for (std::size_t g = 0; g < tables.groups.size(); ++g) {
    GroupTable& table = tables.groups[g];
    const std::int32_t full = tokens / groups_.groups[g].block_size;
    for (; table.published > full; --table.published) {
      const BlockId block = table.blocks[static_cast<std::size_t>(table.published - 1)];
      if (block != BlockId::kNone) pool_.TakeKey(block);
    }
  }
}

CacheHit GroupTables::Lookup(std::span<const BlockKey> keys, std::int32_t tokens_max) {
  // Full groups come first and are looked up once: a shorter prefix of theirs is cached, too. Of
  // the others a shorter prefix need not be, so that they are looked up until all agree.
  std::int32_t longest = 0;
  std::int32_t agreed = tokens_max;
  const auto is_full = [&](const Members& members) {
    return groups_.groups[members.front()].kind == KvGroupKind::kFull;
  };
  const bool one_round = lookups_.size() == 1 || (lookups_.size() == 2 && is_full(lookups_[0]));
  for (bool first = true;; first = false) {
    std::int32_t tokens = agreed;
    for (const Members& members : lookups_) {
      const std::int32_t size = groups_.groups[members.front()].block_size;
      if (is_full(members) && !first) {
        tokens = tokens / size * size;
      } else {
        tokens = LookupMembers(members, keys, tokens);
        longest = std::max(longest, tokens);
      }
    }
    const bool shrank = tokens < agreed;
    agreed = tokens;
    if (!shrank || one_round) break;
  }
  found_tokens_ = agreed;
  found_junction_ = several_ && longest > agreed ? longest : 0;

  CacheHit hit{.tokens = agreed};
  for (std::size_t g = 0; g < found_.size(); ++g) {
    const KvGroup& group = groups_.groups[g];
    const std::int32_t entries = agreed / group.block_size;
    for (std::int32_t i = Unneeded(group, agreed); i < entries; ++i) {
      const BlockId block = found_[g][static_cast<std::size_t>(i)];
      if (block != BlockId::kNone && !pool_.IsHeld(block)) ++hit.free_blocks;
    }
    if (group.kind == KvGroupKind::kState && entries > 0) {
      const BlockKey key = KeyOf(keys, g, entries - 1);
      hit.is_being_computed |=
          std::ranges::find(states_of_this_step_, key) != states_of_this_step_.end();
    }
  }
  return hit;
}

std::int32_t GroupTables::LookupMembers(const Members& members, std::span<const BlockKey> keys,
                                        std::int32_t tokens_max) {
  const KvGroup& group = groups_.groups[members.front()];
  CHECK(group.block_size % groups_.hash_block == 0);
  const std::int64_t keyed = std::ssize(keys) * groups_.hash_block;
  const auto entries_max =
      static_cast<std::int32_t>(std::min<std::int64_t>(tokens_max, keyed) / group.block_size);
  for (const std::size_t g : members) {
    found_[g].assign(static_cast<std::size_t>(tokens_max / group.block_size), BlockId::kNone);
  }
  std::int32_t entries = 0;
  switch (group.kind) {
    case KvGroupKind::kFull:
      entries = LookupFull(members, keys, entries_max);
      break;
    case KvGroupKind::kChunked:
      entries = LookupChunk(members, keys, tokens_max, entries_max);
      break;
    case KvGroupKind::kWindow:
    case KvGroupKind::kState:
      entries = LookupEnd(members, keys, entries_max);
      break;
  }
  return entries * group.block_size;
}

bool GroupTables::FindEntry(const Members& members, std::span<const BlockKey> keys,
                            std::int32_t entry) {
  const auto at = static_cast<std::size_t>(entry);
  for (const std::size_t g : members) {
    found_[g][at] = pool_.Find(KeyOf(keys, g, entry));
    if (found_[g][at] != BlockId::kNone) continue;
    for (const std::size_t member : members) found_[member][at] = BlockId::kNone;
    return false;
  }
  return true;
}

std::int32_t GroupTables::LookupFull(const Members& members, std::span<const BlockKey> keys,
                                     std::int32_t entries_max) {
  std::int32_t entries = 0;
  while (entries < entries_max && FindEntry(members, keys, entries)) ++entries;
  while (!Ends(groups_.groups[members.front()], entries)) --entries;
  return entries;
}

// All that lies before the chunk of the longest possible prefix counts as computed.
std::int32_t GroupTables::LookupChunk(const Members& members, std::span<const BlockKey> keys,
                                      std::int32_t tokens_max, std::int32_t entries_max) {
  const KvGroup& group = groups_.groups[members.front()];
  std::int32_t entries = Unneeded(group, tokens_max);
  while (entries < entries_max && FindEntry(members, keys, entries)) ++entries;
  while (!Ends(group, entries)) --entries;
  return entries;
}

// From the right, the first end of which the cache has all blocks, or all there are before it.
std::int32_t GroupTables::LookupEnd(const Members& members, std::span<const BlockKey> keys,
                                    std::int32_t entries_max) {
  const KvGroup& group = groups_.groups[members.front()];
  const std::int32_t wanted = BlocksOfEnd(group);
  if (wanted == 0) return 0;
  std::int32_t found = 0;  // consecutive blocks from the present entry on
  for (std::int32_t entry = entries_max; entry-- > 0;) {
    if (found == 0 && !Ends(group, entry + 1)) continue;
    found = FindEntry(members, keys, entry) ? found + 1 : 0;
    if (found == wanted) return entry + found;
  }
  return found;
}

std::int32_t GroupTables::Attach(RequestId id, std::vector<KvOperation>& log) {
  SequenceTables& tables = Open(id);
  tables.returned = found_tokens_;
  tables.junction = found_junction_;
  for (std::size_t g = 0; g < tables.groups.size(); ++g) {
    const KvGroup& group = groups_.groups[g];
    GroupTable& table = tables.groups[g];
    const std::int32_t entries = found_tokens_ / group.block_size;
    table.published = entries;
    table.dropped = std::min(Unneeded(group, found_tokens_), entries);
    for (std::int32_t i = 0; i < entries; ++i) {
      const BlockId block =
          i < table.dropped ? BlockId::kNone : found_[g][static_cast<std::size_t>(i)];
      table.blocks.push_back(block);
      const bool skips = block == BlockId::kNone;
      if (!skips) pool_.HoldKeyed(block);
      const auto kind = skips ? KvOperation::Kind::kSkipIn : KvOperation::Kind::kAttachIn;
      log.push_back({kind, id, block, TableNumber(g)});
    }
  }
  return found_tokens_;
}

// For audits.

void GroupTables::AppendTables(std::vector<BlockTable>& tables) const {
  tables_.ForEach([&](RequestId, const SequenceTables& sequence) {
    BlockTable& all = tables.emplace_back();
    for (const GroupTable& table : sequence.groups) {
      std::ranges::copy_if(table.blocks, std::back_inserter(all.device),
                           [](BlockId block) { return block != BlockId::kNone; });
    }
  });
}

bool GroupTables::Audit() const {
  bool right = true;
  tables_.ForEach([&](RequestId, const SequenceTables& sequence) {
    for (std::size_t g = 0; g < sequence.groups.size(); ++g) {
      const std::vector<BlockId>& blocks = sequence.groups[g].blocks;
      const auto dropped = static_cast<std::size_t>(sequence.groups[g].dropped);
      auto seen = static_cast<std::size_t>(Unneeded(groups_.groups[g], sequence.returned));
      // A group of states needs the running one alone.
      if (groups_.groups[g].kind == KvGroupKind::kState && !blocks.empty()) {
        seen = blocks.size() - 1;
      }
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const bool has_block = blocks[i] != BlockId::kNone;
        if (i < dropped ? has_block : i >= seen && !has_block) right = false;
      }
    }
  });
  return right;
}

}  // namespace twin
