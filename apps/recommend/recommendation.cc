#include "apps/recommend/recommendation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <variant>

#include "apps/recommend/assumptions.h"
#include "apps/recommend/candidate_evaluator.h"
#include "apps/recommend/halving.h"
#include "apps/recommend/objectives.h"
#include "apps/recommend/sensitivity.h"
#include "apps/recommend/server_command.h"
#include "apps/recommend/timed_control.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "core/seed_range.h"
#include "core/statistics.h"
#include "run/many/capacity_runs.h"
#include "run/many/distinct_reports.h"
#include "run/many/parallel_runs.h"

namespace twin::run {
namespace {

using Objective = RecommendConfig::Objective;

// A burst of fewer requests hardly waits, whatever the rate.
constexpr std::int64_t kRungRequestsMin = 100;

// Configurations that are run together where the time is limited.
constexpr std::size_t kAtOnce = 8;

std::vector<double> MetricValues(const Evaluation& evaluation, std::size_t key) {
  std::vector<double> values;
  for (const std::vector<double>& of_seed : evaluation.metrics) values.push_back(of_seed[key]);
  return values;
}

// Answers one request.
class RecommendSearch {
 public:
  RecommendSearch(const RecommendConfig& request, const RecommendOptions& options,
                  RunControl& control)
      : request_(request),
        options_(options),
        caller_(control),
        control_(control, options.out_of_time),
        space_(request),
        evaluator_(space_, options.jobs, control_) {}

  Recommendation Run() {
    DescribeSearch(request_, space_, evaluator_, answer_);
    try {
      Search();
    } catch (const SearchStopped&) {
      answer_.interrupted = caller_.StopRequested();
      if (!answer_.interrupted) answer_.left_out.emplace_back("the comparison of configurations");
    } catch (const InputError&) {
      if (log_) log_->Remove();
      throw;
    }
    answer_.runs = evaluator_.runs();
    if (log_ && !answer_.interrupted && answer_.left_out.empty()) log_->Remove();
    return std::move(answer_);
  }

 private:
  void OpenLog();
  void Search();
  void RejectHopeless();
  // fleet: puts configurations with as few replicas as the bounds allow in place of those with the
  // most, unless the request says how many.
  void SizeFleets(const RunLength& full);
  // The candidate with another number of replicas.
  [[nodiscard]] Candidate WithReplicas(const Candidate& candidate, std::int32_t replicas);
  [[nodiscard]] bool sizes_fleets() const { return request_.objective == Objective::kFleet; }
  // Runs the configurations that are alive, the first ones first. Once the time is out, only those
  // that were run stay alive.
  [[nodiscard]] Evaluations RunAlive(std::uint64_t first_seed, std::size_t count,
                                     const RunLength& length);
  // Takes what was run for the answer, unless the time did not suffice for any of it.
  void Keep(Evaluations results, const RunLength& length);
  // Runs a part that follows the ranking, or says that the time did not suffice for it.
  void RunInTime(const char* part, const std::function<void()>& run);
  void Halve(const RunLength& full);
  [[nodiscard]] std::vector<std::size_t> KeptOf(const Evaluations& results,
                                                const HalvingRule& rule) const;
  void AddFront(const Evaluations& results);
  // Drops the configurations that break a bound at the load, if the objective needs the bounds
  // kept. `surely`: only if even the better end of the mean's interval breaks it.
  void RejectBroken(Evaluations& results, bool surely);
  [[nodiscard]] std::string BrokenBound(const Evaluation& evaluation, bool surely) const;
  void RunFull(const RunLength& full);
  // Ranks what Keep() took last.
  void Rank(const RunLength& full);
  void Add(const RankedConfiguration& ranked, const Evaluations& results, const RunLength& full);
  void RunFirstAgain(const RunLength& full);
  void CheckLength(const RunLength& full);
  // fleet: drops first configurations whose bounds do not hold on further seeds.
  void ConfirmFleets(const RunLength& full);
  void VarySettings(const RunLength& full);
  void FindFront();
  [[nodiscard]] std::vector<const Candidate*> Alive() const;
  [[nodiscard]] std::vector<double> Starts() const;
  [[nodiscard]] Scores ScoresOf(const Evaluations& results) const;
  [[nodiscard]] std::size_t replications() const { return request_.replications; }

