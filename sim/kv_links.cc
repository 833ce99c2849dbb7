#include "sim/kv_links.h"

#include <algorithm>
#include <cstddef>

namespace twin::sim {

KvLinks::KvLinks(const LinkConfig& config, double token_bytes, std::int32_t replicas)
    : latency_(DurationFromSeconds(config.latency_us * 1e-6)),
      token_seconds_(config.bandwidth_gbps > 0 ? token_bytes * 8 / (config.bandwidth_gbps * 1e9)
                                               : 0),
      ports_(static_cast<std::size_t>(replicas)) {}

KvLinks::Span KvLinks::Send(TimePoint now, const KvTransfer& transfer) {
  TimePoint& sending = ports_[static_cast<std::size_t>(transfer.from)].sending_until;
  TimePoint& receiving = ports_[static_cast<std::size_t>(transfer.to)].receiving_until;
  const TimePoint begin = std::max({now, sending, receiving});
  const TimePoint sent = begin + DurationFromSeconds(transfer.copied_tokens() * token_seconds_);
  sending = receiving = sent;
  return {begin, sent + latency_};
}

}  // namespace twin::sim
