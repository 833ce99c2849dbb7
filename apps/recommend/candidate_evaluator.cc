#include "apps/recommend/candidate_evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "apps/recommend/objectives.h"
#include "config/hardware_file.h"
#include "core/check.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "run/many/capacity_runs.h"
#include "run/many/parallel_runs.h"
#include "run/simulation.h"

namespace twin::run {
namespace {

using Objective = RecommendConfig::Objective;

constexpr std::array<const char*, 9> kReported = {
    "mean_ttft_ms",       "p99_ttft_ms",       "mean_tpot_ms",       "p99_tpot_ms", "mean_e2el_ms",
    "request_throughput", "output_throughput", "mean_kv_used_share", "preemptions"};
// Loads are searched within this factor of the load that is asked for.
constexpr double kLoadFactorMax = 4096;
constexpr std::int64_t kPilotRequests = 500;
constexpr std::int64_t kLightRequests = 200;

std::string BoundsOf(const RecommendConfig& request) {
  if (!request.until.empty()) return request.until;
  return request.has_slo ? "slo_attainment>=0.9" : "";
}

void RequireEnergy(const RecommendConfig& request) {
  const auto require = [&request](const std::string& hardware) {
    if (HardwareFromNameOrFile(hardware).energy) return;
    throw InputError(InputError::Kind::kUsage, request.source,
                     fmt::format("objective: energy needs data sheets with the block energy, which "
                                 "{} lacks; allowed: h100-sxm, b200, or a file that has it",
                                 hardware));
  };
  for (const OfferedHardwareConfig& hardware : request.hardware) {
    require(hardware.name);
    if (hardware.ffn && !hardware.ffn->name.empty()) require(hardware.ffn->name);
  }
}

}  // namespace

CandidateEvaluator::CandidateEvaluator(const CandidateSpace& space, int jobs, RunControl& control)
    : request_(space.request()), jobs_(jobs), control_(control) {
  const std::string bounds = BoundsOf(request_);
  if (!bounds.empty()) bounds_ = ParseBounds(bounds);
  for (const MetricBound& bound : bounds_) keys_.push_back(bound.metric);
  const auto add = [this](const std::string& key) {
    if (std::ranges::find(keys_, key) == keys_.end()) keys_.push_back(key);
  };
  for (const char* key : kReported) add(key);
  if (request_.has_slo) add("slo_attainment");
  if (const std::string metric = MinimisedMetric(request_); !metric.empty()) {
    (void)ParseBounds(metric + "<=1");
    add(metric);
  }
  if (request_.objective == Objective::kEnergy) RequireEnergy(request_);
  const std::vector<std::string> any = {
      fmt::format("system.model=\"{}\"", request_.models[0].name),
      fmt::format("system.hardware=\"{}\"", request_.hardware[0].name),
      fmt::format("system.server=\"{}\"", space.ServersOf()[0])};
  axis_ =
      LoadAxisOf(request_.experiment->With(any, {}).workload, request_.objective, request_.source);
}

std::size_t CandidateEvaluator::KeyIndex(const std::string& metric) const {
  const auto found = std::ranges::find(keys_, metric);
  CHECK(found != keys_.end());
  return static_cast<std::size_t>(found - keys_.begin());
}

std::string CandidateEvaluator::ValueUnit() const {
  const bool counts_devices =
      request_.objective == Objective::kFleet && !(request_.hardware[0].price_per_hour > 0);
  return counts_devices ? "devices" : ObjectiveTraitsOf(request_.objective).unit;
}

bool CandidateEvaluator::LowerIsBetter() const {
  return ObjectiveTraitsOf(request_.objective).lower_is_better;
}

bool CandidateEvaluator::Searches() const {
  return ObjectiveTraitsOf(request_.objective).searches_load;
}

Deployment CandidateEvaluator::AtLoad(const Candidate& candidate, double load,
                                      const RunLength& length) const {
  Deployment deployment = candidate.deployment;
  WorkloadConfig& workload = deployment.config.workload;
  // Each user of a closed loop sends several requests, and the first ones come all at once.
  const auto users = axis_.whole() ? static_cast<std::int64_t>(load) : std::int64_t{0};
  workload.requests = std::max(length.requests, 5 * users);
  if (requests_available_ > 0) workload.requests = std::min(workload.requests, requests_available_);
  deployment.warmup_requests =
      static_cast<std::uint64_t>(std::min(std::max(length.warmup, users), workload.requests / 5));
  SetLoad(axis_, load, workload);
  return deployment;
}

ExperimentConfig CandidateEvaluator::ExperimentOf(const Candidate& candidate,
                                                  const RunLength& length) const {
  return AtLoad(candidate, axis_.own, length).config;
}

Summary CandidateEvaluator::Simulated(const Candidate& candidate, double load, std::uint64_t seed,
                                      const RunLength& length, RunControl& control,
                                      std::int64_t& runs) const {
  if (control.StopRequested()) throw SearchStopped{};
  ++runs;
  const Deployment deployment = AtLoad(candidate, load, length);
  const RunOutcome outcome = Simulate(WithSeed(deployment, request_.seed + seed), control);
  if (outcome.interrupted) throw SearchStopped{};
  return outcome.summary;
}

double CandidateEvaluator::MetricOf(const Summary& summary, const std::string& key) const {
  if (summary.Find(key) == nullptr) {
    throw InputError(InputError::Kind::kUsage, request_.source,
                     fmt::format("{}: the runs have no such metric; request_goodput and "
                                 "slo_attainment need slo",
                                 key));
  }
  return summary.Number(key);
}

double CandidateEvaluator::Room(const Summary& summary) const {
  double least = std::numeric_limits<double>::infinity();
  for (const MetricBound& bound : bounds_) {
    double slack = bound.Slack(MetricOf(summary, bound.metric));
    if (std::isnan(JudgedValue(summary, bound))) slack = std::numeric_limits<double>::quiet_NaN();
    const double scale = bound.limit == 0 ? 1 : std::abs(bound.limit);
    least = std::min(least,
                     std::isnan(slack) ? -std::numeric_limits<double>::infinity() : slack / scale);
  }
  return least;
}

double CandidateEvaluator::ValueAt(const Candidate& candidate, double limit) const {
  const double rate = limit * rate_per_load_;
  if (request_.objective == Objective::kCost) return candidate.price_per_hour / (3.6 * rate);
  return rate;
}

RunLength CandidateEvaluator::FullLength(const std::vector<Candidate>& candidates) {
  CHECK(!candidates.empty());
  const Candidate& any = candidates[0];
  const Summary pilot =
      Simulated(any, axis_.own, 0, {.requests = kPilotRequests, .warmup = 0}, control_, runs_);
  const double done = std::max(1.0, pilot.Number("completed"));
  mean_prompt_tokens_ = pilot.Number("total_input_tokens") / done;
  mean_output_tokens_ = pilot.Number("total_output_tokens") / done;
  const double tokens = mean_prompt_tokens_ + mean_output_tokens_;
  const bool is_trace =
      axis_.kind == LoadAxis::Kind::kTraceScale || axis_.kind == LoadAxis::Kind::kServegenScale;
  const WorkloadConfig& workload = any.deployment.config.workload;
  if (workload.trace) requests_available_ = workload.requests;
  double fill = 1;
  for (const Candidate& candidate : candidates) {
    const double held = static_cast<double>(candidate.deployment.capacity.tokens()) / tokens;
    double most = held;
    if (candidate.choice.max_num_seqs)
      most = std::min(most, static_cast<double>(*candidate.choice.max_num_seqs));
    most *= candidate.choice.layout.decoding_engines();
    if (axis_.whole()) most = std::min(most, std::max(axis_.own, 1.0));
    fill = std::max(fill, most);
  }
  RunLength length{.requests = request_.requests, .warmup = 0, .tolerance = request_.tolerance};
  if (length.requests == 0)
    length.requests = std::clamp<std::int64_t>(
        std::llround(20 * fill), 1000, std::max<std::int64_t>(20'000, std::llround(5 * fill)));
  length.warmup = std::min<std::int64_t>(std::llround(fill), length.requests / 20);
  // The rate of a trace changes, so that it is taken over the requests of the full runs.
  if (is_trace) {
    const Summary whole = Simulated(any, axis_.own, 0, length, control_, runs_);
    rate_per_load_ = whole.Number("offered_rate") / axis_.own;
  }
  return length;
}

std::vector<std::string> CandidateEvaluator::RejectInfeasible(
    const std::vector<Candidate>& candidates) {
  std::vector<std::string> reasons(candidates.size());
  std::vector<double> refused(candidates.size());
  std::vector<std::int64_t> runs(candidates.size());
  RunInParallel(
      candidates.size(), jobs_, control_,
      [&](std::size_t i, RunControl& inner) {
        const double load = axis_.whole() ? 1 : axis_.own / kLoadFactorMax;
        const Summary summary = Simulated(
            candidates[i], load, 0, {.requests = kLightRequests, .warmup = 0}, inner, runs[i]);
        refused[i] = summary.Number("rejected");
        if (!MinimisedMetric(request_).empty()) return;
        for (const MetricBound& bound : bounds_) {
          const double value = MetricOf(summary, bound.metric);
          if (bound.Holds(value)) continue;
          reasons[i] = fmt::format("{} does not hold at any load: {} when hardly loaded",
                                   bound.text(), RoundedText(value, 4));
        }
      },
      [&](std::size_t i) { runs_ += runs[i]; });
  if (control_.StopRequested()) throw SearchStopped{};
  const double least = refused.empty() ? 0 : *std::ranges::min_element(refused);
  for (std::size_t i = 0; i < refused.size(); ++i) {
    if (refused[i] > least)
      reasons[i] = fmt::format("refuses {:g} of {} requests, others {:g}", refused[i],
                               kLightRequests, least);
  }
  return reasons;
}

std::variant<std::int32_t, std::string> CandidateEvaluator::FewestReplicas(
    const Candidate& most, const std::function<Candidate(std::int32_t)>& make,
    const RunLength& length, RunControl& control, std::int64_t& runs) const {
  const Summary with_all = Simulated(most, axis_.own, 0, length, control, runs);
  std::int32_t high = most.choice.layout.replicas;
  for (const MetricBound& bound : bounds_) {
    const double value = MetricOf(with_all, bound.metric);
    if (bound.Holds(value)) continue;
    return fmt::format("{} does not hold at the load with {} replicas, the most: {}", bound.text(),
                       high, std::isnan(value) ? "no value" : RoundedText(value, 4));
  }
  std::int32_t low = most.choice.layout.prefill_replicas;  // too few
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    const double room = Room(Simulated(make(middle), axis_.own, 0, length, control, runs));
    (room >= 0 ? high : low) = middle;
  }
  return high;
}

std::string CandidateEvaluator::LogKey(const Candidate& candidate, std::uint64_t seed,
                                       const RunLength& length, double start) const {
  return fmt::format("{}; seed {}, {} requests, {} left out, tolerance {}, from {}",
                     TextOf(ParametersOf(request_, candidate.choice)), seed, length.requests,
                     length.warmup, length.tolerance, start);
}

Evaluation CandidateEvaluator::EvaluateOnce(const Candidate& candidate, std::uint64_t seed,
                                            const RunLength& length, double start,
                                            RunControl& control) {
  if (log_ == nullptr) return EvaluateOne(candidate, seed, length, start, control);
  const std::string key = LogKey(candidate, seed, length, start);
  if (std::optional<Evaluation> known = log_->Find(key)) return *std::move(known);
  Evaluation made = EvaluateOne(candidate, seed, length, start, control);
  log_->Add(key, made);
  return made;
}

Evaluation CandidateEvaluator::EvaluateOne(const Candidate& candidate, std::uint64_t seed,
                                           const RunLength& length, double start,
                                           RunControl& control) {
  Evaluation found;
  const Summary asked = Simulated(candidate, axis_.own, seed, length, control, found.runs);
  for (const std::string& key : keys_) found.metrics.push_back(MetricOf(asked, key));
  if (!Searches()) {
    found.value = request_.objective == Objective::kFleet
                      ? FleetValue(candidate)
                      : found.metrics[KeyIndex(MinimisedMetric(request_))];
    return found;
  }
  const double own = axis_.own;
  LoadSearch search{.low = axis_.whole() ? 1 : own / kLoadFactorMax,
                    .high = own * kLoadFactorMax,
                    .whole = axis_.whole(),
                    .tolerance = length.tolerance,
                    .step = start > 0 ? 1 + 3 * length.tolerance : 2};
  const double guess = start > 0 ? start : own;
  search.start = std::clamp(axis_.whole() ? std::round(guess) : guess, search.low, search.high);
  const double limit = FindLoadLimit(search, [&](double load) {
    if (load == own) return Room(asked);
    return Room(Simulated(candidate, load, seed, length, control, found.runs));
  });
  if (limit >= search.high) {
    throw InputError(InputError::Kind::kUsage, request_.source,
                     fmt::format("until: holds at {} times the load; allowed: with a bound that "
                                 "a larger load breaks, such as one on ttft",
                                 kLoadFactorMax));
  }
  found.limit = limit;
  found.value = ValueAt(candidate, found.limit);
  return found;
}

void CandidateEvaluator::RunTasks(const std::vector<Task>& tasks,
                                  std::span<const Candidate* const> candidates,
                                  std::uint64_t first_seed, const RunLength& length,
                                  std::span<const double> starts, Evaluations& results) {
  std::size_t done = 0;
  RunInParallel(
      tasks.size(), jobs_, control_,
      [&](std::size_t i, RunControl& inner) {
        const auto [candidate, seed] = tasks[i];
        const double start = starts.empty() ? 0 : starts[candidate];
        results[candidate][seed] =
            EvaluateOnce(*candidates[candidate], first_seed + seed, length, start, inner);
      },
      [&](std::size_t i) {
        ++done;
        runs_ += results[tasks[i].candidate][tasks[i].seed].runs;
        control_.OnProgress(fmt::format("recommend: runs of {} requests", length.requests), done,
                            tasks.size());
      });
  if (control_.StopRequested()) throw SearchStopped{};
}

Evaluations CandidateEvaluator::Evaluate(std::span<const Candidate* const> candidates,
                                         std::uint64_t first_seed, std::size_t count,
                                         const RunLength& length, std::span<const double> starts) {
  Evaluations results(candidates.size(), std::vector<Evaluation>(count));
  std::vector<Task> first;
  std::vector<Task> others;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    for (std::size_t seed = 0; seed < count; ++seed) {
      (seed == 0 && starts.empty() ? first : others).push_back({i, seed});
    }
  }
  std::vector<double> found(starts.begin(), starts.end());
  if (starts.empty()) {
    RunTasks(first, candidates, first_seed, length, {}, results);
    for (const std::vector<Evaluation>& one : results) found.push_back(one[0].limit);
  }
  RunTasks(others, candidates, first_seed, length, found, results);
  control_.OnProgressEnd();
  return results;
}

}  // namespace twin::run
