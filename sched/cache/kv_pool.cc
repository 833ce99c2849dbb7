#include "sched/cache/kv_pool.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace twin {

KvPool::KvPool(const KvPoolConfig& config)
    : config_(config),
      blocks_(static_cast<std::size_t>(std::max(0, config.blocks))),
      queue_(blocks_.size()),
      keys_(blocks_.size()) {
  CHECK(config.block_size >= 1);
  CHECK(config.blocks >= 0);
  CHECK(config.host_blocks >= 0);
  CHECK(config.key_tokens >= 0 && config.block_size % config.tokens_per_key() == 0);
  const auto size = static_cast<std::uint32_t>(config.block_size);
  if (std::has_single_bit(size)) shift_ = std::countr_zero(size);
  host_free_.reserve(static_cast<std::size_t>(config.host_blocks));
  for (std::int32_t i = config.host_blocks; i-- > 0;) host_free_.push_back(BlockId{i});
}

bool KvPool::Grow(BlockTable& table, std::int32_t tokens) {
  const std::int32_t missing = BlocksFor(tokens) - table.held();
  if (missing <= 0) return true;
  const std::int32_t own = std::min(missing, table.reserved_blocks);
  if (missing - own > free()) return false;
  table.reserved_blocks -= own;
  reserved_ -= own;
  CHECK(missing <= queue_.size());
  if (missing == 1) {
    table.device.push_back(TakeOne());
  } else {
    TakeFront(missing, table.device);
  }
  table.capacity_tokens += missing * config_.block_size;
  return true;
}

bool KvPool::Reserve(BlockTable& table, std::int32_t blocks) {
  CHECK(blocks >= 0);
  if (blocks > free()) return false;
  table.reserved_blocks += blocks;
  reserved_ += blocks;
  return true;
}

void KvPool::Release(BlockTable& table) {
  // Last block first. Keyless blocks go to the front in that order, too: in a second pass, since
  // what is pushed there comes before what was.
  std::size_t first_keyless = table.device.size();  // that goes to the front
  const bool all_back = config_.release_order == ReleaseOrder::kBack;
  {  // The appender ends before blocks go to the front.
    FreeQueue::Appender back(queue_, table.device.size());
    constexpr Block kPlain{.held = true};
    constexpr Block kKeyed{.held = true, .carries_key = true};  // under a key that is not listed
    for (std::size_t i = table.device.size(); i-- > 0;) {
      const BlockId id = table.device[i];
      Block& b = At(id);
      if (b == kKeyed || (all_back && b == kPlain)) [[likely]] {
        b.held = false;
        back.PushBack(id, /*may_leave=*/false);
        continue;
      }
      CHECK(b.held);
      if (b.shared) {
        Unshare(id);
        continue;
      }
      b.held = false;
      if (b.kept) {
        ++cached_;
      } else if (all_back || b.carries_key) {
        back.PushBack(id, b.listed);
      } else {
        first_keyless = i;
      }
    }
  }
  for (std::size_t i = first_keyless; i < table.device.size(); ++i) {
    const Block& b = At(table.device[i]);
    if (!b.held && !b.kept && !b.carries_key) queue_.PushFront(table.device[i]);
  }
  table.device.clear();
  table.capacity_tokens = 0;
  for (auto block = table.host.rbegin(); block != table.host.rend(); ++block) {
    host_free_.push_back(*block);
  }
  table.host.clear();
  CHECK(table.reserved_blocks <= reserved_);
  reserved_ -= table.reserved_blocks;
  table.reserved_blocks = 0;
  table.published_tokens = 0;
}

void KvPool::Suspend(BlockTable& table, std::span<const BlockKey> keys) {
  const auto published = static_cast<std::size_t>(FullBlocks(table.published_tokens));
  CHECK(published <= keys.size());
  for (std::size_t i = 0; i < published; ++i) {
    if (!At(table.device[i]).listed) List(table.device[i], keys[i]);
  }
  Release(table);
}

