// How long keys and values take from one replica to another.
#pragma once

#include <cstdint>
#include <vector>

#include "core/time.h"
#include "sched/kv_transfer.h"

namespace twin::sim {

struct LinkConfig {
  double latency_us = 10;       // from the last byte sent to the end of the transfer
  double bandwidth_gbps = 400;  // gigabits per second of a replica, each way; 0 = unlimited
  bool layer_wise = false;      // a layer is sent while the next ones are computed
  std::int32_t layer_wise_min_tokens = 0;  // shorter prompts are sent when they are computed

  bool operator==(const LinkConfig&) const = default;
};

// Each replica has one port that sends and one that receives, of equal bandwidth. A transfer
// occupies the port of its source and that of its target while its bytes are sent; further
// transfers wait for the ports in the order in which they began. Between different replicas
// transfers pass side by side.
//
// Layer by layer, a transfer of time T whose prompt is computed from s to c, in L layers, ends at
// max(c + T / L, s + (c - s) / L + T): when the last layer has followed its computation, or all
// have followed the first. The prompts of a step are sent one after the other in each layer. This
// is the most that the method can gain: it takes the target to be known, and to have room, at s. A
// transfer that begins later, because the target had no room, counts as sent as far as it could be.
class KvLinks {
 public:
  // `token_bytes`: keys and values of one token, of all layers and ranks. `layers` >= 1.
  KvLinks(const LinkConfig& config, double token_bytes, std::int32_t layers, std::int32_t replicas);

  struct Span {
    TimePoint begin;  // the first byte is sent; not before now
    TimePoint end;    // the transfer has ended
  };
  // `prefill_began`: when the computation of the prompt did. REQUIRES: `now` never decreases.
  Span Send(TimePoint now, const KvTransfer& transfer, TimePoint prefill_began);

  [[nodiscard]] bool layer_wise() const { return config_.layer_wise; }

 private:
  // One direction of a replica.
  struct Port {
    TimePoint end = kTimeZero;   // of the latest transfer
    TimePoint busy = kTimeZero;  // as `end`, had it sent without waiting for layers
  };

  LinkConfig config_;
  Duration latency_;
  double token_seconds_;
  std::int32_t layers_;
  std::vector<Port> senders_;  // by replica
  std::vector<Port> receivers_;
};

}  // namespace twin::sim
