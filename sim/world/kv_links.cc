#include "sim/world/kv_links.h"

#include <algorithm>
#include <cstddef>

namespace twin::sim {

KvLinks::KvLinks(const LinkConfig& config, double token_bytes, std::int32_t layers,
                 std::int32_t replicas)
    : config_(config),
      latency_(DurationFromSeconds(config.latency_us * 1e-6)),
      token_seconds_(config.bandwidth_gbps > 0 ? token_bytes * 8 / (config.bandwidth_gbps * 1e9)
                                               : 0),
      layers_(layers),
      senders_(static_cast<std::size_t>(replicas)),
      receivers_(static_cast<std::size_t>(replicas)) {}

KvLinks::Span KvLinks::Send(TimePoint now, const KvTransfer& transfer, TimePoint prefill_began) {
  Port& sender = senders_[static_cast<std::size_t>(transfer.from)];
  Port& receiver = receivers_[static_cast<std::size_t>(transfer.to)];
  const Duration time = DurationFromSeconds(transfer.copied_tokens() * token_seconds_);
  const TimePoint free = std::max(sender.end, receiver.end);
  TimePoint begin = std::max(now, free);
  Port port{begin + time, begin + time};
  if (config_.layer_wise && transfer.tokens >= config_.layer_wise_min_tokens) {
    const TimePoint first_layer = prefill_began + (transfer.computed - prefill_began) / layers_;
    begin = std::max({first_layer, sender.busy, receiver.busy});
    port.busy = begin + time;
    port.end = std::max(port.busy, std::max(transfer.computed, free) + time / layers_);
  }
  sender = receiver = port;
  return {std::max(now, begin), std::max(now, port.end) + latency_};
}

}  // namespace twin::sim