  const RecommendConfig& request_;
  const RecommendOptions& options_;
  RunControl& caller_;
  TimedControl control_;
  CandidateSpace space_;
  CandidateEvaluator evaluator_;
  std::optional<EvaluationLog> log_;
  CostCache costs_;
  std::vector<Candidate> candidates_;
  std::vector<std::size_t> alive_;  // of candidates_
  std::vector<double> limits_;      // the latest largest loads, by candidates_; 0: not known
  std::vector<std::size_t> front_;  // of candidates_: worth a full run for the Pareto front
  bool out_of_time_ = false;
  std::vector<std::size_t> kept_alive_;  // of candidates_, with kept_
  Evaluations kept_;
  RunLength kept_length_;
  RootOfMean first_value_;  // of the first configuration
  double first_limit_ = 0;
  Recommendation answer_;
};

// Everything that evaluations depend on but the program, which the log names itself.
void RecommendSearch::OpenLog() {
  std::string search =
      fmt::format("{} {} {}\n", answer_.objective, request_.latency_metric, request_.seed);
  for (const MetricBound& bound : evaluator_.bounds()) search += bound.text() + "\n";
  search += WriteResolved(candidates_.front().deployment.config);
  for (const Candidate& candidate : candidates_) {
    search += TextOf(ParametersOf(request_, candidate.choice)) + "\n";
  }
  log_.emplace(options_.log, search);
  evaluator_.UseLog(&*log_);
}

void RecommendSearch::Search() {
  candidates_ = space_.All(costs_, answer_.rejected);
  answer_.candidates = candidates_.size() + answer_.rejected.size();
  if (candidates_.empty()) return;
  AssumeServers(candidates_, answer_.assumptions);
  if (!options_.log.empty()) OpenLog();
  limits_.assign(candidates_.size(), 0.0);
  const RunLength full = evaluator_.FullLength(candidates_);
  answer_.warmup_requests = full.warmup;
  answer_.load = evaluator_.AskedLoad();
  answer_.mean_prompt_tokens = evaluator_.MeanPromptTokens();
  answer_.mean_output_tokens = evaluator_.MeanOutputTokens();
  if (answer_.load_unit == "times the trace") answer_.load_unit = "requests/s";
  RejectHopeless();
  if (sizes_fleets()) {
    SizeFleets(full);
    RunFull(full);
    RunInTime("further seeds for the first", [&] { ConfirmFleets(full); });
  } else {
    Halve(full);
    RunFull(full);
    if (answer_.configurations.empty()) return;
    RunInTime("the first again, on other seeds", [&] { RunFirstAgain(full); });
    RunInTime("runs of twice the length", [&] { CheckLength(full); });
    RunInTime("what each setting changes", [&] { VarySettings(full); });
  }
  FindFront();
}

void RecommendSearch::RunInTime(const char* part, const std::function<void()>& run) {
  try {
    if (!out_of_time_) return run();
  } catch (const SearchStopped&) {
    if (caller_.StopRequested()) throw;
    out_of_time_ = true;
  }
  answer_.left_out.emplace_back(part);
}

Evaluations RecommendSearch::RunAlive(std::uint64_t first_seed, std::size_t count,
                                      const RunLength& length) {
  const std::vector<const Candidate*> alive = Alive();
  const std::vector<double> starts = Starts();
  // Without a limit of time, all at once: the last configurations leave no core idle.
  const std::size_t at_once =
      options_.out_of_time ? kAtOnce : std::max<std::size_t>(alive.size(), 1);
  Evaluations results;
  try {
    while (results.size() < alive.size()) {
      const std::size_t done = results.size();
      const std::size_t size = std::min(at_once, alive.size() - done);
      const auto part = [&](const auto& all) {
        return std::span(all).subspan(all.empty() ? 0 : done, all.empty() ? 0 : size);
      };
      std::ranges::move(evaluator_.Evaluate(part(alive), first_seed, count, length, part(starts)),
                        std::back_inserter(results));
    }
  } catch (const SearchStopped&) {
    if (caller_.StopRequested()) throw;
    out_of_time_ = true;
    control_.OnProgressEnd();
    answer_.left_out.push_back(fmt::format("runs of {} requests of {} of {} configurations",
                                           length.requests, alive.size() - results.size(),
                                           alive.size()));
  }
  alive_.resize(results.size());
  return results;
}

void RecommendSearch::Keep(Evaluations results, const RunLength& length) {
  if (out_of_time_ && results.empty()) return;
  kept_alive_ = alive_;
  kept_ = std::move(results);
  kept_length_ = length;
}

std::vector<const Candidate*> RecommendSearch::Alive() const {
  std::vector<const Candidate*> alive;
  for (const std::size_t index : alive_) alive.push_back(&candidates_[index]);
  return alive;
}

Scores RecommendSearch::ScoresOf(const Evaluations& results) const {
  Scores scores;
  for (const Evaluation& one : results) {
    scores.push_back(one.values);
    for (double& score : scores.back()) {
      if (std::isnan(score)) {
        throw InputError(
            InputError::Kind::kUsage, request_.source,
            fmt::format("objective: {} has no value in these runs", MinimisedMetric(request_)));
      }
      if (answer_.lower_is_better) score = -score;
    }
  }
  return scores;
}

void RecommendSearch::RejectHopeless() {
  const std::vector<std::string> reasons = evaluator_.RejectInfeasible(candidates_);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (reasons[i].empty()) {
      alive_.push_back(i);
    } else {
      answer_.rejected.push_back({candidates_[i].choice, reasons[i]});
    }
  }
}

Candidate RecommendSearch::WithReplicas(const Candidate& candidate, std::int32_t replicas) {
  CandidateSettings choice = candidate.choice;
  choice.layout.replicas = replicas;
  return space_.Make(choice, costs_);
}

// Seeds differ, so that one replica less and one more than one seed needs are configurations, too.
// One that costs more with one less than another one with one more cannot be the first.
void RecommendSearch::SizeFleets(const RunLength& full) {
  if (!request_.settings.replicas.empty()) return;
  std::vector<std::variant<std::int32_t, std::string>> fewest(alive_.size());
  std::vector<std::int64_t> runs(alive_.size());
  std::size_t done = 0;
  RunInParallel(
      alive_.size(), options_.jobs, control_,
      [&](std::size_t i, RunControl& inner) {
        const Candidate& most = candidates_[alive_[i]];
        fewest[i] = evaluator_.FewestReplicas(
            most, [&](std::int32_t replicas) { return WithReplicas(most, replicas); }, full, inner,
            runs[i]);
      },
      [&](std::size_t i) {
        evaluator_.AddRuns(runs[i]);
        control_.OnProgress("recommend: numbers of replicas", ++done, alive_.size());
      });
  control_.OnProgressEnd();
  if (control_.StopRequested()) throw SearchStopped{};
  std::vector<Candidate> sized;
  // The value that some configuration reaches, by whether its weights are quantised.
  std::array<double, 2> least;
  least.fill(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < alive_.size(); ++i) {
    const Candidate& most = candidates_[alive_[i]];
    if (const auto* const reason = std::get_if<std::string>(&fewest[i])) {
      answer_.rejected.push_back({most.choice, *reason});
      continue;
    }
    const auto needed = std::get<std::int32_t>(fewest[i]);
    const Layout& layout = most.choice.layout;
    const std::int32_t highest = std::min(needed + 1, layout.replicas);
    const std::int32_t lowest = std::max(needed - 1, layout.prefill_replicas + 1);
    for (std::int32_t replicas = lowest; replicas <= highest; ++replicas) {
      sized.push_back(WithReplicas(most, replicas));
    }
    double& reached = least.at(most.quantised ? 1 : 0);
    reached = std::min(reached, FleetValue(sized.back()));
  }
  std::erase_if(sized, [&least](const Candidate& one) {
    return FleetValue(one) > least.at(one.quantised ? 1 : 0);
  });
  candidates_ = std::move(sized);
  limits_.assign(candidates_.size(), 0.0);
  alive_.resize(candidates_.size());
  std::iota(alive_.begin(), alive_.end(), std::size_t{0});
}

std::string RecommendSearch::BrokenBound(const Evaluation& evaluation, bool surely) const {
  const std::vector<MetricBound>& bounds = evaluator_.bounds();
  for (std::size_t b = 0; b < bounds.size(); ++b) {
    const Interval metric = MeanInterval(MetricValues(evaluation, b), kRecommendLevel);
    const bool at_most = bounds[b].kind == MetricBound::Kind::kAtMost;
    const double best = surely ? (at_most ? metric.low : metric.high) : metric.value;
    if (bounds[b].Holds(best)) continue;
    return fmt::format("{} does not hold at the load: {}", bounds[b].text(),
                       std::isnan(metric.value) ? "no value" : RoundedText(metric.value, 4));
  }
  return {};
}

void RecommendSearch::RejectBroken(Evaluations& results, bool surely) {
  if (request_.objective == Objective::kGoodput || request_.objective == Objective::kUsers) return;
  std::vector<std::size_t> alive;
  Evaluations kept;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string reason = BrokenBound(results[i], surely);
    if (reason.empty()) {
      alive.push_back(alive_[i]);
      kept.push_back(std::move(results[i]));
    } else {
      answer_.rejected.push_back({candidates_[alive_[i]].choice, reason});
    }
  }
  alive_ = std::move(alive);
  results = std::move(kept);
}

