#include "apps/run/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/run/summary_number.h"
#include "core/number_text.h"
#include "traces/mixed_outputs.h"

namespace twin::apps {
namespace {

constexpr double kLostShare = 0.01;
constexpr double kFullCache = 0.98;
constexpr double kFullSteps = 0.9;  // share of a limit of steps
constexpr double kLongGap = 4;      // p99 of the gaps between tokens over their median
constexpr double kSomeWait = 0.5;   // requests that wait, on average
constexpr double kSpareShare = 0.05;
constexpr double kMemoryShareMax = 0.95;

// Reads the summary; a value that is not there is NaN, which fails every comparison.
class BottleneckSearch {
 public:
  BottleneckSearch(const ExperimentConfig& config, const Summary& summary,
                   const ChangeWriter* write)
      : config_(config),
        summary_(summary),
        write_(write),
        traits_(TraitsOf(config)),
        replicas_(config.system.replicas) {}

  [[nodiscard]] std::vector<Bottleneck> Find() const {
    std::vector<Bottleneck> found;
    for (const auto test :
         {&BottleneckSearch::Load, &BottleneckSearch::Losses, &BottleneckSearch::Cache,
          &BottleneckSearch::Sequences, &BottleneckSearch::Prompts, &BottleneckSearch::Gaps}) {
      if (std::optional<Bottleneck> one = (this->*test)()) found.push_back(*std::move(one));
    }
    return found;
  }

 private:
  using Changes = std::vector<ProposedChange>;

  [[nodiscard]] double Number(std::string_view name) const { return NumberIn(summary_, name); }

  void Propose(Setting setting, const std::string& value, Changes& changes) const {
    if (write_ == nullptr) return;
    if (auto change = write_->Of(setting, value)) changes.push_back(*std::move(change));
  }
  void ProposeTwiceTheRanks(Changes& changes) const {
    if (write_ == nullptr) return;
    if (auto change = write_->TwiceTheRanks()) changes.push_back(*std::move(change));
  }
  void ProposeReplicas(std::int64_t replicas, Changes& changes) const {
    if (write_ != nullptr) changes.push_back(write_->Replicas(replicas));
  }
  void ProposeTwiceTheBudget(Changes& changes) const {
    if (traits_.tokens_per_step_max == 0) return;
    Propose(Setting::kTokenBudget, std::to_string(2 * traits_.tokens_per_step_max), changes);
  }
  void ProposeTwiceTheSequences(Changes& changes) const {
    if (traits_.sequences_per_step_max == 0) return;
    Propose(Setting::kMaxNumSeqs, std::to_string(2 * traits_.sequences_per_step_max), changes);
  }
  void ProposeMoreMemory(Changes& changes) const {
    if (const std::optional<double> share = config_.system.memory.utilization) {
      const double more = std::min(*share + kSpareShare, kMemoryShareMax);
      if (more > *share) Propose(Setting::kMemoryShare, RoundedText(more, 3), changes);
    }
    Propose(Setting::kKvFormat, "fp8", changes);
    ProposeTwiceTheRanks(changes);
  }

  [[nodiscard]] std::optional<Bottleneck> Load() const {
    const SummaryValue* const saturated = summary_.Find("saturated");
    if (saturated == nullptr || *saturated != SummaryValue(std::string("yes"))) return std::nullopt;
    const double come = Number("offered_rate");
    const double leave = Number("completed_rate");
    if (!(leave > 0)) return std::nullopt;
    Changes changes;
    ProposeTwiceTheBudget(changes);
    ProposeTwiceTheSequences(changes);
    ProposeMoreMemory(changes);
    const double replicas = std::max(std::ceil(come / leave * replicas_), replicas_ + 1.0);
    ProposeReplicas(static_cast<std::int64_t>(replicas), changes);
    return Bottleneck{
        .text = fmt::format("load. {}/s come, {}/s leave", TableNumber(come), TableNumber(leave)),
        .metric = "p99_ttft_ms",
        .changes = std::move(changes)};
  }

  [[nodiscard]] std::optional<Bottleneck> Losses() const {
    const double lost = Number("rejected") + Number("cancelled");
    const double share = lost / Number("requests");
    if (!(share > kLostShare)) return std::nullopt;
    Changes changes;
    ProposeMoreMemory(changes);
    ProposeReplicas(replicas_ + 1, changes);
    return Bottleneck{
        .text = fmt::format("requests without an answer, {:.3g} % of them: latencies are of those "
                            "that were served",
                            100 * share),
        .metric = "completed",
        .changes = std::move(changes)};
  }

  [[nodiscard]] std::optional<Bottleneck> Cache() const {
    const double most = Number("max_kv_used_share");
    const double preemptions = Number("preemptions");
    const bool is_full = most >= kFullCache && Number("mean_waiting") > kSomeWait;
    if (!is_full && !(preemptions > 0)) return std::nullopt;
    Changes changes;
    ProposeMoreMemory(changes);
    ProposeReplicas(replicas_ + 1, changes);
    return Bottleneck{.text = fmt::format("KV cache. It is {:.3g} % full at most, with {:.0f} "
                                          "preemptions",
                                          100 * most, preemptions),
                      .metric = "p99_e2el_ms",
                      .changes = std::move(changes)};
  }

  [[nodiscard]] std::optional<Bottleneck> Sequences() const {
    const double limit = double{1} * traits_.sequences_per_step_max * replicas_;
    const double running = Number("mean_running");
    if (limit == 0 || !(running >= kFullSteps * limit)) return std::nullopt;
    if (!(Number("mean_waiting") > kSomeWait)) return std::nullopt;
    Changes changes;
    ProposeTwiceTheSequences(changes);
    ProposeReplicas(replicas_ + 1, changes);
    return Bottleneck{.text = fmt::format("sequences. {} run on average, of {:.0f} at most",
                                          TableNumber(running), limit),
                      .metric = "mean_ttft_ms",
                      .changes = std::move(changes)};
  }

