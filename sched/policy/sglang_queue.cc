#include "sched/policy/sglang_queue.h"

#include <algorithm>
#include <tuple>

namespace twin {
namespace {

constexpr std::size_t kMatchedMost = 128;  // longer lists are not matched against the tree
constexpr std::int64_t kRefreshEvery = 32;

}  // namespace

SglangQueue::SglangQueue(const SglangConfig& config, std::int32_t key_tokens)
    : config_(config),
      shared_keys_(static_cast<std::size_t>(
          (std::max(config.in_batch_deprioritize_threshold, 1) - 1) / key_tokens + 1)),
      ordered_(config.order.value_or(OrderConfig{})) {}

void SglangQueue::Push(const Sequence& s) {
  if (!ordered()) {
    list_.push_back(s.id);
  } else if (s.preemptions > 0) {
    ordered_.PushPreempted(s);
  } else {
    ordered_.PushArrival(s);
  }
}

RequestId SglangQueue::At(const StepBuilder& step, std::size_t i) {
  while (list_.size() - head_ <= i) {
    list_.push_back(ordered_.PopFront());
    ordered_.Admitted(step.sequence(list_.back()));
  }
  return list_[head_ + i];
}

void SglangQueue::PopFront(const StepBuilder& step, std::size_t count) {
  if (ordered()) {
    for (; list_.size() > count; list_.pop_back()) {
      const Sequence& s = step.sequence(list_.back());
      ordered_.NotAdmitted(s);
      ordered_.PutBack(s);
    }
    list_.clear();
    return;
  }
  head_ += count;
  if (2 * head_ < list_.size()) return;
  list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(head_));
  head_ = 0;
}

void SglangQueue::Erase(const Sequence& s) {
  if (ordered()) return ordered_.Erase(s);
  const auto begin = list_.begin() + static_cast<std::ptrdiff_t>(head_);
  const auto found = std::find(begin, list_.end(), s.id);
  if (found != list_.end()) list_.erase(found);
}

void SglangQueue::Sort(const StepBuilder& step, SglangRequests& requests, RadixCache& cache) {
  using Order = SglangConfig::Order;
  const bool by_prefix = config_.schedule_policy == Order::kLpm && cache.enabled();
  if (by_prefix && size() <= kMatchedMost) return SortByPrefix(step, requests, cache);
  const bool by_limit = config_.schedule_policy == Order::kLof;
  if (by_limit || config_.enable_priority_scheduling) SortByLimit(step, requests, by_limit);
  if (cache.enabled() && sorts_++ % kRefreshEvery == 0) Refresh(step, cache);
}

void SglangQueue::SortByLimit(const StepBuilder& step, const SglangRequests& requests,
                              bool by_limit) {
  ranks_.clear();
  for (std::size_t i = 0; i < size(); ++i) {
    const RequestId id = At(step, i);
    const SglangRequest& request = requests[id];
    const std::int64_t priority =
        config_.enable_priority_scheduling ? -config_.Importance(step.sequence(id).priority) : 0;
    ranks_.push_back({priority, by_limit ? -request.limit : request.queued_at, i, id});
  }
  SortByRank();
}

void SglangQueue::SortByRank() {
  std::sort(ranks_.begin(), ranks_.end(), [](const Rank& a, const Rank& b) {
    return std::tie(a.first, a.second, a.place) < std::tie(b.first, b.second, b.place);
  });
  for (std::size_t i = 0; i < ranks_.size(); ++i) list_[head_ + i] = ranks_[i].id;
}

void SglangQueue::SortByPrefix(const StepBuilder& step, SglangRequests& requests,
                               RadixCache& cache) {
  ranks_.clear();
  listed_.clear();
  const std::int32_t page = step.pool().block_size();
  for (std::size_t i = 0; i < size(); ++i) {
    const RequestId id = At(step, i);
    const Sequence& s = step.sequence(id);
    const std::int32_t hit = cache.Match(s, s.known).blocks * page;
    requests[id].hit_tokens = std::min(hit, s.known - 1);
    const bool last = SharedInList(s, hit);
    ranks_.push_back({last ? 1 : -std::int64_t{requests[id].hit_tokens}, 0, i, id});
  }
  SortByRank();
}

// Of several requests with a prefix that is not in the tree, the first computes it; the others
// wait at the end, to find it there.
bool SglangQueue::SharedInList(const Sequence& s, std::int32_t hit_tokens) {
  if (hit_tokens > config_.in_batch_check_threshold) return false;
  if (s.keys.size() < shared_keys_) return false;
  const BlockKey key = s.keys[shared_keys_ - 1];
  if (std::find(listed_.begin(), listed_.end(), key) != listed_.end()) return true;
  listed_.push_back(key);
  return false;
}

void SglangQueue::Refresh(const StepBuilder& step, RadixCache& cache) {
  for (std::size_t i = std::min(size(), kMatchedMost); i-- > 0;) {
    const Sequence& s = step.sequence(At(step, i));
    cache.Match(s, s.known);
  }
}

}  // namespace twin