void RecommendSearch::AddFront(const Evaluations& results) {
  const std::size_t ttft = evaluator_.KeyIndex("mean_ttft_ms");
  const std::size_t tpot = evaluator_.KeyIndex("mean_tpot_ms");
  std::vector<std::vector<double>> points;
  for (const Evaluation& one : results)
    points.push_back({-Mean(MetricValues(one, ttft)), -Mean(MetricValues(one, tpot))});
  for (const std::size_t i : ParetoFront(points)) front_.push_back(alive_[i]);
}

// Keeps the best of either kind of weights, and all in an exhaustive search, whose full runs begin
// at the same loads as with halving. With a limit of time the best come first.
std::vector<std::size_t> RecommendSearch::KeptOf(const Evaluations& results,
                                                 const HalvingRule& rule) const {
  const Scores scores = ScoresOf(results);
  std::vector<std::size_t> all(results.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<std::size_t> kept = all;
  if (!options_.exhaustive) {
    kept.clear();
    for (const bool quantised : {false, true}) {
      std::vector<std::size_t> group = all;
      std::erase_if(group,
                    [&](std::size_t i) { return candidates_[alive_[i]].quantised != quantised; });
      Scores of_group;
      for (const std::size_t i : group) of_group.push_back(scores[i]);
      for (const std::size_t i : Survivors(of_group, rule)) kept.push_back(group[i]);
    }
    std::ranges::sort(kept);
  }
  if (options_.out_of_time) {
    std::ranges::stable_sort(kept, std::greater{},
                             [&scores](std::size_t i) { return Mean(scores[i]); });
  }
  return kept;
}

void RecommendSearch::Halve(const RunLength& full) {
  const HalvingRule rule{.level = kRecommendLevel, .tolerance = request_.tolerance};
  for (const int part : {4, 2}) {
    if (out_of_time_) return;
    if (alive_.size() <= rule.keep_min) break;
    const std::int64_t requests =
        std::max(full.requests / part, std::min(full.requests, kRungRequestsMin));
    const RunLength length{.requests = requests,
                           .warmup = std::min(full.warmup, requests / 4),
                           .tolerance = full.tolerance * part};
    Evaluations results = RunAlive(0, kRungSeeds, length);
    answer_.rungs.push_back({length.requests, kRungSeeds, alive_.size(), 0});
    for (std::size_t i = 0; i < results.size(); ++i) limits_[alive_[i]] = results[i].limit;
    RejectBroken(results, true);
    Keep(results, length);
    if (front_.empty()) AddFront(results);
    std::vector<std::size_t> alive;
    for (const std::size_t i : KeptOf(results, rule)) alive.push_back(alive_[i]);
    alive_ = std::move(alive);
    answer_.rungs.back().kept = alive_.size();
  }
  for (const std::size_t index : front_) {
    if (std::ranges::find(alive_, index) == alive_.end()) alive_.push_back(index);
  }
}

// Where the largest loads are expected, by alive_; empty before the first runs.
std::vector<double> RecommendSearch::Starts() const {
  std::vector<double> starts;
  for (const std::size_t index : alive_) {
    if (limits_[index] > 0) starts.push_back(limits_[index]);
  }
  return starts;
}

void RecommendSearch::RunFull(const RunLength& full) {
  if (!out_of_time_) {
    Evaluations results = RunAlive(kRungSeeds, replications(), full);
    answer_.rungs.push_back({full.requests, replications(), alive_.size(), alive_.size()});
    Keep(std::move(results), full);
  }
  Rank(full);
}

void RecommendSearch::Rank(const RunLength& full) {
  if (!kept_.empty() && kept_length_.requests < full.requests) {
    answer_.left_out.push_back(
        fmt::format("runs of {} requests: the values below are of runs of {} requests",
                    full.requests, kept_length_.requests));
  }
  alive_ = kept_alive_;
  RejectBroken(kept_, false);
  const std::vector<RankedConfiguration> ranked =
      RankConfigurations(ScoresOf(kept_), kRecommendLevel, request_.tolerance);
  for (const RankedConfiguration& one : ranked) Add(one, kept_, full);
  if (ranked.empty()) return;
  first_value_ = kept_[ranked[0].index].value;
  first_limit_ = kept_[ranked[0].index].limit;
}

void RecommendSearch::Add(const RankedConfiguration& ranked, const Evaluations& results,
                          const RunLength& full) {
  const Evaluation& result = results[ranked.index];
  RecommendedConfiguration configuration;
  configuration.rank = answer_.configurations.size() + 1;
  configuration.tied = ranked.tied;
  configuration.candidate = candidates_[alive_[ranked.index]];
  configuration.value = MeanInterval(result.values, kRecommendLevel);
  const std::vector<std::string>& keys = evaluator_.MetricKeys();
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const bool again = std::ranges::any_of(
        configuration.metrics, [&](const auto& metric) { return metric.first == keys[k]; });
    if (!again)
      configuration.metrics.emplace_back(keys[k],
                                         MeanInterval(MetricValues(result, k), kRecommendLevel));
  }
  for (std::size_t b = 0; b < evaluator_.bounds().size(); ++b) {
    const MetricBound& bound = evaluator_.bounds()[b];
    const Interval metric = MeanInterval(MetricValues(result, b), kRecommendLevel);
    configuration.margins.push_back({bound.text(), metric, bound.Room(metric.value)});
  }
  configuration.command = ServerCommand(configuration.candidate);
  configuration.experiment = evaluator_.ExperimentOf(configuration.candidate, full);
  answer_.configurations.push_back(std::move(configuration));
}

