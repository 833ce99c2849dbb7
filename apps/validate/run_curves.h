// The data of the figures of a report: latencies of the requests, and load over time.
#pragma once

#include <vector>

#include "run/record/run_listener.h"

namespace twin::run {

class RunCurves : public RunListener {
 public:
  struct LoadPoint {
    double seconds = 0;  // time from which the load had this value
    Load load;
  };

  void OnLoad(TimePoint from, TimePoint to, const Load& load) override;
  void OnEnded(const RequestLife& life) override;

  // Of completed requests in the measured window, in the order of completion.
  [[nodiscard]] const std::vector<double>& ttft_ms() const { return ttft_ms_; }
  [[nodiscard]] const std::vector<double>& tpot_ms() const { return tpot_ms_; }
  [[nodiscard]] const std::vector<double>& e2el_ms() const { return e2el_ms_; }
  [[nodiscard]] const std::vector<LoadPoint>& load() const { return load_; }

 private:
  std::vector<double> ttft_ms_;
  std::vector<double> tpot_ms_;  // of requests with at least two tokens
  std::vector<double> e2el_ms_;
  std::vector<LoadPoint> load_;
};

}  // namespace twin::run
