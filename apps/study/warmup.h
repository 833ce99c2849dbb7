// How many requests at the start of a run are warm-up: MSER-5 over averaged replications.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "run/many/statistics.h"
#include "run/record/run_listener.h"

namespace twin::run {

// Latencies of a run by order of arrival, in seconds; NaN for requests that did not complete.
// Memory: 16 bytes per request.
class LatencySeries : public RunListener {
 public:
  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnEnded(const RequestLife& life) override;

  [[nodiscard]] const std::vector<double>& ttft() const { return ttft_; }
  [[nodiscard]] const std::vector<double>& e2el() const { return e2el_; }

 private:
  std::vector<double> ttft_;
  std::vector<double> e2el_;
};

// The warm-up of a point from runs of all its replications: the larger of those that MSER-5 finds
// in the averaged times to first token and in the averaged end-to-end latencies.
MserPoint WarmupOf(std::span<const LatencySeries> replications);

}  // namespace twin::run
