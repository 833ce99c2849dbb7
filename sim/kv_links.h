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

  bool operator==(const LinkConfig&) const = default;
};

// Each replica has one port that sends and one that receives, of equal bandwidth. A transfer
// occupies the port of its source and that of its target while its bytes are sent; others wait
// for them in the order in which they began. Between different replicas transfers pass side by
// side.
class KvLinks {
 public:
  // `token_bytes`: keys and values of one token, of all layers and ranks.
  KvLinks(const LinkConfig& config, double token_bytes, std::int32_t replicas);

  struct Span {
    TimePoint begin;  // the first byte is sent
    TimePoint end;    // the transfer has ended
  };
  // REQUIRES: `now` never decreases.
  Span Send(TimePoint now, const KvTransfer& transfer);

 private:
  struct Port {
    TimePoint sending_until = kTimeZero;
    TimePoint receiving_until = kTimeZero;
  };

  Duration latency_;
  double token_seconds_;
  std::vector<Port> ports_;  // by replica
};

}  // namespace twin::sim