void RecommendSearch::RunFirstAgain(const RunLength& full) {
  const Candidate* const first = &answer_.configurations[0].candidate;
  const Evaluations results =
      evaluator_.Evaluate(std::span(&first, 1), kRungSeeds + replications(), replications(), full,
                          std::span(&first_limit_, 1));
  answer_.first_again = MeanInterval(results[0].values, kRecommendLevel);
}

void RecommendSearch::CheckLength(const RunLength& full) {
  RunLength longer = full;
  const auto users = static_cast<std::int64_t>(evaluator_.axis().whole() ? first_limit_ : 0);
  longer.requests = 2 * std::max(full.requests, kRequestsPerUser * users);
  const Candidate* const first = &answer_.configurations[0].candidate;
  if (!evaluator_.HasRequests(*first, longer)) return;
  const Evaluations results = evaluator_.Evaluate(std::span(&first, 1), kRungSeeds, replications(),
                                                  longer, std::span(&first_limit_, 1));
  const Interval ratio =
      CompareRoots(results[0].value, first_value_, 2 * kRecommendLevel - 1).ratio;
  const Interval change{ratio.value - 1, ratio.low - 1, ratio.high - 1, ratio.n};
  const bool settled = change.low >= -request_.tolerance && change.high <= request_.tolerance;
  answer_.length_check = LengthCheck{longer.requests, change, settled};
}

