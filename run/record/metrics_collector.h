// Collects all metrics of a run while it goes on, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "run/record/metric_writer.h"
#include "run/record/request_metrics.h"
#include "run/record/run_listener.h"
#include "run/record/step_work.h"
#include "run/record/summary.h"

namespace twin {

struct MetricsConfig {
  ServiceGoal goal;
  Duration stall_threshold = Duration{100'000'000};  // a longer ITL is a stall
  std::int32_t kv_blocks = 0;                        // usable device blocks of all replicas
  std::int32_t replicas = 1;
  bool by_tenant = false;     // also summarise by tenant
  bool boundary = false;      // also summarise the engine's side
  bool client_waits = false;  // clients have a limit of requests in flight, for which they wait
  bool streamed = true;       // clients get tokens one by one; false: answers in one piece

  [[nodiscard]] RequestMetrics::Config RequestConfig() const {
    return {goal, boundary, client_waits, streamed};
  }
};

// Largest number of tenants that a summary names: the tenants with the most requests, the smaller
// number first among equals. All remaining tenants together are the entry tenant_others.
inline constexpr std::size_t kTenantsNamed = 20;

// Requests and ITLs count if their request lies in the measured window of the RequestTracker;
// steps, load and time always count. Averages over time run from the first instant to the latest.
//
//   preemption overhead  recomputed tokens / computed tokens (padding counts as neither)
//   busy                 the union of all steps' times, as a share of the run; with several
//                        replicas the mean over them
//   KV share             blocks held or reserved / usable blocks
//   stalls               ITLs longer than the threshold; undefined unless streamed
//
// Memory: constant per tenant. All keys: metric_catalog.h; definitions of request metrics:
// request_metrics.h.
class MetricsCollector : public RunListener {
 public:
  explicit MetricsCollector(const MetricsConfig& config)
      : config_(config),
        requests_(config.RequestConfig()),
        work_(static_cast<std::size_t>(config.replicas)),
        load_{.replicas = config.replicas, .kv_blocks = config.kv_blocks} {}

  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnGaps(TimePoint now, Duration gap, std::int64_t count) override;
  void OnStepEnded(const EndedStep& step) override;
  void OnLoad(TimePoint from, TimePoint to, const Load& load) override;
  void OnEnded(const RequestLife& life) override;

  // All metrics up to now. Names follow vLLM's benchmark where it has one.
  [[nodiscard]] Summary Summarise() const;
  void Summarise(const MetricWriter& out) const;

 private:
  RequestMetrics& Tenant(std::uint32_t tenant);
  void SummariseTenants(const MetricWriter& out) const;
  [[nodiscard]] RateWindow Window() const { return window_.Until(load_.until); }

  MetricsConfig config_;
  RequestMetrics requests_;
  std::map<std::uint32_t, RequestMetrics> tenants_;
  RateWindow window_;
  std::int64_t stalls_ = 0;
  std::vector<StepWork> work_;  // by replica
  LoadOverTime load_;
};

}  // namespace twin
