// A router's memory of the prompts that it sent: an approximation of the replicas' caches.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/ids.h"
#include "core/prefix_keys.h"
#include "core/time.h"

namespace twin {

// For each replica the radix tree of the prompts sent to it, one node per block. A key stands for
// its block and everything before it, so that the trees of all replicas are one table from keys to
// the replicas that have them.
//
// Trees may grow; every `interval` trees of more than `size_max` nodes are cut to that size, least
// recently used leaves first.
// Cost: Match and Insert take time in proportion to the prompt's blocks and the replicas that share
// them; a cut visits all nodes of all replicas.
class PrefixIndex {
 public:
  PrefixIndex(std::int32_t replicas, std::int64_t size_max, Duration interval);

  // How many leading blocks of the prompt each replica was sent before: all zero but for
  // replicas that share a block. Valid until the next call. Keys that no other request can have end
  // a match.
  [[nodiscard]] const std::vector<std::int32_t>& Match(const BlockKeys& keys);

  // Adds the prompt to the replica's tree, or renews the use of what is there.
  void Insert(std::int32_t replica, const BlockKeys& keys, TimePoint now);

  // Nodes of the replica's tree.
  [[nodiscard]] std::int64_t size(std::int32_t replica) const {
    return sizes_[static_cast<std::size_t>(replica)];
  }
  [[nodiscard]] const std::vector<std::int64_t>& sizes() const { return sizes_; }

 private:
  struct Holder {
    std::int32_t replica = 0;
    std::int32_t depth = 0;   // blocks before it
    std::int64_t latest = 0;  // number of the insertion that used it last
  };

  void Cut(std::int32_t replica);

  std::int64_t size_max_;
  Duration interval_;
  TimePoint next_cut_;
  std::int64_t insertions_ = 0;
  // Looked up by key. A cut walks it, and orders what it finds.
  std::unordered_map<std::uint64_t, std::vector<Holder>> nodes_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int32_t> matched_;
  std::vector<std::int32_t> matching_;  // replicas with a match, to be cleared
};

}  // namespace twin
