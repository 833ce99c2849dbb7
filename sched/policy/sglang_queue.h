// The waiting list of SGLang, and its orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "core/id_map.h"
#include "core/ids.h"
#include "core/ring_queue.h"
#include "sched/cache/prefix_cache.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/sglang_config.h"
#include "sched/step_builder.h"

namespace twin {

// The policy's own data of a request, beside its Sequence.
struct SglangRequest {
  std::int32_t limit = 0;       // output tokens that the cache and the context leave room for
  TreeHold hold;                // while admitted
  std::int32_t hit_tokens = 0;  // of its latest match; 0 after a retraction
  std::int32_t prepared = 0;    // tokens known when it was last offered a batch; 0 = never
  std::int64_t queued_at = 0;   // a count of entries into the list
  // With a window pool alone: batches since its admission.
  std::int32_t prefills = 0;
  std::int32_t decodes = 0;
};
using SglangRequests = IdMap<SglangRequest>;

// A list. New and retracted requests join at its end; an order of SGLang's may sort it, which
// stays. PopFront takes constant time. Erase takes time linear in the requests before, and Sort in
// the matches, or in the list if it sorts by priority and a request has joined.
//
// Orders that never look into the tree rank a request once, when it joins (`lof`, priorities
// without `lpm`): then a call takes logarithmic time for each request that it looks at. So it does
// with an order of order_config.h, where an OrderedQueue holds the requests.
//
// Allocates while it grows; where requests are ranked, whenever one joins.
class SglangQueue {
 public:
  // `key_tokens`: KvPoolConfig::tokens_per_key().
  SglangQueue(const SglangConfig& config, std::int32_t key_tokens);

  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const {
    return ranks_once_ ? ranked_.size() : list_.size() + ordered_.size();
  }
  // An order of order_config.h other than that of arrival is set.
  [[nodiscard]] bool ordered() const { return !ordered_.first_come_first_served(); }

  // REQUIRES for `request`: its limit stays, and queued_at is larger than that of any other push.
  void Push(const Sequence& s, const SglangRequest& request);
  // The request at place `i`. After the last call for a step PopFront must follow, which takes out
  // the first `count`. REQUIRES: i < size(); all places before have been looked at since.
  [[nodiscard]] RequestId At(const StepBuilder& step, std::size_t i);
  void PopFront(const StepBuilder& step, std::size_t count);
  // Does nothing if the request is not in the list.
  void Erase(const Sequence& s, const SglangRequest& request);

  // As OrderedQueue's.
  void ChargeStep(const StepBuilder& step) { ordered_.ChargeStep(step); }
  [[nodiscard]] bool OrderIsFixedWhileDecoding() const {
    return ordered_.OrderIsFixedWhileDecoding();
  }
  // REQUIRES: ordered().
  [[nodiscard]] bool Before(const Sequence& a, const Sequence& b) const {
    return ordered_.Before(a, b);
  }

  // Puts the list into the order in which requests are offered a batch. Orders that do not look
  // into the tree then renew, now and then, the time of use of the first waiting prefixes.
  void Sort(const StepBuilder& step, SglangRequests& requests, PrefixCache& cache);

 private:
  struct Rank {
    std::int64_t first = 0;
    std::int64_t second = 0;
    std::size_t place = 0;  // breaks ties: sorting is stable
    RequestId id{};
  };

  // A request of a list that is ranked once.
  struct Ranked {
    std::int64_t importance = 0;
    std::int64_t limit = 0;
    std::int64_t queued_at = 0;
    RequestId id{};

    friend bool operator<(const Ranked& a, const Ranked& b) {
      if (a.importance != b.importance) return a.importance > b.importance;
      if (a.limit != b.limit) return a.limit > b.limit;
      return a.queued_at != b.queued_at ? a.queued_at < b.queued_at : a.id < b.id;
    }
  };

  // By priority where that is configured, then by limit for `lof`, then by entry.
  [[nodiscard]] Ranked RankOf(const Sequence& s, const SglangRequest& request) const;
  void SortByPriority(const StepBuilder& step, const SglangRequests& requests);
  void SortByRank();
  void SortByPrefix(const StepBuilder& step, SglangRequests& requests, PrefixCache& cache);
  [[nodiscard]] bool SharedInList(const Sequence& sequence, std::int32_t hit_tokens);
  void Refresh(const StepBuilder& step, PrefixCache& cache);

  SglangConfig config_;
  std::size_t shared_keys_;  // that must agree for a prefix to count as shared in the list
  OrderedQueue ordered_;     // empty unless ordered()
  bool ranks_once_;
  std::set<Ranked> ranked_;                  // empty unless ranks_once_
  std::set<Ranked>::const_iterator next_{};  // one after the last looked at in this step
  RingQueue<RequestId> list_;        // if ordered() or ranks_once_: who was looked at in this step
  bool sorted_by_priority_ = false;  // list_ is
  std::int64_t sorts_ = 0;
  std::vector<Rank> ranks_;
  std::vector<BlockKey> listed_;  // of the present sort: prefixes that another may share
};

}  // namespace twin
