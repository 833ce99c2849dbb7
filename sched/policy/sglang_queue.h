// The waiting list of SGLang, and its orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/id_map.h"
#include "core/ids.h"
#include "sched/cache/radix_cache.h"
#include "sched/policy/ordered_queue.h"
#include "sched/policy/sglang_config.h"
#include "sched/step_builder.h"

namespace twin {

// What the policy keeps of a request beside its Sequence.
struct SglangRequest {
  std::int32_t limit = 0;       // output tokens that the cache and the context leave room for
  TreeHold hold;                // while admitted
  std::int32_t hit_tokens = 0;  // of its latest match; 0 after a retraction
  std::int32_t prepared = 0;    // tokens known when it was last offered a batch; 0 = never
  std::int64_t queued_at = 0;   // a count of entries into the list
};
using SglangRequests = IdMap<SglangRequest>;

// A list. New and retracted requests join at its end; an order of SGLang's may sort it, which
// stays. PopFront takes constant time, Erase and Sort time linear in the list (Sort: and in the
// matches). With an order of order_config.h an OrderedQueue holds the requests; then a call takes
// logarithmic time for each request that it looks at. Allocates while it grows.
class SglangQueue {
 public:
  // `key_tokens`: KvPoolConfig::tokens_per_key().
  SglangQueue(const SglangConfig& config, std::int32_t key_tokens);

  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return list_.size() - head_ + ordered_.size(); }
  // An order of order_config.h other than that of arrival is set.
  [[nodiscard]] bool ordered() const { return !ordered_.first_come_first_served(); }

  void Push(const Sequence& s);
  // The request at place `i`. After the last call for a step PopFront must follow, which takes out
  // the first `count`. REQUIRES: i < size(); all places before have been looked at since.
  [[nodiscard]] RequestId At(const StepBuilder& step, std::size_t i);
  void PopFront(const StepBuilder& step, std::size_t count);
  // Nothing if the request is not in the list.
  void Erase(const Sequence& s);

  // As OrderedQueue's.
  void Planned(const StepBuilder& step) { ordered_.Planned(step); }
  [[nodiscard]] bool StandsStill() const { return ordered_.StandsStill(); }
  // REQUIRES: ordered().
  [[nodiscard]] bool Before(const Sequence& a, const Sequence& b) const {
    return ordered_.Before(a, b);
  }

  // Puts the list into the order in which requests are offered a batch. Orders that do not look
  // into the tree then renew, now and then, the time of use of the first waiting prefixes.
  void Sort(const StepBuilder& step, SglangRequests& requests, RadixCache& cache);

 private:
  struct Rank {
    std::int64_t first = 0;
    std::int64_t second = 0;
    std::size_t place = 0;  // breaks ties: sorting is stable
    RequestId id{};
  };

  // By priority where that is configured, then by limit or by entry.
  void SortByLimit(const StepBuilder& step, const SglangRequests& requests, bool by_limit);
  void SortByRank();
  void SortByPrefix(const StepBuilder& step, SglangRequests& requests, RadixCache& cache);
  [[nodiscard]] bool SharedInList(const Sequence& sequence, std::int32_t hit_tokens);
  void Refresh(const StepBuilder& step, RadixCache& cache);

  SglangConfig config_;
  std::size_t shared_keys_;      // that must agree for a prefix to count as shared in the list
  OrderedQueue ordered_;         // empty unless ordered()
  std::vector<RequestId> list_;  // if ordered(): those who were looked at in this step
  std::size_t head_ = 0;
  std::int64_t sorts_ = 0;
  std::vector<Rank> ranks_;
  std::vector<BlockKey> listed_;  // of the present sort: prefixes that another may share
};

}  // namespace twin
