#include "sched/policy/sglang_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/check.h"

namespace twin {
namespace {

constexpr std::size_t kMatchedMost = 128;  // longer lists are not matched against the tree
constexpr std::int64_t kRefreshEvery = 32;

}  // namespace

SglangQueue::SglangQueue(const SglangConfig& config, std::int32_t key_tokens)
    : config_(config),
      shared_keys_(static_cast<std::size_t>(
          (std::max(config.in_batch_deprioritize_threshold, 1) - 1) / key_tokens + 1)),
      ordered_(config.order.value_or(OrderConfig{})) {
  using Order = SglangConfig::Order;
  const bool by_prefix = config.schedule_policy == Order::kLpm && config.radix_cache;
  const bool ranks = config.schedule_policy == Order::kLof || config.enable_priority_scheduling;
  ranks_once_ = ranks && !by_prefix && !ordered();
}

SglangQueue::Ranked SglangQueue::RankOf(const Sequence& s, const SglangRequest& request) const {
  return {.importance = config_.enable_priority_scheduling ? config_.Importance(s.priority) : 0,
          .limit = config_.schedule_policy == SglangConfig::Order::kLof ? request.limit : 0,
          .queued_at = request.queued_at,
          .id = s.id};
}

void SglangQueue::Push(const Sequence& s, const SglangRequest& request) {
  if (ranks_once_) {
    CHECK(list_.empty());
    ranked_.insert(RankOf(s, request));
  } else if (!ordered()) {
    list_.PushBack(s.id);
    sorted_by_priority_ = false;
  } else if (s.preemptions > 0) {
    ordered_.PushPreempted(s);
  } else {
    ordered_.PushArrival(s);
  }
}

RequestId SglangQueue::At(const StepBuilder& step, std::size_t i) {
  if (ranks_once_ && list_.empty()) next_ = ranked_.begin();
  while (list_.size() <= i) {
    if (ranks_once_) {
      list_.PushBack(next_++->id);
    } else {
      list_.PushBack(ordered_.PopFront());
      ordered_.Admitted(step.sequence(list_.back()));
    }
  }
  return list_[i];
}

void SglangQueue::PopFront(const StepBuilder& step, std::size_t count) {
  if (ordered()) {
    while (list_.size() > count) {
      const Sequence& s = step.sequence(list_.PopBack());
      ordered_.NotAdmitted(s);
      ordered_.PutBack(s);
    }
    list_.Clear();
  } else if (ranks_once_) {
    for (; count > 0; --count) ranked_.erase(ranked_.begin());
    list_.Clear();
  } else {
    for (; count > 0; --count) list_.PopFront();
  }
}

void SglangQueue::Erase(const Sequence& s, const SglangRequest& request) {
  if (ordered()) return ordered_.Erase(s);
  if (ranks_once_) {
    CHECK(list_.empty());
    ranked_.erase(RankOf(s, request));
  } else {
    list_.Erase(s.id);
  }
}

void SglangQueue::Sort(const StepBuilder& step, SglangRequests& requests, PrefixCache& cache) {
  const bool by_prefix = config_.schedule_policy == SglangConfig::Order::kLpm && cache.enabled();
  if (by_prefix && size() <= kMatchedMost) return SortByPrefix(step, requests, cache);
  if (by_prefix && config_.enable_priority_scheduling) SortByPriority(step, requests);
  if (cache.enabled() && sorts_++ % kRefreshEvery == 0) Refresh(step, cache);
}

void SglangQueue::SortByPriority(const StepBuilder& step, const SglangRequests& requests) {
  if (std::exchange(sorted_by_priority_, true)) return;
  ranks_.clear();
  for (std::size_t i = 0; i < size(); ++i) {
    const RequestId id = At(step, i);
    const std::int64_t importance = config_.Importance(step.sequence(id).priority);
    ranks_.push_back({-importance, requests[id].queued_at, i, id});
  }
  SortByRank();
}

void SglangQueue::SortByRank() {
  std::sort(ranks_.begin(), ranks_.end(), [](const Rank& a, const Rank& b) {
    return std::tie(a.first, a.second, a.place) < std::tie(b.first, b.second, b.place);
  });
  for (std::size_t i = 0; i < ranks_.size(); ++i) list_[i] = ranks_[i].id;
}

void SglangQueue::SortByPrefix(const StepBuilder& step, SglangRequests& requests,
                               PrefixCache& cache) {
  sorted_by_priority_ = false;
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

// True if an earlier request of the list has the same prefix, which is not in the tree: that one
// computes it, and this one waits at the end, to find it there.
bool SglangQueue::SharedInList(const Sequence& s, std::int32_t hit_tokens) {
  if (hit_tokens > config_.in_batch_check_threshold) return false;
  if (s.keys.size() < shared_keys_) return false;
  const BlockKey key = s.keys[shared_keys_ - 1];
  if (std::find(listed_.begin(), listed_.end(), key) != listed_.end()) return true;
  listed_.push_back(key);
  return false;
}

void SglangQueue::Refresh(const StepBuilder& step, PrefixCache& cache) {
  for (std::size_t i = std::min(size(), kMatchedMost); i-- > 0;) {
    const Sequence& s = step.sequence(At(step, i));
    cache.Match(s, s.known);
  }
}

}  // namespace twin
