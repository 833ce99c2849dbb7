#include "sched/cache/kv_pool.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace twin {

KvPool::KvPool(const KvPoolConfig& config) : config_(config), keys_(config.blocks) {
  CHECK(config.block_size >= 1);
  CHECK(config.blocks >= 0);
  CHECK(config.host_blocks >= 0);
  const auto size = static_cast<std::uint32_t>(config.block_size);
  if (std::has_single_bit(size)) shift_ = std::countr_zero(size);
  blocks_.resize(static_cast<std::size_t>(config.blocks));
  for (std::int32_t i = 0; i < config.blocks; ++i) PushBack(i);
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
  for (std::int32_t i = 0; i < missing; ++i) table.device.push_back(TakeFront());
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
  std::int32_t front = kNil;  // keyless blocks gather here in visiting order, then go to the front
  std::int32_t last = kNil;
  for (auto block = table.device.rbegin(); block != table.device.rend(); ++block) {
    Block& b = At(*block);
    CHECK(b.references > 0);
    if (--b.references > 0) continue;
    const auto index = static_cast<std::int32_t>(Index(*block));
    if (config_.release_order == ReleaseOrder::kBack || keys_.carries(*block)) {
      PushBack(index);
      continue;
    }
    b.previous = last;
    b.next = kNil;
    (last == kNil ? front : blocks_[static_cast<std::size_t>(last)].next) = index;
    last = index;
    ++queued_;
  }
  if (front != kNil) {
    blocks_[static_cast<std::size_t>(last)].next = head_;
    (head_ == kNil ? tail_ : blocks_[static_cast<std::size_t>(head_)].previous) = last;
    head_ = front;
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
  table.published_blocks = 0;
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
  for (std::int32_t i = 0; i < blocks; ++i) table.device.push_back(TakeFront());
  table.capacity_tokens = blocks * config_.block_size;
  for (auto block = table.host.rbegin(); block != table.host.rend(); ++block) {
    host_free_.push_back(*block);
  }
  table.host.clear();
  return true;
}

CacheHit KvPool::Lookup(std::span<const BlockKey> keys, std::int32_t blocks_max) const {
  CacheHit hit;
  const auto limit =
      std::min<std::size_t>(keys.size(), static_cast<std::size_t>(std::max(0, blocks_max)));
  for (std::size_t i = 0; i < limit; ++i) {
    const BlockId found = keys_.Find(keys[i]);
    if (found == BlockId::kNone) break;
    ++hit.blocks;
    if (blocks_[Index(found)].references == 0) ++hit.free_blocks;
  }
  return hit;
}

void KvPool::Attach(BlockTable& table, std::span<const BlockKey> keys, std::int32_t blocks) {
  CHECK(table.device.empty());
  for (std::size_t i = 0; i < static_cast<std::size_t>(blocks); ++i) {
    const BlockId id = keys_.Find(keys[i]);
    CHECK(id != BlockId::kNone);
    Block& b = At(id);
    if (b.references++ == 0) Unlink(static_cast<std::int32_t>(Index(id)));
    table.device.push_back(id);
  }
  table.capacity_tokens = blocks * config_.block_size;
  table.published_blocks = blocks;
  CHECK(reserved_ <= queued_);
}

void KvPool::Publish(BlockTable& table, std::span<const BlockKey> keys, std::int32_t blocks) {
  blocks = std::min(blocks, static_cast<std::int32_t>(keys.size()));
  CHECK(blocks <= table.held());
  for (std::int32_t i = table.published_blocks; i < blocks; ++i) {
    keys_.Add(keys[static_cast<std::size_t>(i)], table.device[static_cast<std::size_t>(i)]);
  }
  table.published_blocks = std::max(table.published_blocks, blocks);
}

void KvPool::Unpublish(BlockTable& table, std::int32_t blocks) {
  for (; table.published_blocks > blocks; --table.published_blocks) {
    const BlockId id = table.device[static_cast<std::size_t>(table.published_blocks - 1)];
    CHECK(At(id).references == 1);
    keys_.Remove(id);
  }
}

bool KvPool::Audit(std::span<const BlockTable* const> tables) const {
  std::vector<std::int32_t> references(blocks_.size());
  std::int64_t host = host_free();
  std::int64_t promised = 0;
  for (const BlockTable* table : tables) {
    for (const BlockId id : table->device) ++references[Index(id)];
    host += static_cast<std::int64_t>(table->host.size());
    promised += table->reserved_blocks;
  }
  std::int32_t used = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (references[i] != blocks_[i].references) return false;
    if (references[i] > 0) ++used;
  }
  std::int32_t queued = 0;
  for (std::int32_t i = head_; i != kNil; i = blocks_[static_cast<std::size_t>(i)].next) {
    if (blocks_[static_cast<std::size_t>(i)].references != 0) return false;
    ++queued;
  }
  return queued == queued_ && queued + used == usable() && promised == reserved_ &&
         reserved_ <= queued_ && host == config_.host_blocks;
}

BlockId KvPool::TakeFront() {
  CHECK(head_ != kNil);
  const std::int32_t index = head_;
  Unlink(index);
  Block& b = blocks_[static_cast<std::size_t>(index)];
  if (keys_.carries(BlockId{index})) keys_.Remove(BlockId{index});
  b.references = 1;
  return BlockId{index};
}

void KvPool::Unlink(std::int32_t index) {
  Block& b = blocks_[static_cast<std::size_t>(index)];
  (b.previous == kNil ? head_ : blocks_[static_cast<std::size_t>(b.previous)].next) = b.next;
  (b.next == kNil ? tail_ : blocks_[static_cast<std::size_t>(b.next)].previous) = b.previous;
  --queued_;
}

void KvPool::PushBack(std::int32_t index) {
  Block& b = blocks_[static_cast<std::size_t>(index)];
  b.previous = tail_;
  b.next = kNil;
  (tail_ == kNil ? head_ : blocks_[static_cast<std::size_t>(tail_)].next) = index;
  tail_ = index;
  ++queued_;
}

}  // namespace twin