void RecommendSearch::ConfirmFleets(const RunLength& full) {
  auto& all = answer_.configurations;
  while (!all.empty()) {
    const Candidate* const first = &all[0].candidate;
    const Evaluations results = evaluator_.Evaluate(
        std::span(&first, 1), kRungSeeds + replications(), replications(), full, {});
    const std::string reason = BrokenBound(results[0], false);
    if (reason.empty()) return;
    answer_.rejected.push_back({first->choice, reason + ", on further seeds"});
    all.erase(all.begin());
    for (RecommendedConfiguration& one : all) --one.rank;
  }
}

void RecommendSearch::VarySettings(const RunLength& full) {
  const std::vector<SettingVariants> settings =
      VariantsOf(space_, answer_.configurations[0].candidate.choice);
  std::vector<std::string> reasons;  // by setting, then variant; empty: it runs
  const std::vector<Candidate> made = MakeVariants(
      space_, settings, answer_.configurations[0].candidate, evaluator_, costs_, reasons);
  std::vector<const Candidate*> variants;
  for (const Candidate& candidate : made) variants.push_back(&candidate);
  const std::vector<double> starts(made.size(), first_limit_);
  const Evaluations results =
      evaluator_.Evaluate(variants, kRungSeeds, replications(), full, starts);
  const std::string metric = MinimisedMetric(request_);
  const std::string& objective = metric.empty() ? answer_.objective : metric;
  auto reason = reasons.begin();
  auto result = results.begin();
  for (const SettingVariants& setting : settings) {
    const auto first_reason = reason;
    std::vector<std::optional<RootOfMean>> values;
    for (; values.size() < setting.choices.size(); ++reason)
      values.push_back(reason->empty() ? std::optional((result++)->value) : std::nullopt);
    answer_.sensitivity.push_back(
        SensitivityOf(setting, values, first_value_, objective, request_.tolerance));
    for (std::size_t i = 0; i < values.size(); ++i)
      answer_.sensitivity.back().effects[i].reason = first_reason[static_cast<std::ptrdiff_t>(i)];
  }
}

