// Splitwise's cluster-level scheduler: which replica computes the prompt of a request and which one
// decodes it, chosen together when the request arrives.
//
// Each replica is at home in the prompt pool or in the token pool. The prompt goes to the replica
// with the fewest pending tokens, and decoding to the one with the least reserved memory. If that
// replica is loaded, the mixed pool is asked, and if its best replica is loaded, too, a replica of
// the opposite pool moves to the mixed pool. Replicas of the mixed pool do both phases; they go
// home when the last request of the opposite kind has left them. If no pool has a replica left to
// offer, one replica does all of the request.
//
// Sources: Patel et al., ISCA'24, section IV-A; Mutinifni/splitwise-sim, revision 8f99e7dc,
// scheduler.py (MixedPoolScheduler). Field names are the simulator's.
//
// Easy to get wrong:
// - Only the best replica of a pool is asked; if it is loaded, so is the pool.
// - Pending tokens are the prompts that are not computed and one for each request to be decoded,
//   which counts until the request ends.
// - A queue is long only if a prompt waits in it: a large prompt alone makes no queue.
// - A replica may be chosen for the prompt and then for decoding, too: nothing is copied then.
//
// Differences from the simulator: output lengths are not known, so max_output_tokens takes their
// place; equal replicas are taken in the order of their indices; a replica goes home when its
// foreign work is done, as in the paper (in the simulator, when it has no work at all).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/id_window.h"
#include "core/ids.h"
#include "core/time.h"
#include "sched/disaggregation_config.h"
#include "sched/request.h"
#include "sched/route/delayed_news.h"

namespace twin {

struct ReplicaPair {
  std::int32_t prefill = 0;
  std::int32_t decode = 0;  // the same: it does both, and nothing is copied

  bool operator==(const ReplicaPair&) const = default;
};

// Deterministic. Cost of Choose: linear in the number of replicas.
class MixedPools {
 public:
  enum class Place : std::uint8_t { kPrompt, kToken, kMixed };

  // The first `prompt_replicas` replicas are at home in the prompt pool. `blocks`: KV blocks of
  // each replica. Events at replicas are known here after `delay`, requests sent to them at once.
  MixedPools(const MixedPoolConfig& config, std::int32_t prompt_replicas,
             const std::vector<std::int32_t>& blocks, std::int32_t block_size, Duration delay);

  // Counts the request in. REQUIRES: ids rise, and `now` never decreases, here and below.
  ReplicaPair Choose(TimePoint now, const Request& request);

  // Progress of a request that Choose has placed. Ignored for any other request, and if it was
  // reported before.
  void OnPromptBegun(TimePoint now, RequestId id);
  void OnPromptComputed(TimePoint now, RequestId id);
  void OnPromptReleased(TimePoint now, RequestId id);  // its blocks at the prefill replica
  void OnLeft(TimePoint now, RequestId id);

  [[nodiscard]] Place place(std::int32_t replica) const {
    return replicas_[static_cast<std::size_t>(replica)].place;
  }

 private:
  // Load of a replica, or a change of it.
  struct Load {
    std::int64_t prompt_tokens = 0;  // of prompts that are not computed
    std::int32_t prompts = 0;        // not computed
    std::int32_t queued = 0;         // of them, not begun
    std::int32_t decodes = 0;        // requests that decode here, or will
    std::int64_t blocks = 0;         // reserved

    [[nodiscard]] std::int64_t pending_tokens() const { return prompt_tokens + decodes; }
    void Add(const Load& change, std::int32_t sign);
  };
  struct Replica {
    Place home = Place::kPrompt;
    Place place = Place::kPrompt;
    std::int32_t blocks = 0;
    Load load;
  };
  // The load that a request still is for its two replicas.
  struct Booking {
    ReplicaPair pair;
    Load prefill;
    Load decode;
  };
  struct Change {
    std::int32_t replica = 0;
    Load left;
  };

  [[nodiscard]] std::optional<std::int32_t> FindPrompt(Place pool, std::int64_t tokens) const;
  [[nodiscard]] std::optional<std::int32_t> FindDecode(Place pool, std::int64_t blocks) const;
  // The replica with the smallest load in the pool, or among all replicas if `pool` is nullopt.
  template <class LoadOf>
  [[nodiscard]] std::optional<std::int32_t> Least(std::optional<Place> pool, LoadOf load_of) const;
  [[nodiscard]] ReplicaPair ChoosePair(const Request& request, std::int64_t blocks);
  void MoveToMixed(std::optional<std::int32_t> replica);
  void Receive(TimePoint now);
  void SendHome();
  [[nodiscard]] std::int64_t BlocksFor(std::int64_t tokens) const {
    return (tokens + block_size_ - 1) / block_size_;
  }
  void Report(TimePoint now, std::int32_t replica, const Load& left);

  MixedPoolConfig config_;
  std::int32_t block_size_;
  std::vector<Replica> replicas_;
  IdWindow<Booking> bookings_;
  DelayedNews<Change> news_;
};

}  // namespace twin