bool KvPool::SwapOut(BlockTable& table) {
  CHECK(table.host.empty());
  if (table.held() > host_free()) return false;
  std::vector<BlockId> host;
  host.swap(table.host);
  for (std::int32_t i = 0; i < table.held(); ++i) {
    host.push_back(host_free_.back());
    host_free_.pop_back();
  }
  Release(table);
  table.host.swap(host);
  return true;
}

bool KvPool::SwapIn(BlockTable& table) {
  CHECK(table.device.empty());
  const auto blocks = static_cast<std::int32_t>(table.host.size());
  if (blocks > free()) return false;
  TakeFront(blocks, table.device);
  table.capacity_tokens = blocks * config_.block_size;
  for (auto block = table.host.rbegin(); block != table.host.rend(); ++block) {
    host_free_.push_back(*block);
  }
  table.host.clear();
  return true;
}

void KvPool::Share(const BlockTable& table, BlockTable& hold) {
  CHECK(hold.device.empty() && hold.reserved_blocks == 0);
  for (const BlockId id : table.device) Hold(id);
  hold.device = table.device;
  hold.capacity_tokens = table.capacity_tokens;
}

CacheHit KvPool::Lookup(std::span<const BlockKey> keys, std::int32_t blocks_max) const {
  CacheHit hit;
  const auto limit =
      std::min<std::size_t>(keys.size(), static_cast<std::size_t>(std::max(0, blocks_max)));
  for (std::size_t i = 0; i < limit; ++i) {
    const BlockId found = keys_.Find(keys[i]);
    if (found == BlockId::kNone) break;
    ++hit.blocks;
    if (!blocks_[Index(found)].held) ++hit.free_blocks;
  }
  hit.tokens = hit.blocks * config_.block_size;
  return hit;
}

void KvPool::Attach(BlockTable& table, std::span<const BlockKey> keys, std::int32_t blocks) {
  CHECK(table.device.empty());
  for (std::size_t i = 0; i < static_cast<std::size_t>(blocks); ++i) {
    const BlockId id = keys_.Find(keys[i]);
    CHECK(id != BlockId::kNone);
    HoldKeyed(id);
    table.device.push_back(id);
  }
  table.capacity_tokens = blocks * config_.block_size;
  table.published_tokens = table.capacity_tokens;
  CHECK(reserved_ <= queue_.size());
}

void KvPool::Publish(BlockTable& table, std::span<const BlockKey> keys, std::int32_t blocks) {
  blocks = std::min(blocks, static_cast<std::int32_t>(keys.size()));
  CHECK(blocks <= table.held());
  for (std::int32_t i = FullBlocks(table.published_tokens); i < blocks; ++i) {
    const auto at = static_cast<std::size_t>(i);
    Block& b = At(table.device[at]);
    CHECK(!b.carries_key);
    b.carries_key = true;
    if (!IsPrivate(keys[at])) List(table.device[at], keys[at]);
  }
  table.published_tokens = std::max(table.published_tokens, blocks * config_.block_size);
}

void KvPool::HoldKeyed(BlockId id) {
  if (!At(id).held) queue_.Remove(id);
  Hold(id);
}

void KvPool::GiveKey(BlockId id, BlockKey key) {
  CHECK(At(id).held && !At(id).carries_key);
  At(id).carries_key = true;
  List(id, key);
}

void KvPool::TakeKey(BlockId id) {
  CHECK(At(id).held && !At(id).shared);
  ForgetKey(id);
}

void KvPool::LetGo(std::span<const BlockId> blocks) {
  const bool all_back = config_.release_order == ReleaseOrder::kBack;
  std::size_t keyless_end = 0;  // of those that go to the front
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block& b = At(blocks[i]);
    CHECK(b.held);
    if (b.shared) {
      Unshare(blocks[i]);
      continue;
    }
    b.held = false;
    if (all_back || b.carries_key) {
      queue_.PushBack(blocks[i], b.listed);
    } else {
      keyless_end = i + 1;
    }
  }
  for (std::size_t i = keyless_end; i-- > 0;) {
    const Block& b = At(blocks[i]);
    if (!b.held && !b.carries_key) queue_.PushFront(blocks[i]);
  }
}