void RecommendSearch::FindFront() {
  std::vector<std::vector<double>> points;
  for (const RecommendedConfiguration& one : answer_.configurations) {
    const auto mean = [&one](const char* key) {
      return std::ranges::find_if(one.metrics, [key](const auto& m) { return m.first == key; })
          ->second.value;
    };
    points.push_back({-mean("mean_ttft_ms"), -mean("mean_tpot_ms")});
  }
  for (const std::size_t i : ParetoFront(points)) {
    answer_.pareto.push_back({answer_.configurations[i].rank, -points[i][0], -points[i][1],
                              answer_.configurations[i].value.value});
  }
}

}  // namespace

std::size_t FirstWithOwnWeights(const Recommendation& answer) {
  const auto first = std::ranges::find_if(answer.configurations,
                                          [](const auto& one) { return !one.candidate.quantised; });
  return first == answer.configurations.end()
             ? 0
             : static_cast<std::size_t>(first - answer.configurations.begin());
}

Recommendation Recommend(const RecommendConfig& request, const RecommendOptions& options,
                         RunControl& control) {
  RequireSeeds(request.source, request.seed, kRungSeeds + 2 * std::uint64_t{request.replications});
  DistinctReports reports(control);
  Recommendation answer = RecommendSearch(request, options, reports).Run();
  reports.OnProgressEnd();
  reports.Finish();
  return answer;
}

}  // namespace twin::run
