#include "apps/study/point_runner.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "core/input_error.h"
#include "core/printable.h"
#include "run/many/batch_means.h"
#include "run/process_use.h"
#include "run/record/run_listener.h"
#include "run/server_differences.h"
#include "run/simulation.h"

namespace twin::run {
namespace {

// Latencies of a run by order of arrival, in seconds; NaN for requests that did not complete.
// Memory: 16 bytes per request.
class LatencySeries : public RunListener {
 public:
  void OnArrived(TimePoint /*now*/, const RequestLife& /*life*/) override {
    ttft_.push_back(std::numeric_limits<double>::quiet_NaN());
    e2el_.push_back(std::numeric_limits<double>::quiet_NaN());
  }
  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnEnded(const RequestLife& life) override {
    if (life.status != RequestStatus::kCompleted) return;
    const auto index = static_cast<std::size_t>(life.id);
    ttft_[index] = Seconds(life.first_received() - life.arrival);
    e2el_[index] = Seconds(life.last_received() - life.arrival);
  }

  [[nodiscard]] const std::vector<double>& ttft() const { return ttft_; }
  [[nodiscard]] const std::vector<double>& e2el() const { return e2el_; }

 private:
  std::vector<double> ttft_;
  std::vector<double> e2el_;
};

// The warm-up of a point from runs of all its replications, by MSER-5: the larger one of the
// warm-up of the averaged times to first token and that of the averaged end-to-end latencies.
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

// Whether a metric describes the process, or is equal in every row.
bool IsOfProcess(std::string_view name) { return NamesProcessUse(name) || name == "interrupted"; }

std::int64_t RequestsOfShare(double share, std::int64_t requests) {
  return static_cast<std::int64_t>(share * static_cast<double>(requests));
}

}  // namespace

std::shared_ptr<PointRunner::Shared> PointRunner::Find(std::size_t point) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Shared>& shared = shared_[point];
  if (shared == nullptr) shared = std::make_shared<Shared>();
  const std::shared_ptr<Shared> found = shared;
  while (shared_.begin()->first + points_in_flight_ < point) shared_.erase(shared_.begin());
  return found;
}

std::shared_ptr<PointRunner::SharedWarmup> PointRunner::FindSharedWarmup(std::size_t combination) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<SharedWarmup>& warmup = warmups_[combination];
  if (warmup == nullptr) warmup = std::make_shared<SharedWarmup>();
  const std::shared_ptr<SharedWarmup> found = warmup;
  const bool alone = study_.points() == study_.combinations();
  while (alone && warmups_.begin()->first + points_in_flight_ < combination)
    warmups_.erase(warmups_.begin());
  return found;
}

Deployment PointRunner::Make(std::size_t point) {
  const ExperimentConfig config = study_.ConfigOf(point);
  if (!IsSimulated(config.world)) {
    throw InputError(InputError::Kind::kUsage, "world",
                     "is not simulated; allowed in a study: simulated worlds");
  }
  Deployment deployment = Resolve(config, costs_);
  if (UsesMser()) deployment.config.metrics.head_share = 0;  // the rule decides alone
  return deployment;
}

void PointRunner::MakeOnce(std::size_t point, Shared& shared, RunControl& control) {
  const std::lock_guard lock(shared.making);
  if (std::exchange(shared.made, true)) return;
  try {
    shared.deployment = Make(point);
    for (const std::string& line : ServerDifferences(shared.deployment.config)) {
      control.OnWarning(line);
    }
  } catch (const std::exception& error) {
    shared.error = error.what();
  }
}

