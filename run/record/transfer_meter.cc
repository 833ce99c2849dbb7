#include "run/record/transfer_meter.h"

#include <algorithm>
#include <limits>
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

void TransferMeter::Summarise(Summary& summary) const {
  const auto mean_ms = [this](Duration sum) {
    return count_ > 0 ? Seconds(sum) * 1e3 / static_cast<double>(count_)
                      : std::numeric_limits<double>::quiet_NaN();
  };
  summary.Set("kv_transfers", count_);
  summary.Set("kv_transfer_bytes", static_cast<double>(tokens_) * token_bytes_);
  summary.Set("mean_kv_transfer_wait_ms", mean_ms(wait_.sum));
  summary.Set("max_kv_transfer_wait_ms", Seconds(wait_.max) * 1e3);
  summary.Set("mean_kv_transfer_ms", mean_ms(time_.sum));
  summary.Set("max_kv_transfer_ms", Seconds(time_.max) * 1e3);
}

}  // namespace twin
