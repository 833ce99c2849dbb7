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
    "mean_ttft_ms",   "p99_ttft_ms",       "mean_tpot_ms",       "p99_tpot_ms", "mean_e2el_ms",
    "completed_rate", "output_token_rate", "mean_kv_used_share", "preemptions"};
// Loads are searched within this factor of the load that is asked for.
constexpr double kLoadFactorMax = 4096;
constexpr std::int64_t kPilotRequests = 500;
constexpr std::int64_t kLightRequests = 200;

// Says which load a search has no runs of.
struct MissingRuns {
  double load = 0;
};

// The least of the bounds' mean rooms over the seeds; a metric without a value breaks its bound.
double SmallestMeanRoom(std::span<const LoadRun> seeds) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t b = 0; b < seeds.front().rooms.size(); ++b) {
    double sum = 0;
    for (const LoadRun& run : seeds) sum += run.rooms[b];
    if (std::isnan(sum)) return -std::numeric_limits<double>::infinity();
    least = std::min(least, sum / static_cast<double>(seeds.size()));
  }
  return least;
}

std::vector<std::vector<double>> RoomsOfSeeds(const std::vector<LoadRun>& seeds) {
  std::vector<std::vector<double>> rooms;
  for (const LoadRun& run : seeds) rooms.push_back(run.rooms);
  return rooms;
}

// The limit without each seed, along the line between two loads of the search, of which one is
// at most the limit and one above. Where there is no such load, or a metric has no value, nothing
// tells how seeds move the limit: it then stays.
RootOfMean WithoutEachSeedOf(const std::map<double, std::vector<LoadRun>>& made, double limit) {
  const auto misfit = [limit](double load) {
    return std::abs(std::abs(load / limit - 1) - kChordShare);
  };
  auto low = made.end();
  auto high = made.end();
  for (auto runs = made.begin(); runs != made.end(); ++runs) {
    auto& side = runs->first <= limit ? low : high;
    if (side == made.end() || misfit(runs->first) < misfit(side->first)) side = runs;
  }
  const RootOfMean fixed{limit, std::vector<double>(made.begin()->second.size(), limit)};
  if (low == made.end() || high == made.end()) return fixed;
  const RootOfMean found = WithoutEachSeed(limit, {.low = low->first,
                                                   .high = high->first,
                                                   .at_low = RoomsOfSeeds(low->second),
                                                   .at_high = RoomsOfSeeds(high->second)});
  const bool known =
      std::ranges::all_of(found.without, [](double one) { return std::isfinite(one); });
  return known ? found : fixed;
}

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
  const auto users = axis_.whole() ? static_cast<std::int64_t>(load) : std::int64_t{0};
  workload.requests = std::max(length.requests, kRequestsPerUser * users);
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
                     fmt::format("{}: the runs have no such metric; request_goodput, good_rate "
                                 "and slo_attainment need slo",
                                 key));
  }
  return summary.Number(key);
}

std::vector<double> CandidateEvaluator::RoomsOf(const Summary& summary) const {
  std::vector<double> rooms;
  for (const MetricBound& bound : bounds_) {
    (void)MetricOf(summary, bound.metric);  // refuses a metric that the runs do not have
    rooms.push_back(bound.Room(JudgedValue(summary, bound)));
  }
  return rooms;
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

bool CandidateEvaluator::HasRequests(const Candidate& candidate, const RunLength& length) {
  if (!candidate.deployment.config.workload.trace) return true;
  const RunLength whole{.requests = length.requests, .warmup = 0};
  const Summary summary = Simulated(candidate, axis_.own, 0, whole, control_, runs_);
  const std::uint64_t left_out = AtLoad(candidate, axis_.own, whole).warmup_requests;
  return summary.Number("requests") + static_cast<double>(left_out) >=
         static_cast<double>(length.requests);
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
    const LoadRun run{
        .metrics = {},
        .rooms = RoomsOf(Simulated(make(middle), axis_.own, 0, length, control, runs))};
    (SmallestMeanRoom(std::span(&run, 1)) >= 0 ? high : low) = middle;
  }
  return high;
}

std::string CandidateEvaluator::LogKey(const Candidate& candidate, double load, std::uint64_t seed,
                                       const RunLength& length) const {
  return fmt::format("{}; seed {}, {} requests, {} left out, load {}",
                     TextOf(ParametersOf(request_, candidate.choice)), seed, length.requests,
                     length.warmup, load);
}

LoadRun CandidateEvaluator::RunOnce(const Candidate& candidate, double load, std::uint64_t seed,
                                    const RunLength& length, RunControl& control) {
  const std::string key = LogKey(candidate, load, seed, length);
  if (log_ != nullptr) {
    if (std::optional<LoadRun> known = log_->Find(key)) return *std::move(known);
  }
  std::int64_t counted = 0;  // by the caller
  const Summary summary = Simulated(candidate, load, seed, length, control, counted);
  LoadRun run{.metrics = {}, .rooms = RoomsOf(summary)};
  for (const std::string& metric : keys_) run.metrics.push_back(MetricOf(summary, metric));
  if (log_ != nullptr) log_->Add(key, run);
  return run;
}