std::vector<StudyRow> PointRunner::Run(std::size_t point,
                                       std::span<const std::uint32_t> replications,
                                       RunControl& control) {
  const std::shared_ptr<Shared> shared = Find(point);
  MakeOnce(point, *shared, control);
  std::string error = shared->error;
  Warmup warmup;
  Deployment cut;  // of this call alone
  if (error.empty() && UsesMser()) {
    try {
      const std::optional<Warmup> found = WarmupOfPoint(point, control);
      if (!found) return {};
      warmup = *found;
      cut = shared->deployment;
      cut.warmup_requests = static_cast<std::uint64_t>(warmup.requests);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  }
  const Deployment& deployment = UsesMser() ? cut : shared->deployment;
  std::vector<StudyRow> rows;
  for (const std::uint32_t replication : replications) {
    StudyRow row{.id = {point, replication}, .seed = study_.SeedOf(replication)};
    row.error = error;
    if (error.empty() && !RunRow(deployment, warmup, row, control)) break;
    row.error = Printable(row.error, kMessageBytesMax);
    rows.push_back(std::move(row));
  }
  return rows;
}

// False if `control` asked to stop.
bool PointRunner::RunRow(const Deployment& deployment, const Warmup& warmup, StudyRow& row,
                         RunControl& control) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    const RunOutcome outcome = RunOnce(WithSeed(deployment, row.seed), row, control);
    if (outcome.interrupted) return false;
    for (const SummaryEntry& entry : outcome.summary.entries()) {
      if (!IsOfProcess(entry.name)) row.summary.Set(entry.name, entry.value);
    }
    std::int64_t left_out = warmup.requests;
    std::string rule = warmup.rule;
    const RunMetricsConfig& metrics = deployment.config.metrics;
    if (!UsesMser() && metrics.head_share > 0) {
      left_out = RequestsOfShare(metrics.head_share, deployment.config.workload.requests);
      rule = "head_share";
    }
    row.summary.Set("warmup_requests", left_out);
    row.summary.Set("warmup_rule", rule);
  } catch (const std::exception& error) {
    row.summary = Summary();
    row.error = error.what();
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  row.wall_seconds = taken.count();
  return true;
}

RunOutcome PointRunner::RunOnce(const Deployment& deployment, const StudyRow& row,
                                RunControl& control) {
  if (options_.runs_folder.empty() || !study_.KeepsRuns(row.id.point))
    return Simulate(deployment, control);
  RunOutcome whole = RunSimulation(deployment.config, RunFolderOf(options_.runs_folder, row.id),
                                   options_.command_line, control, 1, &costs_);
  // A run directory is that of its configuration, which knows no warm-up found by a rule.
  return whole.interrupted || deployment.warmup_requests == 0 ? whole
                                                              : Simulate(deployment, control);
}

std::optional<PointRunner::Warmup> PointRunner::WarmupOfPoint(std::size_t point,
                                                              RunControl& control) {
  const std::size_t combination = point % study_.combinations();
  const std::shared_ptr<SharedWarmup> shared = FindSharedWarmup(combination);
  const std::lock_guard lock(shared->making);
  if (!shared->found) shared->found = WarmupOfCombination(combination, control);
  return shared->found;
}

// The largest of the bases that run: compared points leave out the same requests. Nothing is left
// out if one of them is too short.
std::optional<PointRunner::Warmup> PointRunner::WarmupOfCombination(std::size_t combination,
                                                                    RunControl& control) {
  Warmup largest{.requests = 0, .rule = "mser5"};
  for (std::size_t point = combination; point < study_.points(); point += study_.combinations()) {
    std::optional<Warmup> found;
    try {
      found = WarmupOfDeployment(Make(point), control);
    } catch (const std::exception&) {
      continue;  // its rows say what is wrong with it
    }
    if (!found) return std::nullopt;
    if (found->rule != "mser5") return found;
    largest.requests = std::max(largest.requests, found->requests);
  }
  return largest;
}

// Runs all replications for their latencies.
std::optional<PointRunner::Warmup> PointRunner::WarmupOfDeployment(const Deployment& deployment,
                                                                   RunControl& control) const {
  std::vector<LatencySeries> series(study_.config().replications);
  for (std::uint32_t i = 0; i < study_.config().replications; ++i) {
    const RunOutcome outcome = Simulate(WithSeed(deployment, study_.SeedOf(i)), control,
                                        {.listeners = {&series[i]}, .observers = {}});
    if (outcome.interrupted) return std::nullopt;
  }
  const MserPoint found = WarmupOf(series);
  if (found.too_short) return Warmup{.requests = 0, .rule = "mser5_too_short"};
  return Warmup{.requests = static_cast<std::int64_t>(found.observations), .rule = "mser5"};
}

}  // namespace twin::run
