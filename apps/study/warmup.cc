#include "apps/study/warmup.h"

#include <algorithm>
#include <limits>

namespace twin::run {

void LatencySeries::OnArrived(TimePoint /*now*/, const RequestLife& /*life*/) {
  ttft_.push_back(std::numeric_limits<double>::quiet_NaN());
  e2el_.push_back(std::numeric_limits<double>::quiet_NaN());
}

void LatencySeries::OnEnded(const RequestLife& life) {
  if (life.status != RequestStatus::kCompleted) return;
  const auto index = static_cast<std::size_t>(life.id);
  ttft_[index] = Seconds(life.first_received() - life.arrival);
  e2el_[index] = Seconds(life.last_received() - life.arrival);
}

MserPoint WarmupOf(std::span<const LatencySeries> replications) {
  std::vector<std::vector<double>> ttft;
  std::vector<std::vector<double>> e2el;
  for (const LatencySeries& series : replications) {
    ttft.push_back(series.ttft());
    e2el.push_back(series.e2el());
  }
  const MserPoint first = Mser5(AveragedSeries(ttft));
  const MserPoint whole = Mser5(AveragedSeries(e2el));
  return {std::max(first.observations, whole.observations), first.too_short || whole.too_short};
}

}  // namespace twin::run
