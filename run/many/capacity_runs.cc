#include "run/many/capacity_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "core/number_text.h"
#include "core/seed_range.h"
#include "run/many/forked_runs.h"
#include "run/many/packed_json.h"
#include "run/many/parallel_runs.h"
#include "run/record/run_listener.h"
#include "run/server_differences.h"
#include "run/simulation.h"

namespace twin::run {
namespace {

constexpr int kValueDigits = 12;

class ArrivalCount final : public RunListener {
 public:
  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnArrived(TimePoint /*now*/, const RequestLife& /*life*/) override { ++count_; }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  std::int64_t count_ = 0;
};

std::string ValueText(double x, bool whole) {
  return whole ? std::to_string(std::llround(x)) : RoundedText(x, kValueDigits);
}

using Json = nlohmann::ordered_json;

Json JsonOf(const CapacityRun& run) { return {run.values, run.arrived, run.saturated}; }

CapacityRun RunOf(const Json& json) {
  return {.values = json[0].get<std::vector<double>>(),
          .arrived = json[1].get<std::int64_t>(),
          .saturated = json[2].get<bool>()};
}

}  // namespace

CapacityRuns::CapacityRuns(const ExperimentTemplate& experiment, const CapacityQuestion& question,
                           RunControl& control)
    : experiment_(experiment),
      question_(question),
      control_(control),
      whole_(TakesIntegers(question.path)),
      made_(question.replications) {
  const Deployment first = DeploymentAt(Rounded(question.from));
  fork_ = ForkOf(first.config);
  RequireSeeds(first.config.name, first.config.seed, question.replications);
  own_requests_ = first.config.workload.requests;
  requests_ = own_requests_;
}

bool CapacityRuns::IsSaturated(double x) const {
  std::size_t runs_at = 0;
  std::size_t saturated = 0;
  for (const auto& runs : made_) {
    const auto run = runs.find(x);
    if (run == runs.end()) continue;
    ++runs_at;
    if (run->second.saturated) ++saturated;
  }
  return 2 * saturated > runs_at;
}

double CapacityRuns::Rounded(double x) const { return std::stod(ValueText(x, whole_)); }

void CapacityRuns::SetRequests(std::int64_t requests) {
  if (requests == requests_) return;
  requests_ = requests;
  for (auto& runs : made_) runs.clear();
}

std::int64_t CapacityRuns::FewestArrived(double x) const {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (const auto& runs : made_) {
    if (const auto run = runs.find(x); run != runs.end())
      fewest = std::min(fewest, run->second.arrived);
  }
  return fewest;
}

Deployment CapacityRuns::DeploymentAt(double x) {
  const double value = question_.smallest ? -x : x;
  std::vector<std::string> changes = {
      fmt::format("{}={}", question_.path, ValueText(value, whole_))};
  if (requests_ != own_requests_) changes.push_back(fmt::format("workload.requests={}", requests_));
  const ExperimentConfig config = experiment_.With(changes, {});
  if (!IsSimulated(config.world)) {
    throw InputError(InputError::Kind::kUsage, config.name,
                     "does not run in a simulated world; allowed: simulated worlds");
  }
  return Resolve(config, costs_);
}

CapacityRun CapacityRuns::Measure(const Deployment& deployment, std::size_t seed,
                                  RunControl& control) const {
  ArrivalCount arrivals;
  const RunOutcome outcome = Simulate(WithSeed(deployment, deployment.config.seed + seed), control,
                                      {.listeners = {&arrivals}, .observers = {}});
  if (outcome.interrupted) throw SearchStopped{};
  CapacityRun run{.values = {}, .arrived = arrivals.count(), .saturated = false};
  run.saturated = *outcome.summary.Find("saturated") == SummaryValue("yes");
  for (const MetricBound& bound : question_.bounds) {
    if (outcome.summary.Find(bound.metric) == nullptr) {
      throw InputError(
          InputError::Kind::kUsage, bound.metric,
          "the runs have no such metric; request_goodput, good_rate and slo_attainment need slo, "
          "metrics of tenants metrics.by_tenant");
    }
    const double value = outcome.summary.Number(bound.metric);
    if (std::isnan(value) && deployment.traits.delivery == Delivery::kBatchEnd &&
        outcome.summary.Number("completed") > 0) {
      throw InputError(InputError::Kind::kUsage, bound.metric,
                       fmt::format("is undefined with policy {}, whose answers come in one piece: "
                                   "no client can measure a time between tokens",
                                   deployment.traits.name));
    }
    run.values.push_back(JudgedValue(outcome.summary, bound));
  }
  return run;
}

void CapacityRuns::Run(double x, std::size_t seeds) {
  if (control_.StopRequested()) throw SearchStopped{};
  std::vector<std::size_t> missing;
  for (std::size_t seed = 0; seed < seeds; ++seed) {
    if (!Has(x, seed)) missing.push_back(seed);
  }
  if (missing.empty()) return;
  const Deployment deployment = DeploymentAt(x);
  for (const std::string& line : ServerDifferences(deployment.config)) control_.OnWarning(line);
  const auto count = [&](std::size_t /*i*/) {
    ++count_;
    control_.OnProgress("capacity: runs", static_cast<std::uint64_t>(runs()), 0);
  };
  if (fork_ != nullptr) {
    RunInProcesses(
        missing.size(), question_.jobs, control_, fork_,
        [&](std::size_t i, RunControl& inner) {
          return Packed(JsonOf(Measure(deployment, missing[i], inner)));
        },
        [&](std::size_t i, const std::string& bytes) {
          made_[missing[i]][x] = RunOf(Json::from_msgpack(bytes));
          count(i);
        });
  } else {
    RunInParallel(
        missing.size(), question_.jobs, control_,
        [&](std::size_t i, RunControl& stop) {
          made_[missing[i]][x] = Measure(deployment, missing[i], stop);
        },
        count);
  }
  if (control_.StopRequested()) throw SearchStopped{};
}

}  // namespace twin::run
