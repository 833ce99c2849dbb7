#include "lab/study/point_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <variant>

#include "core/input_error.h"
#include "core/printable.h"
#include "lab/simulation.h"
#include "lab/study/warmup.h"

namespace twin::lab {
namespace {

// Of the process, or the same in every row.
bool IsOfProcess(std::string_view name) {
  return name == "cpu_seconds" || name == "peak_rss_mib" || name == "interrupted";
}

Deployment WithSeed(const Deployment& deployment, std::uint64_t seed) {
  Deployment seeded = deployment;
  seeded.config.seed = seed;
  seeded.world.seed = seed;
  return seeded;
}

std::int64_t RequestsOfShare(double share, std::int64_t requests) {
  return static_cast<std::int64_t>(share * static_cast<double>(requests));
}

}  // namespace

std::shared_ptr<PointRunner::Shared> PointRunner::Find(std::size_t point) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Shared>& shared = shared_[point];
  if (shared == nullptr) shared = std::make_shared<Shared>();
  while (shared_.begin()->first + apart_ < point) shared_.erase(shared_.begin());
  return shared;
}

void PointRunner::Make(std::size_t point, Shared& shared) {
  const ExperimentConfig config = study_.ConfigOf(point);
  if (!std::holds_alternative<SimulatedWorldConfig>(config.world)) {
    throw InputError(InputError::Kind::kUsage, "world",
                     "is real; allowed in a study: simulated worlds");
  }
  shared.deployment = Resolve(config, costs_);
}

std::vector<StudyRow> PointRunner::Run(std::size_t point,
                                       std::span<const std::uint32_t> replications,
                                       RunControl& control) {
  const std::shared_ptr<Shared> shared = Find(point);
  Warmup warmup;
  {
    const std::lock_guard lock(shared->making);
    if (!shared->made) {
      try {
        Make(point, *shared);
        if (study_.config().warmup == WarmupRule::kMser5) {
          if (!FindWarmup(shared->deployment, warmup, control)) return {};
        }
      } catch (const std::exception& error) {
        shared->error = error.what();
      }
      shared->made = study_.config().warmup != WarmupRule::kMser5;
    }
  }
  std::vector<StudyRow> rows;
  for (const std::uint32_t replication : replications) {
    StudyRow row{.id = {point, replication}, .seed = study_.SeedOf(replication)};
    row.error = shared->error;
    if (row.error.empty() && !RunRow(shared->deployment, warmup, row, control)) break;
    row.error = Printable(row.error, kMessageBytesMax);
    rows.push_back(std::move(row));
  }
  return rows;
}

// False if `control` asked to stop.
bool PointRunner::RunRow(const Deployment& deployment, const Warmup& warmup, StudyRow& row,
                         RunControl& control) const {
  const auto begin = std::chrono::steady_clock::now();
  try {
    const Deployment seeded = WithSeed(deployment, row.seed);
    const bool keeps = !options_.runs_folder.empty() && study_.KeepsRuns(row.id.point);
    const RunOutcome outcome =
        keeps ? RunSimulation(
                    seeded.config,
                    options_.runs_folder / fmt::format("{}_{}", row.id.point, row.id.replication),
                    options_.command_line, control)
              : Simulate(seeded, control);
    if (outcome.interrupted) return false;
    for (const SummaryEntry& entry : outcome.summary.entries()) {
      if (!IsOfProcess(entry.name)) row.summary.Set(entry.name, entry.value);
    }
    std::int64_t left_out = warmup.requests;
    std::string rule = warmup.rule;
    const RunMetricsConfig& metrics = deployment.config.metrics;
    if (rule == "none" && metrics.head_share > 0) {
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

// Runs all replications for their latencies, and sets the deployment's window. False if `control`
// asked to stop.
bool PointRunner::FindWarmup(Deployment& deployment, Warmup& warmup, RunControl& control) const {
  std::vector<LatencySeries> series(study_.config().replications);
  std::int64_t arrived = 0;
  for (std::uint32_t i = 0; i < study_.config().replications; ++i) {
    const RunOutcome outcome = Simulate(WithSeed(deployment, study_.SeedOf(i)), control,
                                        {.listeners = {&series[i]}, .observers = {}});
    if (outcome.interrupted) return false;
    arrived = i == 0 ? series[i].arrived() : std::min(arrived, series[i].arrived());
  }
  const MserPoint found = WarmupOf(series);
  warmup.rule = found.too_short ? "mser5_too_short" : "mser5";
  warmup.requests = found.too_short ? 0 : static_cast<std::int64_t>(found.observations);
  if (warmup.requests == 0) return true;
  ExperimentConfig& config = deployment.config;
  if (config.workload.requests == 0) config.workload.requests = arrived;
  // A share that is rounded down to the number.
  config.metrics.head_share =
      (static_cast<double>(warmup.requests) + 0.5) / static_cast<double>(config.workload.requests);
  return true;
}

}  // namespace twin::lab
