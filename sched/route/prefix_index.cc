#include "sched/route/prefix_index.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace twin {

PrefixIndex::PrefixIndex(std::int32_t replicas, std::int64_t size_max, Duration interval)
    : size_max_(size_max),
      interval_(interval),
      next_cut_(kTimeZero + interval),
      sizes_(static_cast<std::size_t>(replicas)),
      matched_(static_cast<std::size_t>(replicas)) {}

const std::vector<std::int32_t>& PrefixIndex::Match(const BlockKeys& keys) {
  for (const std::int32_t replica : matching_) matched_[static_cast<std::size_t>(replica)] = 0;
  matching_.clear();
  for (std::size_t depth = 0; depth < keys.size() && !IsPrivate(keys[depth]); ++depth) {
    const auto node = nodes_.find(static_cast<std::uint64_t>(keys[depth]));
    if (node == nodes_.end()) break;
    bool any = false;
    for (const Holder& holder : node->second) {
      std::int32_t& matched = matched_[static_cast<std::size_t>(holder.replica)];
      if (matched != static_cast<std::int32_t>(depth)) continue;
      if (++matched == 1) matching_.push_back(holder.replica);
      any = true;
    }
    if (!any) break;
  }
  return matched_;
}

void PrefixIndex::Insert(std::int32_t replica, const BlockKeys& keys, TimePoint now) {
  if (now >= next_cut_) {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] > size_max_) Cut(static_cast<std::int32_t>(i));
    }
    next_cut_ = now + interval_;
  }
  ++insertions_;
  for (std::size_t depth = 0; depth < keys.size() && !IsPrivate(keys[depth]); ++depth) {
    std::vector<Holder>& holders = nodes_[static_cast<std::uint64_t>(keys[depth])];
    const auto found = std::find_if(holders.begin(), holders.end(),
                                    [replica](const Holder& h) { return h.replica == replica; });
    if (found != holders.end()) {
      found->latest = insertions_;
      continue;
    }
    holders.push_back({replica, static_cast<std::int32_t>(depth), insertions_});
    ++sizes_[static_cast<std::size_t>(replica)];
  }
}

// An insertion uses a whole path, so that a node was used no later than the nodes before it: the
// order (least recently used, deepest) takes leaves only.
void PrefixIndex::Cut(std::int32_t replica) {
  std::vector<std::tuple<std::int64_t, std::int32_t, std::uint64_t>> order;
  for (const auto& [key, holders] : nodes_) {
    for (const Holder& holder : holders) {
      if (holder.replica == replica) order.emplace_back(holder.latest, -holder.depth, key);
    }
  }
  const auto surplus = static_cast<std::ptrdiff_t>(order.size()) - size_max_;
  std::nth_element(order.begin(), order.begin() + surplus, order.end());
  order.resize(static_cast<std::size_t>(surplus));
  for (const auto& [latest, depth, key] : order) {
    const auto node = nodes_.find(key);
    std::erase_if(node->second, [replica](const Holder& h) { return h.replica == replica; });
    if (node->second.empty()) nodes_.erase(node);
  }
  sizes_[static_cast<std::size_t>(replica)] = size_max_;
}

}  // namespace twin
