#include "apps/validate/measured_causes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/experiment_options/setting_change.h"
#include "apps/validate/measured_error.h"
#include "config/hardware_file.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "sim/devices/profile_config.h"

namespace twin::apps {
namespace {

constexpr double kCauseShare = 0.5;  // of the distance, at most
// A distance that is larger than the least one by less than this factor or this difference explains
// a run as well: the errors of the cost model are as large.
constexpr double kNearlyAsGood = 1.35;
constexpr double kSameDistance = 0.03;
constexpr std::size_t kCausesMax = 3;
constexpr std::size_t kKindsPaired = 3;
constexpr int kRefinements = 3;
// Requests that were sent and wait while fewer generate: a limit of sequences shows.
constexpr double kHeldBack = 1.5;

// The kind of a setting. Candidates of one kind exclude each other. Of kinds that explain a run
// equally well, those that come first here differ more often from their description.
enum class SettingKind : std::uint8_t {
  kBudget,
  kBlocks,
  kSequences,
  kPrefix,
  kPrefixCache,
  kGraphs,
  kScheduling,
  kFormat,
  kRanks,
  kDevice,
};

struct Candidate {
  SettingKind kind{};
  double value = 0;  // of a number that can be refined; 0: no number
  ProposedChange change;
};

struct Tried {
  std::vector<Candidate> parts;  // one, or two of different kinds
  double distance = 0;
  SimulatedClients clients;
};

SettingKind KindOf(const Tried& tried) { return tried.parts.front().kind; }

// Blocks and sequences both limit how many run: the nearer one is the likelier.
int LikelihoodRank(SettingKind kind) {
  return static_cast<int>(kind == SettingKind::kBlocks ? SettingKind::kSequences : kind);
}

double SquareOfLog(double simulated, double measured) {
  const double log = std::log(simulated / measured);
  return log * log;
}

// The mean square over means and percentiles.
std::optional<double> MetricsDistance(const run::MetricValues& simulated,
                                      const run::MetricValues& measured) {
  double sum = 0;
  int count = 0;
  for (const auto& [metric, value] : measured) {
    const auto found = simulated.find(metric);
    const bool compares =
        LatencyOf(metric) == "ttft" || LatencyOf(metric) == "tpot" || LatencyOf(metric) == "e2el";
    if (!compares || found == simulated.end() || !(value > 0) || !(found->second > 0)) continue;
    sum += SquareOfLog(found->second, value);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

// The mean square over the requests.
std::optional<double> RequestsDistance(const std::vector<BenchmarkRequest>& simulated,
                                       const std::vector<BenchmarkRequest>& measured) {
  if (simulated.size() != measured.size()) return std::nullopt;
  double sum = 0;
  int count = 0;
  const auto add = [&](const std::optional<Duration>& a, const std::optional<Duration>& b) {
    if (!a || !b || a->count() <= 0 || b->count() <= 0) return;
    sum += SquareOfLog(Seconds(*a), Seconds(*b));
    ++count;
  };
  for (std::size_t i = 0; i < measured.size(); ++i) {
    add(simulated[i].ttft, measured[i].ttft);
    add(simulated[i].e2e, measured[i].e2e);
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

class Search {
 public:
  Search(const CauseQuestion& question, run::CostCache& costs, run::RunControl& control)
      : question_(question),
        costs_(costs),
        control_(control),
        config_(question.deployment.config),
        write_(config_, question.has_options),
        most_(MostAtOnceOf(question.measured)) {}

  CauseSearch Run() {
    CauseSearch search;
    own_distance_ = DistanceOf(question_.simulated);
    search.error_percent = Percent(own_distance_);
    AddCandidates();
    std::vector<Tried> tried = TryEach(candidates_);
    for (int i = 0; i < kRefinements; ++i) Append(TryEach(Refined(tried)), tried);
    Append(TryPairs(tried), tried);
    Choose(tried, search);
    search.tried = count_;
    search.measured_fact = MeasuredFact();
    return search;
  }

 private:
  static double Percent(double distance) { return 100 * std::expm1(distance); }
  static void Append(std::vector<Tried> more, std::vector<Tried>& all) {
    for (Tried& one : more) all.push_back(std::move(one));
  }

  [[nodiscard]] double DistanceOf(const SimulatedClients& clients) const {
    const auto metrics = MetricsDistance(clients.Values(), question_.measured_values);
    const auto requests =
        question_.paired ? RequestsDistance(clients.requests, question_.measured) : std::nullopt;
    // Requests that a change lost make a run incomparable.
    if (!metrics || (question_.paired && !requests)) return HUGE_VAL;
    return std::sqrt(requests ? (*metrics + *requests) / 2 : *metrics);
  }

  void Add(SettingKind kind, double value, std::optional<ProposedChange> change) {
    if (change) candidates_.push_back({kind, value, *std::move(change)});
  }
  [[nodiscard]] ProposedChange OfBlocks(std::int64_t blocks) const;
  void AddNumber(SettingKind kind, double value, std::vector<Candidate>& to) const;
  void AddCandidates();
  void AddSwitches();
  void AddHardware();
  [[nodiscard]] std::vector<Candidate> Refined(const std::vector<Tried>& tried) const;
  [[nodiscard]] std::vector<Tried> TryEach(const std::vector<Candidate>& candidates);
  [[nodiscard]] std::vector<Tried> TryPairs(const std::vector<Tried>& tried);
  [[nodiscard]] std::vector<Tried> TryAll(std::vector<std::vector<Candidate>> sets);
  void Choose(std::vector<Tried>& tried, CauseSearch& search) const;
  [[nodiscard]] std::string MeasuredFact() const;

  const CauseQuestion& question_;
  run::CostCache& costs_;
  run::RunControl& control_;
  const ExperimentConfig& config_;
  ChangeWriter write_;
  MostAtOnce most_;  // of the measured run
  double own_distance_ = 0;
  std::vector<Candidate> candidates_;
  std::size_t count_ = 0;
};

// A server with so few blocks takes no longer requests.
ProposedChange Search::OfBlocks(std::int64_t blocks) const {
  ProposedChange change{fmt::format("{} KV blocks", blocks),
                        {fmt::format("system.memory.blocks_override={}", blocks)}};
  const run::Deployment& deployment = question_.deployment;
  const std::string limit = FieldOfPolicy(deployment.traits.name, Setting::kMaxModelLen);
  const std::int64_t tokens =
      (blocks - 1) * deployment.capacity.block_size;  // one is vLLM's null block
  if (!limit.empty() && tokens < deployment.context_tokens_max) {
    change.fields.push_back(fmt::format("{}={}", limit, tokens));
  }
  return change;
}

// A candidate of a kind whose settings are numbers.
void Search::AddNumber(SettingKind kind, double value, std::vector<Candidate>& to) const {
  const std::string whole = std::to_string(std::llround(value));
  std::optional<ProposedChange> change;
  // As many generated at once, so that the limit was not lower.
  const bool is_possible = value >= static_cast<double>(most_.generating);
  if (kind == SettingKind::kSequences && is_possible) {
    change = write_.Of(Setting::kMaxNumSeqs, whole);
  }
  if (kind == SettingKind::kBudget) change = write_.Of(Setting::kTokenBudget, whole);
  if (kind == SettingKind::kBlocks) change = OfBlocks(std::llround(value));
  if (kind == SettingKind::kPrefix && question_.shared_load) {
    const double share = std::round(value);
    change = ProposedChange{fmt::format("prompts that share {:.0f} % of their tokens", share),
                            {"workload.trace.path=" + question_.shared_load(share / 100).string()}};
  }
  if (change) to.push_back({kind, value, *std::move(change)});
}

void Search::AddCandidates() {
  const PolicyTraits& traits = question_.deployment.traits;
  const auto generating = static_cast<double>(most_.generating);
  for (double sequences = 4; sequences <= 512; sequences *= 2) {
    if (sequences != traits.sequences_per_step_max && sequences != generating) {
      AddNumber(SettingKind::kSequences, sequences, candidates_);
    }
  }
  if (most_.generating > 0 && generating != traits.sequences_per_step_max) {
    AddNumber(SettingKind::kSequences, generating, candidates_);
  }
  for (double tokens = 512; tokens <= 16384; tokens *= 2) {
    if (tokens != traits.tokens_per_step_max) AddNumber(SettingKind::kBudget, tokens, candidates_);
  }
  for (const double share : {0.05, 0.1, 0.2, 0.35, 0.5, 0.7}) {
    AddNumber(SettingKind::kBlocks, std::max(1.0, share * question_.deployment.capacity.blocks),
              candidates_);
  }
  if (traits.caches_prefixes || traits.keeps_prefix_tree) {
    for (const double percent : {20.0, 40.0, 60.0, 80.0, 90.0}) {
      AddNumber(SettingKind::kPrefix, percent, candidates_);
    }
  }
  AddSwitches();
  if (config_.system.groups.empty()) AddHardware();
}

void Search::AddSwitches() {
  const PolicyTraits& traits = question_.deployment.traits;
  if (const auto* const profile = config_.cost.If<sim::ProfileCostConfig>()) {
    if (profile->captures_graphs) {
      Add(SettingKind::kGraphs, 0,
          ProposedChange{"no captured graphs (--enforce-eager, --disable-cuda-graph)",
                         {"cost.profile.captures_graphs=false"}});
    }
  }
  if (traits.steps_in_flight_max > 1) {
    Add(SettingKind::kScheduling, 0,
        ProposedChange{"synchronous scheduling",
                       {fmt::format("policy.{}.async_scheduling=false", traits.name)}});
  }
  const std::string cache = FieldOfPolicy(traits.name, Setting::kPrefixCaching);
  const bool caches = traits.caches_prefixes || traits.keeps_prefix_tree;
  const bool shares =
      std::ranges::any_of(question_.measured, [](const auto& one) { return one.session != 0; });
  if (!cache.empty() && shares) {
    Add(SettingKind::kPrefixCache, 0,
        ProposedChange{caches ? "no prefix cache" : "a prefix cache",
                       {fmt::format("{}={}", cache, !caches)}});
  }
  for (const char* const format : {"fp8", "bf16"}) {
    Add(SettingKind::kFormat, 0,
        ProposedChange{fmt::format("weights in {}", format),
                       {fmt::format("system.model_shape.weight_dtype={}", format)}});
  }
}

void Search::AddHardware() {
  const std::int32_t tensor = config_.system.parallelism.tensor;
  for (const std::int32_t ranks : {1, 2, 4, 8}) {
    if (ranks == tensor) continue;
    Add(SettingKind::kRanks, 0, write_.Of("--tp", "system.tensor_parallel", std::to_string(ranks)));
  }
  for (const std::string_view device : HardwarePresetNames()) {
    if (device == config_.system.hardware_spec.name) continue;
    Add(SettingKind::kDevice, 0, write_.Of("--hardware", "system.hardware", std::string(device)));
  }
}

// Geometric means of the best value of each kind and its neighbours.
std::vector<Candidate> Search::Refined(const std::vector<Tried>& tried) const {
  std::map<SettingKind, std::map<double, double>> distances;  // by value
  for (const Tried& one : tried) {
    if (one.parts.size() == 1 && one.parts.front().value > 0) {
      distances[one.parts.front().kind][one.parts.front().value] = one.distance;
    }
  }
  std::vector<Candidate> refined;
  for (const auto& [kind, values] : distances) {
    const auto best =
        std::ranges::min_element(values, {}, [](const auto& entry) { return entry.second; });
    if (!(best->second < own_distance_)) continue;
    const auto add = [&](double other) {
      const double between = std::sqrt(best->first * other);
      if (std::llround(between) == std::llround(best->first)) return;
      if (std::llround(between) != std::llround(other)) AddNumber(kind, between, refined);
    };
    if (best != values.begin()) add(std::prev(best)->first);
    if (std::next(best) != values.end()) add(std::next(best)->first);
  }
  return refined;
}

std::vector<Tried> Search::TryEach(const std::vector<Candidate>& candidates) {
  std::vector<std::vector<Candidate>> sets;
  for (const Candidate& candidate : candidates) sets.push_back({candidate});
  return TryAll(std::move(sets));
}

// The best candidates of the three best kinds, each with the best one of every other kind.
std::vector<Tried> Search::TryPairs(const std::vector<Tried>& tried) {
  std::map<SettingKind, const Tried*> best;
  for (const Tried& one : tried) {
    const Tried*& of_kind = best[one.parts.front().kind];
    if (of_kind == nullptr || one.distance < of_kind->distance) of_kind = &one;
  }
  std::vector<const Tried*> kinds;
  for (const auto& [kind, one] : best) kinds.push_back(one);
  std::ranges::stable_sort(kinds, {}, &Tried::distance);
  std::vector<std::vector<Candidate>> pairs;
  for (std::size_t i = 0; i < std::min(kKindsPaired, kinds.size()); ++i) {
    for (std::size_t j = i + 1; j < kinds.size(); ++j) {
      if (kinds[i]->distance >= own_distance_) continue;
      pairs.push_back({kinds[i]->parts.front(), kinds[j]->parts.front()});
    }
  }
  return TryAll(std::move(pairs));
}

std::vector<Tried> Search::TryAll(std::vector<std::vector<Candidate>> sets) {
  std::vector<Tried> tried;
  std::vector<ExperimentConfig> experiments;
  for (std::vector<Candidate>& parts : sets) {
    std::vector<std::string> changes;
    for (const Candidate& part : parts) {
      changes.insert(changes.end(), part.change.fields.begin(), part.change.fields.end());
    }
    try {
      ExperimentConfig config = ExperimentWith(question_.system, question_.replay.changes, changes);
      run::Resolve(config, costs_);
      experiments.push_back(std::move(config));
      tried.push_back({std::move(parts), HUGE_VAL, {}});
    } catch (const InputError&) {
      // Such a system does not start, so that it cannot be the measured one.
    }
  }
  std::vector<SimulatedClients> all = SimulateClients(experiments, costs_, control_);
  for (std::size_t i = 0; i < all.size(); ++i) {
    tried[i].distance = DistanceOf(all[i]);
    tried[i].clients = std::move(all[i]);
  }
  count_ += all.size();
  return tried;
}

void Search::Choose(std::vector<Tried>& tried, CauseSearch& search) const {
  // Two changes must explain twice as much as one.
  const auto cost = [](const Tried& one) {
    return one.distance * (one.parts.size() == 1 ? 1 : 1 / kCauseShare);
  };
  std::erase_if(tried,
                [&](const Tried& one) { return !(cost(one) <= kCauseShare * own_distance_); });
  if (tried.empty()) return;
  std::ranges::stable_sort(tried, {}, cost);
  const double least = cost(tried.front());
  const double most = std::max(kNearlyAsGood * least, least + kSameDistance);
  std::vector<const Tried*> named;  // the best of each kind
  for (const Tried& one : tried) {
    const auto is_same = [&](const Tried* other) { return KindOf(*other) == KindOf(one); };
    if (cost(one) <= most && std::ranges::none_of(named, is_same)) named.push_back(&one);
  }
  std::ranges::stable_sort(named, {},
                           [](const Tried* one) { return LikelihoodRank(KindOf(*one)); });
  for (const Tried* const one : named) {
    if (search.causes.size() == kCausesMax) break;
    std::string text = one->parts.front().change.text;
    if (one->parts.size() > 1) text += " with " + one->parts.back().change.text;
    search.causes.push_back({.text = std::move(text),
                             .error_percent = Percent(one->distance),
                             .waiting_ms = one->clients.waiting_ms,
                             .prefill_ms = one->clients.prefill_ms});
  }
}

std::string Search::MeasuredFact() const {
  const MostAtOnce simulated = MostAtOnceOf(question_.simulated.requests);
  const auto generating = static_cast<double>(most_.generating);
  const bool held = generating > 0 && static_cast<double>(most_.sent) > kHeldBack * generating;
  if (!held || static_cast<double>(simulated.generating) <= kHeldBack * generating) return "";
  return fmt::format("never more than {} requests generated at once though {} were sent",
                     most_.generating, most_.sent);
}

}  // namespace

std::vector<std::string> CauseLines(const CauseSearch& search, const SimulatedClients& simulated) {
  const std::string fact = search.measured_fact.empty() ? "" : search.measured_fact + "; ";
  if (search.causes.empty()) {
    return {fmt::format("Cause: {}none of {} changed settings halves the error ({} %)", fact,
                        search.tried, TableNumber(search.error_percent))};
  }
  std::vector<std::string> texts;
  for (const Cause& cause : search.causes) {
    texts.push_back(fmt::format("{} (then {} %)", cause.text, TableNumber(cause.error_percent)));
  }
  const Cause& first = search.causes.front();
  return {
      fmt::format("Cause: {}the error of {} % falls with {}", fact,
                  TableNumber(search.error_percent), fmt::join(texts, ", or ")),
      fmt::format("TTFT, simulated: waiting {} ms, prefill {} ms; with {}: waiting {}, prefill {}",
                  TableNumber(simulated.waiting_ms), TableNumber(simulated.prefill_ms), first.text,
                  TableNumber(first.waiting_ms), TableNumber(first.prefill_ms))};
}

MostAtOnce MostAtOnceOf(const std::vector<BenchmarkRequest>& requests) {
  const auto most = [&](const auto& begin_of) {
    std::vector<std::pair<TimePoint, int>> changes;
    for (const BenchmarkRequest& request : requests) {
      if (!request.ttft || !request.e2e) continue;
      changes.emplace_back(begin_of(request), 1);
      changes.emplace_back(request.sent + *request.e2e, -1);
    }
    std::ranges::sort(changes);
    std::ptrdiff_t now = 0;
    std::ptrdiff_t largest = 0;
    for (const auto& [time, change] : changes) largest = std::max(largest, now += change);
    return static_cast<std::size_t>(largest);
  };
  return {most([](const BenchmarkRequest& request) { return request.sent + *request.ttft; }),
          most([](const BenchmarkRequest& request) { return request.sent; })};
}

CauseSearch FindCauses(const CauseQuestion& question, run::CostCache& costs,
                       run::RunControl& control) {
  return Search(question, costs, control).Run();
}

}  // namespace twin::apps
