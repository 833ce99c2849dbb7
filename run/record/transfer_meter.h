// Copies of keys and values between replicas.
#pragma once

#include <cstdint>
#include <map>

#include "core/ids.h"
#include "core/time.h"
#include "run/record/metric_writer.h"
#include "run/record/run_observer.h"

namespace twin {

// Counts transfers that have ended. Memory: constant per transfer under way.
class TransferMeter : public RunObserver {
 public:
  // `token_bytes`: keys and values of one token.
  explicit TransferMeter(double token_bytes) : token_bytes_(token_bytes) {}

  void OnInstant(const Instant& instant) override;
  void OnPlan(TimePoint /*now*/, const StepPlan& /*plan*/) override {}
  void OnTransfer(TimePoint now, const KvTransfer& transfer) override;

  void Summarise(const MetricWriter& out) const;

 private:
  struct UnderWay {
    TimePoint computed;
    std::int32_t tokens = 0;
  };
  struct Total {
    Duration sum{0};
    Duration max{0};

    void Add(Duration duration);
  };

  double token_bytes_;
  std::map<RequestId, UnderWay> under_way_;
  std::int64_t count_ = 0;
  std::int64_t tokens_ = 0;
  Total wait_;
  Total time_;
};

}  // namespace twin
