// Fairness between tenants: the largest difference in service while both wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/id_window.h"
#include "run/record/metric_writer.h"
#include "run/record/run_listener.h"

namespace twin {

struct FairnessConfig {
  // Units of service charged per token; the defaults are VTC's.
  std::int64_t input_weight = 1;
  std::int64_t output_weight = 2;
};

// The largest difference in service between two tenants over any span of time in which both had
// requests waiting. Service: prompt tokens at their first computation and generated tokens, when
// their step ends.
// Compares the first kTenants tenants in the order of their first arrivals; the summary says how
// many there were. Memory: kTenants^2, and constant per tenant and live request. Cost: per step,
// the square of the number of compared tenants.
// Source: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, section 4.
class FairnessMeter : public RunListener {
 public:
  static constexpr std::size_t kTenants = 32;

  explicit FairnessMeter(const FairnessConfig& config) : config_(config) {}

  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnPlanned(TimePoint now, const StepPlan& plan) override;
  void OnStepEnded(const EndedStep& step) override;
  void OnEnded(const RequestLife& life) override;

  [[nodiscard]] std::int64_t largest_difference() const { return largest_difference_; }

  void Summarise(const MetricWriter& out) const;

 private:
  struct Tenant {
    std::int64_t service = 0;
    std::int64_t waiting = 0;
  };
  struct Entry {
    std::size_t tenant = 0;
    std::int32_t prompt_tokens = 0;
    std::int32_t prompt_served = 0;  // prompt tokens charged so far
    bool waiting = true;
  };
  // Range of the difference in service between two tenants while both are backlogged.
  struct Window {
    bool open = false;
    std::int64_t low = 0;
    std::int64_t high = 0;
  };

  std::size_t PositionOf(std::uint32_t tenant);
  void SetWaiting(RequestId id, bool waiting);
  void Compare();

  FairnessConfig config_;
  std::vector<Tenant> tenants_;                     // in the order of their first arrivals
  std::map<std::uint32_t, std::size_t> positions_;  // in tenants_, by name
  std::vector<Window> windows_ = std::vector<Window>(kTenants * kTenants);
  IdWindow<Entry> entries_;
  std::vector<RequestId> ended_;  // kept until their last step is charged
  std::int64_t largest_difference_ = 0;
};

}  // namespace twin
