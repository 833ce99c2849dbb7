// Simulates configurations to rank them: all engines of each, behind their router.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "apps/recommend/candidate.h"
#include "apps/recommend/evaluation_log.h"
#include "apps/recommend/load_search.h"
#include "run/many/bounds.h"
#include "run/many/jackknife.h"
#include "run/record/summary.h"
#include "run/run_control.h"

namespace twin::run {

// Each user of a closed loop sends several requests at least, and the first ones come all at once.
inline constexpr std::int64_t kRequestsPerUser = 5;

// Length of the runs of a rung.
struct RunLength {
  std::int64_t requests = 0;
  std::int64_t warmup = 0;  // left out by the metrics
  double tolerance = 0.01;  // of the largest load
};

// Runs of one configuration with several seeds.
struct Evaluation {
  // The objective, in its unit, and without each seed. Where a load is searched: of the load at
  // which the mean room of all seeds is 0.
  RootOfMean value;
  std::vector<double> values;  // its pseudo-values, by seed
  double limit = 0;            // the largest load; 0: not searched
  std::vector<std::vector<double>>
      metrics;  // at the load of the request: by seed, then MetricKeys()
};

// By configuration.
using Evaluations = std::vector<Evaluation>;

class CandidateEvaluator {
 public:
  // Borrows all. Throws InputError (usage): bounds or a load that are not valid.
  CandidateEvaluator(const CandidateSpace& space, int jobs, RunControl& control);

  // Takes evaluations from the log where it has them, and adds all others. Borrows it.
  void UseLog(EvaluationLog* log) { log_ = log; }

  [[nodiscard]] const std::vector<MetricBound>& bounds() const { return bounds_; }
  // Metrics of an Evaluation: the metrics of the bounds first, in their order.
  [[nodiscard]] const std::vector<std::string>& MetricKeys() const { return keys_; }
  [[nodiscard]] std::size_t KeyIndex(const std::string& metric) const;
  [[nodiscard]] const LoadAxis& axis() const { return axis_; }
  // "requests/s", "users", "ms", "per 1,000 requests", "per hour", or "devices".
  [[nodiscard]] std::string ValueUnit() const;
  [[nodiscard]] bool LowerIsBetter() const;
  // The load of the request in requests/s or users.
  [[nodiscard]] double AskedLoad() const { return axis_.own * rate_per_load_; }
  [[nodiscard]] std::int64_t runs() const { return runs_; }
  // Means of the workload's requests, tokens. REQUIRES: FullLength() was called.
  [[nodiscard]] double MeanPromptTokens() const { return mean_prompt_tokens_; }
  [[nodiscard]] double MeanOutputTokens() const { return mean_output_tokens_; }

  // The candidate at the load of the request.
  [[nodiscard]] ExperimentConfig ExperimentOf(const Candidate& candidate,
                                              const RunLength& length) const;

  // The length of full runs: as the request says, else 20 times the requests that fill the largest
  // KV cache. Runs one configuration to learn the lengths of requests. Throws SearchStopped, as the
  // functions below do.
  RunLength FullLength(const std::vector<Candidate>& candidates);

  // For each configuration, why it can never satisfy the bounds; empty if it may. The reasons: its
  // bounds hold at no load, or it refuses requests that other configurations serve, because their
  // prompts do not fit a step. Runs each configuration at a load that hardly keeps a device busy.
  std::vector<std::string> RejectInfeasible(const std::vector<Candidate>& candidates);

  // Whether the workload has as many requests as runs of this length, which only a trace may lack.
  // Runs the candidate once for a trace.
  [[nodiscard]] bool HasRequests(const Candidate& candidate, const RunLength& length);

  // The fewest replicas with which the candidate, which has the most, keeps the bounds at the load
  // of the request, with one seed; or why the most do not keep them. `make` gives the candidate
  // with another number of replicas. Adds its runs to `runs`. Throws SearchStopped.
  [[nodiscard]] std::variant<std::int32_t, std::string> FewestReplicas(
      const Candidate& most, const std::function<Candidate(std::int32_t)>& make,
      const RunLength& length, RunControl& control, std::int64_t& runs) const;
  // Counts runs that were made by a const function.
  void AddRuns(std::int64_t runs) { runs_ += runs; }

  // Runs every configuration with the seeds first..first + count - 1, in parallel; the same seeds
  // for all. Each search for a largest load tries one load with all seeds at a time. `starts`:
  // where the largest loads are expected; empty: where one seed finds them. Results do not depend
  // on the number of threads. Throws what a run throws.
  Evaluations Evaluate(std::span<const Candidate* const> candidates, std::uint64_t first_seed,
                       std::size_t count, const RunLength& length, std::span<const double> starts);

 private:
  struct Task {
    std::size_t candidate = 0;
    double load = 0;
  };
  // Runs of one configuration, by load, then seed.
  using LoadRuns = std::map<double, std::vector<LoadRun>>;
  [[nodiscard]] bool Searches() const;
  // Runs each task with `count` seeds.
  void RunTasks(const std::vector<Task>& tasks, std::span<const Candidate* const> candidates,
                std::uint64_t first_seed, std::size_t count, const RunLength& length,
                std::vector<LoadRuns>& made);
  [[nodiscard]] std::string LogKey(const Candidate& candidate, double load, std::uint64_t seed,
                                   const RunLength& length) const;
  // From the log, if it is there.
  [[nodiscard]] LoadRun RunOnce(const Candidate& candidate, double load, std::uint64_t seed,
                                const RunLength& length, RunControl& control);
  // The next load that a search needs, or the largest one at which the bounds hold.
  struct SearchStep {
    double load = 0;
    bool found = false;
  };
  [[nodiscard]] SearchStep Continued(const LoadRuns& made, const RunLength& length,
                                     double start) const;
  [[nodiscard]] Evaluation EvaluationOf(const Candidate& candidate, const LoadRuns& made,
                                        double limit) const;
  [[nodiscard]] Deployment AtLoad(const Candidate& candidate, double load,
                                  const RunLength& length) const;
  // Summary of one run. Adds 1 to `runs`.
  [[nodiscard]] Summary Simulated(const Candidate& candidate, double load, std::uint64_t seed,
                                  const RunLength& length, RunControl& control,
                                  std::int64_t& runs) const;
  // By bound; NaN: its metric has no value.
  [[nodiscard]] std::vector<double> RoomsOf(const Summary& summary) const;
  [[nodiscard]] double MetricOf(const Summary& summary, const std::string& key) const;
  [[nodiscard]] double ValueAt(const Candidate& candidate, double limit) const;

  const RecommendConfig& request_;
  const int jobs_;
  RunControl& control_;
  LoadAxis axis_;
  std::vector<MetricBound> bounds_;
  std::vector<std::string> keys_;
  double rate_per_load_ = 1;  // requests/s of a trace at scale 1; else 1
  double mean_prompt_tokens_ = 0;
  double mean_output_tokens_ = 0;
  std::int64_t requests_available_ = 0;  // in a trace; 0: no limit
  EvaluationLog* log_ = nullptr;
  std::int64_t runs_ = 0;
};

}  // namespace twin::run
