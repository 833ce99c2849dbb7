#include "apps/validate/simulated_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "apps/validate/measured_load.h"
#include "run/deployment.h"
#include "run/many/parallel_runs.h"
#include "run/record/run_listener.h"
#include "run/simulation.h"

namespace twin::apps {
namespace {

// Collects the requests of a run, with the times at their clients.
class ClientLog final : public RunListener {
 public:
  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnEnded(const RequestLife& life) override {
    BenchmarkRequest request{.sent = life.arrival,
                             .prompt_tokens = life.prompt_tokens,
                             .output_tokens = life.output_tokens,
                             .completed = life.status == RequestStatus::kCompleted};
    if (request.completed && life.has_tokens()) {
      request.ttft = life.first_received() - life.arrival;
      request.e2e = life.last_received() - life.arrival;
      waiting_s += Seconds(life.scheduled - life.reached);
      prefill_s += Seconds(life.first_token - life.scheduled);
    }
    requests.push_back(std::move(request));
  }

  std::vector<BenchmarkRequest> requests;
  double waiting_s = 0;  // of all that completed
  double prefill_s = 0;
};

// Adds up the steps of a run. It takes no streaks: their plans do not hold the queue of each step.
class StepLog final : public RunListener {
 public:
  explicit StepLog(std::int32_t replicas) : ends_(static_cast<std::size_t>(replicas)) {}

  void OnEnded(const RequestLife& life) override {
    if (life.status == RequestStatus::kCompleted) ++steps.completed;
  }
  void OnStepEnded(const EndedStep& step) override {
    const StepPlan& plan = step.plan;
    TimePoint& end = ends_.at(static_cast<std::size_t>(plan.replica));
    const double seconds = Seconds(step.finished - std::max(end, step.planned));
    end = step.finished;
    if (plan.totals.tokens() == 0) return;
    ++(plan.totals.prefill_items > 0 ? steps.prompt_steps : steps.decode_steps);
    steps.decodes += plan.totals.decode_items;
    steps.prompt_tokens += plan.totals.prefill_tokens;
    steps.seconds += seconds;
    steps.waiting_s += seconds * plan.waiting;
    steps.prefill_s += seconds * static_cast<double>(plan.totals.prefill_items);
    steps.waiting_max = std::max<std::int64_t>(steps.waiting_max, plan.waiting);
  }

  SimulatedSteps steps;

 private:
  std::vector<TimePoint> ends_;  // of the latest step, by replica
};

// Passes warnings on, and asks to stop; progress is the caller's.
class FirstWarnings final : public run::RunControl {
 public:
  FirstWarnings(run::RunControl& outer, bool is_first) : outer_(outer), is_first_(is_first) {}
  void OnWarning(const std::string& text) override {
    if (is_first_) outer_.OnWarning(text);
  }
  [[nodiscard]] bool StopRequested() const override { return outer_.StopRequested(); }

 private:
  run::RunControl& outer_;
  bool is_first_;
};

SimulatedClients SimulateOne(const ExperimentConfig& experiment, run::CostCache& costs,
                             run::RunControl& control) {
  const run::Deployment deployment = run::Resolve(experiment, costs);
  ClientLog log;
  const Summary summary =
      run::Simulate(deployment, control, {.listeners = {&log}, .observers = {}}).summary;
  SimulatedClients clients;
  clients.requests = CompletedOf(log.requests);
  clients.lost = static_cast<std::int64_t>(log.requests.size() - clients.requests.size());
  if (const auto completed = static_cast<double>(clients.requests.size()); completed > 0) {
    clients.waiting_ms = 1e3 * log.waiting_s / completed;
    clients.prefill_ms = 1e3 * log.prefill_s / completed;
  }
  for (const char* statistic : run::kClientStatistics) {
    const std::string key = fmt::format("{}_itl_ms", statistic);
    const double value = summary.Find(key) == nullptr ? std::nan("") : summary.Number(key);
    if (std::isfinite(value)) clients.itl[key] = value;
  }
  return clients;
}

}  // namespace

run::MetricValues SimulatedClients::Values() const {
  run::MetricValues values = run::ClientMetrics(requests).Values();
  values.insert(itl.begin(), itl.end());
  values.merge(run::ThroughputOf(requests));
  return values;
}

std::vector<SimulatedClients> SimulateClients(const std::vector<ExperimentConfig>& experiments,
                                              run::CostCache& costs, run::RunControl& control) {
  std::vector<SimulatedClients> all(experiments.size());
  std::uint64_t done = 0;
  run::RunInParallel(
      experiments.size(), 0, control,
      [&](std::size_t i, run::RunControl& inner) {
        FirstWarnings first(inner, i == 0);
        all[i] = SimulateOne(experiments[i], costs, first);
      },
      [&](std::size_t) { control.OnProgress("simulations", ++done, experiments.size()); });
  control.OnProgressEnd();
  run::EndIfStopped(control);
  return all;
}

SimulatedSteps SimulateSteps(const ExperimentConfig& experiment, run::CostCache& costs,
                             run::RunControl& control) {
  const run::Deployment deployment = run::Resolve(experiment, costs);
  FirstWarnings silent(control, false);
  StepLog log(deployment.world.replicas);
  run::Simulate(deployment, silent, {.listeners = {&log}, .observers = {}});
  run::EndIfStopped(control);
  return log.steps;
}

}  // namespace twin::apps