void KvPool::Unpublish(BlockTable& table, std::int32_t blocks) {
  for (; table.published_tokens > blocks * config_.block_size;
       table.published_tokens -= config_.block_size) {
    const auto published = static_cast<std::size_t>(FullBlocks(table.published_tokens));
    TakeKey(table.device[published - 1]);
  }
}

void KvPool::Hold(BlockId id) {
  Block& b = At(id);
  if (!b.held) {
    b.held = true;
    return;
  }
  if (holders_.empty()) holders_.resize(blocks_.size());
  std::uint32_t& holders = holders_[Index(id)];
  holders = b.shared ? holders + 1 : 2;
  b.shared = true;
}

void KvPool::Unshare(BlockId id) {
  if (--holders_[Index(id)] == 1) At(id).shared = false;
}

void KvPool::Keep(BlockId id) {
  Block& b = At(id);
  CHECK(!b.kept && b.held && !b.carries_key);
  b.kept = true;
}

void KvPool::DropKept(BlockId id) {
  Block& b = At(id);
  CHECK(b.kept && !b.held);
  b.kept = false;
  --cached_;
  queue_.PushBack(id, b.listed);
}

void KvPool::HoldKept(BlockId id) {
  const Block& b = At(id);
  CHECK(b.kept);
  if (!b.held) --cached_;
  Hold(id);
}

void KvPool::AttachKept(BlockTable& table, std::span<const BlockId> blocks) {
  CHECK(table.device.empty());
  for (const BlockId id : blocks) HoldKept(id);
  table.device.assign(blocks.begin(), blocks.end());
  table.capacity_tokens = table.held() * config_.block_size;
}

void KvPool::ReplaceByKept(BlockTable& table, std::int32_t position, BlockId kept) {
  BlockId& place = table.device.at(static_cast<std::size_t>(position));
  Block& b = At(place);
  CHECK(b.held && !b.kept);
  if (b.shared) {
    Unshare(place);
  } else {
    b.held = false;
    queue_.PushBack(place, b.listed);
  }
  HoldKept(kept);
  place = kept;
}

bool KvPool::Audit(std::span<const BlockTable* const> tables) const {
  std::vector<std::uint32_t> references(blocks_.size());
  std::int64_t host = host_free();
  std::int64_t promised = 0;
  for (const BlockTable* table : tables) {
    for (const BlockId id : table->device) ++references[Index(id)];
    host += static_cast<std::int64_t>(table->host.size());
    promised += table->reserved_blocks;
  }
  std::int32_t used = 0;
  std::int32_t cached = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& b = blocks_[i];
    if (references[i] != (b.shared ? holders_[i] : std::uint32_t{b.held})) return false;
    if (b.held || b.kept) ++used;
    if (b.kept && !b.held) ++cached;
  }
  const std::vector<BlockId> queued = queue_.Listed();
  for (const BlockId id : queued) {
    if (blocks_[Index(id)].held || blocks_[Index(id)].kept) return false;
  }
  return static_cast<std::int32_t>(queued.size()) == queue_.size() &&
         queue_.size() + used == usable() && cached == cached_ && promised == reserved_ &&
         reserved_ <= queue_.size() && host == config_.host_blocks;
}

BlockId KvPool::TakeOne() {
  __builtin_prefetch(&blocks_[queue_.Upcoming()], /*rw=*/1);
  const BlockId id = queue_.TakeFront();
  Take(id);
  return id;
}

void KvPool::TakeFront(std::int32_t count, std::vector<BlockId>& taken) {
  const std::size_t held = taken.size();
  const std::size_t wanted = held + static_cast<std::size_t>(count);
  // Capacities are powers of two, so that a table's memory soon fits every request that uses it.
  if (taken.capacity() < wanted) taken.reserve(std::bit_ceil(wanted));
  taken.resize(wanted);
  const std::span places = std::span(taken).subspan(held);
  queue_.TakeFront(places);
  for (const BlockId id : places) Take(id);
}

void KvPool::List(BlockId id, BlockKey key) {
  keys_.Add(id, key);
  At(id).listed = true;
}

void KvPool::ForgetKey(BlockId id) {
  Block& b = At(id);
  if (b.listed) keys_.Remove(id);
  b.listed = false;
  b.carries_key = false;
}

}  // namespace twin
