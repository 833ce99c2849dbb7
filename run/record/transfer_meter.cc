#include "run/record/transfer_meter.h"

#include <algorithm>
#include <variant>

namespace twin {

void TransferMeter::Total::Add(Duration duration) {
  sum += duration;
  max = std::max(max, duration);
}

void TransferMeter::OnTransfer(TimePoint /*now*/, const KvTransfer& transfer) {
  under_way_[transfer.request] = {transfer.computed, transfer.copied_tokens()};
}

void TransferMeter::OnInstant(const Instant& instant) {
  for (const Event& event : instant.events) {
    const auto* const finished = std::get_if<TransferFinished>(&event);
    if (finished == nullptr) break;
    const auto begun = under_way_.find(finished->request);
    ++count_;
    tokens_ += begun->second.tokens;
    wait_.Add(finished->started - begun->second.computed);
    time_.Add(instant.now - finished->started);
    under_way_.erase(begun);
  }
}

void TransferMeter::Summarise(const MetricWriter& out) const {
  const auto mean_ms = [this](Duration sum) { return Ratio(Seconds(sum) * 1e3, count_); };
  out.Add("kv_transfers", count_, "transfers",
          "copies of keys and values from the replica that prefilled a request to the one that "
          "decodes it; with system.disaggregation only");
  out.Add("kv_transfer_bytes", static_cast<double>(tokens_) * token_bytes_, "bytes",
          "bytes copied in all; with system.disaggregation only",
          "copied tokens * KV bytes per token");
  out.Add("mean_kv_transfer_wait_ms", mean_ms(wait_.sum), "ms",
          "mean time from the first token to the first byte sent: for blocks at the target and for "
          "the network; with system.disaggregation only");
  out.Add("max_kv_transfer_wait_ms", Seconds(wait_.max) * 1e3, "ms", "maximum of the same");
  out.Add("mean_kv_transfer_ms", mean_ms(time_.sum), "ms",
          "mean time from the first byte sent to the end of the transfer; with "
          "system.disaggregation only");
  out.Add("max_kv_transfer_ms", Seconds(time_.max) * 1e3, "ms", "maximum of the same");
}

}  // namespace twin
