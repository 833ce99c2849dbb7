#include "sched/policy/waiting_queue.h"

#include <algorithm>
#include <functional>

#include "core/check.h"

namespace twin {
namespace {

// Makes the heap's head the smallest entry.
constexpr auto kBehind = [](const auto& a, const auto& b) { return b < a; };

}  // namespace

RequestId WaitingQueue::TakeHead() {
  if (order_ == QueueOrder::kPriority) {
    CHECK(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), kBehind);
    const RequestId id = heap_.back().id;
    heap_.pop_back();
    return id;
  }
  if (ahead_ > 0) {
    --ahead_;
  } else if (sorted_ > 0) {
    --sorted_;
  }
  return queue_.PopFront().id;
}

void WaitingQueue::PushHeap(Entry entry) {
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), kBehind);
}

void WaitingQueue::Erase(RequestId id) {
  CHECK(!empty());
  if (front() == id) {
    PopFront();
    return;
  }
  CHECK(removed_.insert(id).second);
  if (removed_.size() * 2 > entries()) DropRemoved();
}

void WaitingQueue::DropRemovedHead() {
  while (entries() > 0) {
    const auto head = removed_.find(front());
    if (head == removed_.end()) return;
    removed_.erase(head);
    TakeHead();
  }
}

void WaitingQueue::DropRemoved() {
  entries_moved_ += static_cast<std::int64_t>(entries());
  const auto removed = [this](const Entry& entry) { return removed_.contains(entry.id); };
  if (order_ == QueueOrder::kPriority) {
    std::erase_if(heap_, removed);
    std::make_heap(heap_.begin(), heap_.end(), kBehind);
  } else {
    const std::size_t all = queue_.size();
    const std::size_t ahead = ahead_;
    const std::size_t sorted_end = ahead_ + sorted_;
    for (std::size_t i = 0; i < all; ++i) {
      const Entry entry = queue_.PopFront();
      if (!removed(entry)) {
        queue_.PushBack(entry);
      } else if (i < ahead) {
        --ahead_;
      } else if (i < sorted_end) {
        --sorted_;
      }
    }
  }
  removed_.clear();
}

void WaitingQueue::SortByPriority() {
  CHECK(order_ == QueueOrder::kFcfs);
  std::size_t behind = queue_.size() - ahead_ - sorted_;
  unsorted_.clear();
  for (; ahead_ > 0; --ahead_) unsorted_.push_back(queue_.PopFront());
  MergeAtFront();
  unsorted_.clear();
  for (; behind > 0; --behind) unsorted_.push_back(queue_.PopBack());
  MergeAtBack();
  DropRemovedHead();
}

// Victims are important: most of them stay near the front.
void WaitingQueue::MergeAtFront() {
  if (unsorted_.empty()) return;
  std::sort(unsorted_.begin(), unsorted_.end());
  const std::size_t count = unsorted_.size();
  for (std::size_t i = 0; i < count; ++i) queue_.PushFront({});
  const std::size_t end = count + sorted_;
  std::size_t write = 0;
  std::size_t read = count;
  for (const Entry& entry : unsorted_) {
    while (read < end && queue_[read] < entry) queue_[write++] = queue_[read++];
    queue_[write++] = entry;
  }
  entries_moved_ += static_cast<std::int64_t>(write);
  sorted_ += count;
}

void WaitingQueue::MergeAtBack() {
  if (unsorted_.empty()) return;
  std::sort(unsorted_.begin(), unsorted_.end());
  const std::size_t count = unsorted_.size();
  for (std::size_t i = 0; i < count; ++i) queue_.PushBack({});
  std::size_t write = queue_.size();
  std::size_t read = sorted_;
  for (std::size_t i = count; i-- > 0;) {
    while (read > 0 && unsorted_[i] < queue_[read - 1]) queue_[--write] = queue_[--read];
    queue_[--write] = unsorted_[i];
  }
  entries_moved_ += static_cast<std::int64_t>(queue_.size() - write);
  sorted_ += count;
}

}  // namespace twin
