#include "run/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/input_error.h"
#include "core/statistics.h"
#include "run/bounds/gap_to_bound.h"
#include "run/cost_cache.h"
#include "run/judge/candidate_failure.h"
#include "run/judge/hostile_gate.h"
#include "run/judge/judged_run.h"
#include "run/judge/planning_charge.h"
#include "run/judge/secret.h"
#include "sched/invariant.h"

namespace twin::run {
namespace {

// Thrown by a gate to end the judging.
struct Refusal {
  GateFailure failure;
};

const char* GateOf(FailureKind kind) {
  if (kind == FailureKind::kRefused) return "G0";
  return kind == FailureKind::kTooSlow ? "G7" : "G1";
}

// nullopt for cost models without bounds.
std::optional<double> MeanE2eFloor(const Deployment& deployment, WorkFloors& floors) {
  RunControl silent;
  try {
    return MeasureGapToBound(deployment, silent, floors).floor.mean_e2el_s;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// The settings of the default policy, under vLLM's names.
PolicyFile WithSettings(PolicyFile file, const JudgedCell& cell) {
  const PolicyTraits system = Resolve(cell.experiment.With({}, {})).traits;
  const auto set = [&](const char* name, const std::string& value) {
    if (std::ranges::find(file.parameters, name, &PolicyParameter::name) != file.parameters.end()) {
      return;
    }
    file.parameters.push_back({name, value});
  };
  set("max_num_batched_tokens", std::to_string(system.tokens_per_step_max));
  set("max_num_seqs", std::to_string(system.sequences_per_step_max));
  set("max_model_len", std::to_string(system.context_tokens_max));
  set("enable_prefix_caching", system.caches_prefixes ? "true" : "false");
  return file;
}

// Workloads are the strata.
std::vector<CellOrigin> OriginsOf(const std::vector<JudgedCell>& cells) {
  std::map<std::string, std::size_t> strata;
  std::vector<CellOrigin> origins;
  for (const JudgedCell& cell : cells) {
    const std::size_t stratum = strata.emplace(cell.workload, strata.size()).first->second;
    origins.push_back({stratum, cell.of_cells});
  }
  return origins;
}

// The candidate and the references on the cells of one submission.
class Court {
 public:
  // `host`: null for a candidate that is named by `changes`.
  Court(PolicyHost* host, std::vector<std::string> changes, const std::vector<JudgedCell>& cells,
        const std::vector<JudgedReference>& references, const JudgeOptions& options,
        RunControl& control)
      : host_(host),
        changes_(std::move(changes)),
        cells_(cells),
        references_(references),
        options_(options),
        control_(control),
        scores_(references.size(), PairedScore(OriginsOf(cells))),
        looks_(cells.size()) {}

  Verdict Judge() {
    CheckLimits();
    std::int32_t round = 0;
    // A budget that is used up is for the first round to refuse.
    for (; round < options_.rounds && (round == 0 ? !stopped_ : GoesOn()); ++round) {
      JudgeRound(round, options_.rounds);
    }
    Require(classes_.Check());
    for (; round < options_.rounds_max && GoesOn() && Undecided(); ++round) {
      JudgeRound(round, options_.rounds_max);
    }
    Require(classes_.Check());
    Verdict verdict = Finish();
    if (host_ != nullptr && !stopped_) ChargePlanning(verdict);
    control_.OnProgressEnd();
    return verdict;
  }

 private:
  static void Require(std::optional<GateFailure> failure) {
    if (failure) throw Refusal{std::move(*failure)};
  }

  [[nodiscard]] double Alpha() const {
    return ErrorOfSubmission(1 - options_.confidence, options_.submission, references_.size());
  }
  [[nodiscard]] bool HasBudget() const {
    return host_ == nullptr || host_->planned_s() <= options_.planning_budget_s;
  }
  bool Stopped() {
    stopped_ = stopped_ || control_.StopRequested();
    return stopped_;
  }
  [[nodiscard]] bool GoesOn() const { return !stopped_ && HasBudget(); }
  [[nodiscard]] bool Undecided() const {
    return std::ranges::any_of(scores_, [this](const PairedScore& score) {
      return score.Decide(Alpha()) == Sign::kUndecided;
    });
  }

  // Seeds that nobody can foresee without the secret.
  [[nodiscard]] RunSeeds SeedsOf(std::uint64_t cell, std::uint64_t round) const {
    return options_.secret.OfRun(options_.submission, cell, round);
  }

  [[nodiscard]] Deployment DeploymentOf(const JudgedCell& cell,
                                        const std::vector<std::string>& changes,
                                        const RunSeeds& seeds, bool is_candidate) {
    // Read once: runs of a cell differ in their seeds.
    auto& known = configs_[{&cell, changes}];
    if (!known) known = cell.experiment.With(changes, std::filesystem::current_path());
    ExperimentConfig config = *known;
    config.seed = seeds.world;
    // All policies of a pair meet equal errors of the cost model.
    sim::SetDraw(config.cost, seeds.world);
    Deployment deployment = is_candidate && host_ != nullptr
                                ? ResolveFor(host_->policy(), config, costs_)
                                : Resolve(config, costs_);
    deployment.workload_seeds = seeds.workload;
    return deployment;
  }

  JudgedRun RunReference(const JudgedReference& reference, const JudgedCell& cell,
                         const RunSeeds& seeds) {
    return RunJudged(DeploymentOf(cell, reference.changes, seeds, false), control_, nullptr,
                     options_.metric);
  }

  // Returns what `work` does. Its exceptions are verdicts on the candidate, unless the default
  // policy fails there, too: then the experiment is wrong.
  template <class Work>
  auto OfCandidate(const JudgedCell& cell, const RunSeeds& seeds, Work work) {
    try {
      return work();
    } catch (const std::exception& error) {
      const bool is_named = dynamic_cast<const CandidateFailure*>(&error) != nullptr ||
                            dynamic_cast<const InvariantViolation*>(&error) != nullptr;
      if (host_ == nullptr && !is_named) throw;
      const CandidateFailure failure = FailureBeingHandled();
      if (!is_named) (void)RunReference(references_.front(), cell, seeds);
      throw Refusal{{GateOf(failure.kind()), failure.what()}};
    }
  }

  JudgedRun RunCandidate(const JudgedCell& cell, const RunSeeds& seeds, std::uint32_t id_shift,
                         Duration planning = Duration{0}) {
    return OfCandidate(cell, seeds, [&] {
      Deployment deployment = DeploymentOf(cell, changes_, seeds, true);
      if (planning > Duration{0}) deployment.cost = WithPlanning(deployment.cost, planning);
      RunObserver* tap = nullptr;
      if (host_ != nullptr) tap = &host_->BeginRun({id_shift, seeds.keys}, /*fresh=*/true);
      return RunJudged(deployment, control_, tap, options_.metric);
    });
  }

  void CheckLimits() {
    for (const JudgedCell& cell : cells_) {
      const RunSeeds some{.world = 1, .workload = 1, .keys = {}};
      const Deployment system = DeploymentOf(cell, {}, some, false);
      RequireFollowable(system, cell.workload);
      limits_.push_back(system.traits);
      if (host_ == nullptr) continue;
      Require(CheckTraits(host_->traits(), system.traits));
      try {
        (void)DeploymentOf(cell, {}, some, true);
      } catch (const InputError& error) {
        throw Refusal{{"G6", error.what()}};
      }
    }
  }

  void RequireFollowable(const Deployment& system, const std::string& workload) const {
    const auto refuse = [&](const char* field, const std::string& what, const char* allowed) {
      throw InputError(
          InputError::Kind::kUsage, field,
          fmt::format("{} in {}; allowed in judged experiments: {}", what, workload, allowed));
    };
    const std::int32_t replicas = system.config.system.replicas;
    if (replicas != 1) refuse("system.replicas", fmt::format("is {}", replicas), "1");
    if (host_ == nullptr) return;
    if (system.traits.drafts_max > 0) {
      refuse("speculation", "makes drafts, which the judge cannot follow", "none");
    }
    if (system.capacity.groups || system.capacity.window_blocks > 0) {
      refuse("system.memory",
             "has a cache of several groups or windows, which the judge cannot follow",
             "kv_groups: false, and no window pool");
    }
  }

  // Whether this pair's run is repeated: the first one's, and one that the secret draws in each
  // round. The policy cannot know which.
  [[nodiscard]] bool IsRepeated(std::size_t cell, std::int32_t round) const {
    if (!options_.repeats || host_ == nullptr) return false;
    const auto drawn = SeedsOf(0, ~static_cast<std::uint64_t>(round)).world % cells_.size();
    return cell == drawn || (cell == 0 && round == 0);
  }

  // Runs a pair's run again, with other ids of its requests and other keys of their blocks.
  void CheckRepeat(const JudgedCell& cell, RunSeeds seeds, const JudgedRun& first) {
    const RunSeeds others = SeedsOf(1, ~seeds.world);
    seeds.keys = others.keys;
    const auto shift = static_cast<std::uint32_t>(1 + (others.world & 0x7FFFFFFF) / 2);
    const JudgedRun second = RunCandidate(cell, seeds, shift);
    stopped_ = stopped_ || first.interrupted || second.interrupted;
    if (stopped_ || first.digest == second.digest) return;
    throw Refusal{
        {"G2", fmt::format("two runs with equal events decide differently (digests {} and "
                           "{}): the policy reads a clock, unseeded random numbers, what "
                           "it remembers of another run, the ids of requests, or keys",
                           first.digest, second.digest)}};
  }

  void JudgeRound(std::int32_t round, std::int32_t rounds) {
    for (std::size_t i = 0; i < cells_.size() && !stopped_; ++i) {
      if (round == 0 && !HasBudget()) {
        throw Refusal{
            {"G7", fmt::format("planning takes {:.0f} us a step: {:.0f} s for {} of {} runs "
                               "of the first round; allowed: {:g} s",
                               1e6 * QuantileOrZero(host_->planning_s(), 0.5), host_->planned_s(),
                               i, cells_.size(), options_.planning_budget_s)}};
      }
      JudgePair(i, SeedsOf(i, static_cast<std::uint64_t>(round)), IsRepeated(i, round));
      const auto done = static_cast<std::uint64_t>(round) * cells_.size() + i + 1;
      control_.OnProgress("pairs", done, static_cast<std::uint64_t>(rounds) * cells_.size());
    }
  }

  void JudgePair(std::size_t index, const RunSeeds& seeds, bool repeats) {
    const JudgedCell& cell = cells_[index];
    // First the default policy: what is wrong with the experiment is no failure of the candidate.
    const JudgedRun standard = RunReference(references_.front(), cell, seeds);
    if (Stopped()) return;
    std::vector<double> others{Score(standard)};
    const JudgedRun run = RunCandidate(cell, seeds, 0);
    if (Stopped()) return;
    if (repeats) CheckRepeat(cell, seeds, run);
    if (Stopped()) return;
    CheckRun(run, standard, limits_[index]);
    for (std::size_t i = 1; i < references_.size(); ++i) {
      const JudgedRun other = RunReference(references_[i], cell, seeds);
      if (Stopped()) return;
      others.push_back(Score(other));
    }
    classes_.Add(run, standard);
    const double score = OfCandidate(cell, seeds, [&] { return Score(run); });
    for (std::size_t i = 0; i < others.size(); ++i) scores_[i].Add(index, score - others[i]);
    Look(index, seeds, run, standard);
    outside_share_ = std::max(outside_share_, run.outside_share);
  }

  static void CheckRun(const JudgedRun& run, const JudgedRun& standard,
                       const PolicyTraits& limits) {
    Require(CheckServed(run, standard));
    Require(CheckLengths(run, standard));
    Require(CheckSteps(run, standard, limits));
    Require(CheckNobodyStarves(run, standard));
  }

  [[nodiscard]] double Score(const JudgedRun& run) const {
    return options_.metric.empty() ? Utility(run) : MetricUtility(run, options_.metric);
  }

  // Keeps the facts of a cell that stand beside its score.
  void Look(std::size_t index, const RunSeeds& seeds, const JudgedRun& run,
            const JudgedRun& standard) {
    CellScore& cell = looks_[index];
    cell.saturated = standard.saturated;
    if (cell.cell != nullptr) return;
    first_scores_.push_back(Score(run));
    cell.cell = &cells_[index];
    cell.mean_e2e_s = run.mean_e2e_s;
    if (options_.bounds) {
      cell.floor_s = MeanE2eFloor(DeploymentOf(cells_[index], {}, seeds, false), floors_);
    }
  }

  // Repeats the first round with the mean time of planning added to each step.
  void ChargePlanning(Verdict& verdict) {
    const std::vector<double>& times = host_->planning_s();
    if (1e6 * QuantileOrZero(times, 0.99) <= options_.planning_allowed_us) return;
    const Duration planning = DurationFromSeconds(Mean(times));
    double loss = 0;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const JudgedRun run = RunCandidate(cells_[i], SeedsOf(i, 0), 0, planning);
      if (control_.StopRequested()) return;
      loss += first_scores_[i] - Score(run);
    }
    verdict.charged_score =
        verdict.against.front().log_ratio.value - loss / static_cast<double>(cells_.size());
  }

  [[nodiscard]] Verdict Finish() const {
    Verdict verdict;
    verdict.interrupted = stopped_;
    for (std::size_t i = 0; i < references_.size(); ++i) {
      verdict.against.push_back({.name = references_[i].name,
                                 .log_ratio = scores_[i].Mean(options_.confidence),
                                 .pairs = scores_[i].pairs(),
                                 .sign = scores_[i].Decide(Alpha())});
    }
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (looks_[i].cell == nullptr) continue;
      verdict.cells.push_back(looks_[i]);
      verdict.cells.back().log_ratio = scores_.front().MeanOf(i);
      verdict.cells.back().pairs = scores_.front().PairsOf(i);
    }
    verdict.trades = classes_.Trades();
    verdict.outside_share = outside_share_;
    return verdict;
  }

  PolicyHost* host_;
  std::vector<std::string> changes_;
  const std::vector<JudgedCell>& cells_;
  const std::vector<JudgedReference>& references_;
  const JudgeOptions& options_;
  RunControl& control_;
  CostCache costs_;
  WorkFloors floors_;
  std::map<std::pair<const JudgedCell*, std::vector<std::string>>, std::optional<ExperimentConfig>>
      configs_;
  std::vector<PairedScore> scores_;   // by reference
  std::vector<CellScore> looks_;      // by cell
  std::vector<double> first_scores_;  // by cell, of the candidate's first run
  std::vector<PolicyTraits> limits_;  // by cell
  ClassMeter classes_;
  double outside_share_ = 0;
  bool stopped_ = false;
};

}  // namespace

Verdict Judge(const PolicyFile& asked, const std::vector<JudgedCell>& cells,
              const std::vector<JudgedReference>& references, const JudgeOptions& options,
              RunControl& control) {
  const PolicyFile file = asked.engine ? WithSettings(asked, cells.front()) : asked;
  Verdict verdict;
  std::int32_t hostile_worlds = 0;
  HostOptions host_options = options.host;
  host_options.planning_s = 2 * options.planning_budget_s;  // a run that never ends
  PolicyHost host(file, host_options, /*waits=*/true);
  try {
    host.Load();
    if (options.hostile_worlds > 0) {
      // vLLM checks for an end when a token is appended: each output has a last token.
      const HostileGate gate{.worlds = options.hostile_worlds,
                             .seed = options.secret.OfHostileWorlds(),
                             .planning_s = options.planning_budget_s / 5,
                             .silent_ends = !asked.engine};
      hostile_worlds = ServeHostileWorlds(host, gate, control);
      host.ForgetPlanning();
    }
    verdict = Court(&host, {}, cells, references, options, control).Judge();
  } catch (const CandidateFailure& failure) {
    verdict.failure = GateFailure{GateOf(failure.kind()), failure.what()};
  } catch (const Refusal& refusal) {
    verdict.failure = refusal.failure;
  }
  verdict.hostile_worlds = hostile_worlds;
  verdict.sandbox = host.sandbox();
  verdict.sandbox_problem = host.problem();
  verdict.planning_p50_us = 1e6 * QuantileOrZero(host.planning_s(), 0.5);
  verdict.planning_p99_us = 1e6 * QuantileOrZero(host.planning_s(), 0.99);
  return verdict;
}

Verdict Judge(const std::vector<std::string>& changes, const std::vector<JudgedCell>& cells,
              const std::vector<JudgedReference>& references, const JudgeOptions& options,
              RunControl& control) {
  Verdict verdict;
  try {
    verdict = Court(nullptr, changes, cells, references, options, control).Judge();
  } catch (const Refusal& refusal) {
    verdict.failure = refusal.failure;
  }
  verdict.sandbox = "none";
  return verdict;
}

}  // namespace twin::run