void CandidateEvaluator::RunTasks(const std::vector<Task>& tasks,
                                  std::span<const Candidate* const> candidates,
                                  std::uint64_t first_seed, std::size_t count,
                                  const RunLength& length, std::vector<LoadRuns>& made) {
  for (const Task& task : tasks) made[task.candidate][task.load].resize(count);
  std::size_t done = 0;
  RunInParallel(
      tasks.size() * count, jobs_, control_,
      [&](std::size_t i, RunControl& inner) {
        const Task& task = tasks[i / count];
        made[task.candidate].at(task.load)[i % count] =
            RunOnce(*candidates[task.candidate], task.load, first_seed + i % count, length, inner);
      },
      [&](std::size_t /*i*/) {
        ++runs_;
        control_.OnProgress(fmt::format("recommend: runs of {} requests", length.requests), ++done,
                            tasks.size() * count);
      });
  if (control_.StopRequested()) throw SearchStopped{};
}

// Repeats the search over the runs that are there until it asks for one that is not.
CandidateEvaluator::SearchStep CandidateEvaluator::Continued(const LoadRuns& made,
                                                             const RunLength& length,
                                                             double start) const {
  const double own = axis_.own;
  LoadSearch search{.low = axis_.whole() ? 1 : own / kLoadFactorMax,
                    .high = own * kLoadFactorMax,
                    .whole = axis_.whole(),
                    .tolerance = length.tolerance,
                    .step = start > 0 ? 1 + 3 * length.tolerance : 2};
  const double guess = start > 0 ? start : own;
  search.start = std::clamp(axis_.whole() ? std::round(guess) : guess, search.low, search.high);
  try {
    const double limit = FindLoadLimit(search, [&](double load) {
      const auto runs = made.find(load);
      if (runs == made.end()) throw MissingRuns{load};
      return SmallestMeanRoom(runs->second);
    });
    if (limit < search.high) return {limit, true};
  } catch (const MissingRuns& missing) {
    return {missing.load, false};
  }
  throw InputError(InputError::Kind::kUsage, request_.source,
                   fmt::format("until: holds at {} times the load; allowed: with a bound that "
                               "a larger load breaks, such as one on ttft",
                               kLoadFactorMax));
}

Evaluation CandidateEvaluator::EvaluationOf(const Candidate& candidate, const LoadRuns& made,
                                            double limit) const {
  Evaluation result{.value = {}, .values = {}, .limit = limit, .metrics = {}};
  for (const LoadRun& run : made.at(axis_.own)) result.metrics.push_back(run.metrics);
  if (Searches()) {
    const auto value_at = [&](double load) { return ValueAt(candidate, load); };
    result.value = Mapped(WithoutEachSeedOf(made, limit), value_at);
    if (result.metrics.size() > 1) result.values = PseudoValues(result.value);
    return result;
  }
  for (const std::vector<double>& metrics : result.metrics) {
    result.values.push_back(request_.objective == Objective::kFleet
                                ? FleetValue(candidate)
                                : metrics[KeyIndex(MinimisedMetric(request_))]);
  }
  result.value = MeanOf(result.values);
  return result;
}

Evaluations CandidateEvaluator::Evaluate(std::span<const Candidate* const> candidates,
                                         std::uint64_t first_seed, std::size_t count,
                                         const RunLength& length, std::span<const double> starts) {
  std::vector<double> expected(starts.begin(), starts.end());
  if (Searches() && starts.empty() && count > 1) {
    for (const Evaluation& one :
         Evaluate(candidates, first_seed, 1, length, std::vector<double>(candidates.size(), 0.0)))
      expected.push_back(one.limit);
  }
  std::vector<LoadRuns> made(candidates.size());
  std::vector<double> limits(candidates.size());
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < candidates.size(); ++i) tasks.push_back({i, axis_.own});
  while (!tasks.empty()) {
    RunTasks(tasks, candidates, first_seed, count, length, made);
    std::vector<Task> next;
    for (const Task& task : tasks) {
      if (!Searches()) continue;
      const SearchStep step = Continued(made[task.candidate], length, expected[task.candidate]);
      limits[task.candidate] = step.load;
      if (!step.found) next.push_back({task.candidate, step.load});
    }
    tasks = std::move(next);
  }
  control_.OnProgressEnd();
  Evaluations results;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    results.push_back(EvaluationOf(*candidates[i], made[i], limits[i]));
  }
  return results;
}

}  // namespace twin::run