  [[nodiscard]] std::optional<Bottleneck> Prompts() const {
    const double tokens = Number("mean_batch_tokens");
    const double waiting = Number("mean_waiting");
    const std::int32_t budget = traits_.tokens_per_step_max;
    if (budget == 0 || !(tokens >= kFullSteps * budget) || !(waiting > 1)) return std::nullopt;
    Changes changes;
    ProposeTwiceTheBudget(changes);
    ProposeTwiceTheRanks(changes);
    ProposeReplicas(replicas_ + 1, changes);
    return Bottleneck{
        .text = fmt::format("prompts. Steps hold {:.0f} of {} tokens on average, and {} requests "
                            "wait",
                            tokens, budget, TableNumber(waiting)),
        .metric = "mean_ttft_ms",
        .changes = std::move(changes)};
  }

  [[nodiscard]] std::optional<Bottleneck> Gaps() const {
    const double ratio = Number("p99_itl_ms") / Number("p50_itl_ms");
    if (!(ratio > kLongGap) || traits_.tokens_per_step_max == 0) return std::nullopt;
    if (write_ == nullptr) return std::nullopt;  // nothing could show it
    Changes changes;
    for (const int part : {2, 4, 8}) {
      const int budget = traits_.tokens_per_step_max / part;
      if (budget >= std::max(traits_.sequences_per_step_max, 1)) {
        Propose(Setting::kTokenBudget, std::to_string(budget), changes);
      }
    }
    return Bottleneck{.text = fmt::format("prompts between decodes. The p99 of ITL is {} times its "
                                          "median",
                                          TableNumber(ratio)),
                      .metric = "p99_itl_ms",
                      .is_certain = false,
                      .changes = std::move(changes)};
  }

  const ExperimentConfig& config_;
  const Summary& summary_;
  const ChangeWriter* write_;  // null: nothing is proposed
  PolicyTraits traits_;
  std::int32_t replicas_;
};

// The field that holds the load, its option, and its value.
struct LoadField {
  std::string path;
  std::string option;
  double value;
};

std::optional<LoadField> LoadFieldOf(const WorkloadConfig& workload) {
  const ArrivalConfig& arrivals = workload.arrivals;
  using Kind = ArrivalConfig::Kind;
  if (arrivals.kind == Kind::kClosedLoop) {
    return LoadField{"workload.arrivals.users", "--concurrency", double{1} * arrivals.users};
  }
  if (arrivals.kind == Kind::kAllAtOnce) return std::nullopt;
  if (arrivals.rate > 0) return LoadField{"workload.arrivals.rate", "--rate", arrivals.rate};
  if (!workload.trace) return std::nullopt;
  return LoadField{"workload.trace.rate_scale", "--rate-scale", workload.trace->rate_scale};
}

}  // namespace

std::vector<Bottleneck> BottlenecksOf(const ExperimentConfig& config, const Summary& summary,
                                      const ChangeWriter* write) {
  return BottleneckSearch(config, summary, write).Find();
}

ProposedChange TwiceTheLoad(const ExperimentConfig& config, bool has_options) {
  const std::optional<LoadField> load = LoadFieldOf(config.workload);
  if (!load) return {};
  const bool is_ramp = config.workload.arrivals.kind == ArrivalConfig::Kind::kRamp;
  if (is_ramp) return {};
  return ChangeWriter(config, has_options)
      .Of(load->option, load->path, ShortestText(2 * load->value));
}

std::optional<ProposedChange> MixedOutputs(const ExperimentConfig& config, bool has_options) {
  const WorkloadConfig& workload = config.workload;
  const ArrivalConfig& arrivals = workload.arrivals;
  const IntegerDistribution& outputs = workload.shape.output;
  const bool in_step = arrivals.kind == ArrivalConfig::Kind::kClosedLoop && arrivals.users > 1 &&
                       arrivals.think.mean == Duration::zero() && !workload.trace &&
                       workload.classes.empty() && !workload.servegen &&
                       workload.preset == WorkloadPreset::kNone &&
                       outputs.kind == IntegerDistribution::Kind::kFixed;
  const std::int64_t spread = OutputSpread(outputs.value);
  if (!in_step || spread == 0) return std::nullopt;
  const std::int64_t low = outputs.value - spread;
  const std::int64_t high = outputs.value + spread;
  const std::string range = fmt::format("{{ kind: uniform min: {} max: {} }}", low, high);
  ProposedChange change;
  change.fields = {"workload.shape.output=" + range};
  if (workload.max_output.kind == MaxOutputRule::Kind::kFixed) {
    change.fields.push_back(fmt::format("workload.max_output.value={}", high));
  }
  change.text = has_options ? fmt::format("--output-range {},{}", low, high)
                            : fmt::format("--set 'workload.shape.output={}'", range);
  return change;
}

std::string CapacityCommand(const ExperimentConfig& config, const std::string& experiment_file) {
  const std::optional<LoadField> load = LoadFieldOf(config.workload);
  if (!load) return "";
  const bool is_users = load->path == "workload.arrivals.users";
  const double low = is_users ? load->value : load->value / 10;
  const double high = load->value * (is_users ? 20 : 6);
  return fmt::format("twinserve capacity {} --vary {} --between {},{} --until 'p99_ttft_ms<=1000'",
                     experiment_file, load->path, RoundedText(low, 6), RoundedText(high, 6));
}

}  // namespace twin::apps
