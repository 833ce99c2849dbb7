#include "apps/validate/measured_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "apps/validate/measured_causes.h"
#include "apps/validate/measured_report.h"
#include "apps/validate/simulated_clients.h"
#include "apps/validate/step_predictor.h"
#include "apps/validate/ttft_parts.h"
#include "core/input_error.h"
#include "core/seed_range.h"
#include "core/statistics.h"
#include "run/cost_cache.h"
#include "run/deployment.h"
#include "sim/cost/cost_config.h"

namespace twin::apps {
namespace {

constexpr int kModelDraws = 36;  // as in checks/fidelity
constexpr double kFailuresShown = 0.01;

// The experiment with another seed, and with draw `draw` of the errors of cost model and boundary;
// 0: the median prediction.
ExperimentConfig Drawn(ExperimentConfig config, int seed, int draw) {
  config.seed += static_cast<std::uint64_t>(seed);
  const auto number = static_cast<std::uint64_t>(draw);
  if (draw == 0) return config;
  sim::SetDraw(config.cost, number);
  for (ReplicaGroup& group : config.system.groups) sim::SetDraw(group.cost, number);
  return config;
}

// The mean of each metric that all draws have.
run::MetricValues MeanOf(const std::vector<run::MetricValues>& draws) {
  run::MetricValues means = draws.front();
  for (auto entry = means.begin(); entry != means.end();) {
    double sum = 0;
    bool everywhere = true;
    for (const run::MetricValues& values : draws) {
      const auto found = values.find(entry->first);
      everywhere = everywhere && found != values.end();
      if (everywhere) sum += found->second;
    }
    entry->second = sum / static_cast<double>(draws.size());
    entry = everywhere ? std::next(entry) : means.erase(entry);
  }
  return means;
}

bool SameRequests(const std::vector<BenchmarkRequest>& a, const std::vector<BenchmarkRequest>& b) {
  return std::ranges::equal(a, b, [](const BenchmarkRequest& x, const BenchmarkRequest& y) {
    return x.sent == y.sent && x.prompt_tokens == y.prompt_tokens &&
           x.output_tokens == y.output_tokens;
  });
}

// Compares one run. Borrows all arguments of its constructor.
class Comparer {
 public:
  Comparer(const MeasuredQuestion& question, run::RunControl& control)
      : run_(question.run),
        system_(question.system),
        load_(question.load),
        records_(question.steps),
        control_(control),
        config_(ExperimentWith(system_, load_.replay.changes)),
        deployment_(run::Resolve(config_, costs_)),
        completed_(CompletedOf(run_.requests)),
        measured_(completed_) {}

  MeasuredComparison Compare() {
    if (records_ != nullptr) (void)StepPredictor(deployment_);  // refuses before the simulations
    result_.load = load_.replay.text;
    result_.facts = system_.facts;
    Measure();
    Simulate();
    AddErrors();
    AddSteps();
    AddConversations();
    AddWaitingReading();
    AddCauses();
    ExplainBySteps();
    AddTtftParts();
    AddEffects();
    Explain();
    AddAssumptions();
    AddAdvice();
    result_.measured = std::move(completed_);
    result_.simulated = std::move(base_.requests);
    result_.has_times = run_.has_times;
    result_.paired = paired_;
    return std::move(result_);
  }

 private:
  void Measure();
  void MeasureTotals();
  void Simulate();
  void AddErrors();
  void AddSteps();
  void ExplainBySteps();
  void AddTtftParts();
  void AddWaitingReading();
  void AddCauses();
  void AddEffects();
  void AddEffect(const Variant& variant, const SimulatedClients& changed);
  void Explain();
  void ExplainByPart(const MetricError& error);
  void AddAssumptions();
  void AddAdvice();
  void AddConversations();
  [[nodiscard]] bool IsAnyMeanOff() const {
    return std::ranges::any_of(result_.errors, [](const MetricError& error) {
      return StatisticOf(error.metric) == "mean" && error.verdict() == ErrorVerdict::kOff;
    });
  }
  [[nodiscard]] bool SharesContent() const {
    return std::ranges::any_of(completed_, [](const auto& one) { return one.session != 0; });
  }
  // The variance of ln(simulated / measured): the sum of the parts that are known. One draw of the
  // arrivals was measured, and their mean is that of all draws.
  [[nodiscard]] double LogVariance(const std::string& metric) const {
    const auto sampling = sampling_.find(metric);
    const auto arrivals = arrivals_.find(metric);
    double variance = std::numeric_limits<double>::quiet_NaN();
    if (ranges_.contains(metric)) variance = 0;  // the range holds the chance of the measured run
    if (sampling != sampling_.end()) variance = sampling->second;
    if (arrivals != arrivals_.end()) {
      const double of_draws = arrivals->second * (1 + 1.0 / load_.replay.draws);
      variance = std::isfinite(variance) ? variance + of_draws : of_draws;
    }
    if (const auto model = model_.find(metric); model != model_.end()) {
      variance = std::isfinite(variance) ? variance + model->second : variance;
    }
    return variance;
  }
  [[nodiscard]] const MetricError* Find(const std::string& metric) const {
    const auto found = std::ranges::find(result_.errors, metric, &MetricError::metric);
    return found == result_.errors.end() ? nullptr : &*found;
  }

  const BenchmarkRun& run_;
  const MeasuredSystem& system_;
  const MeasuredLoad& load_;
  const StepRecords* records_;
  run::RunControl& control_;
  run::CostCache costs_;
  ExperimentConfig config_;
  run::Deployment deployment_;
  std::vector<BenchmarkRequest> completed_;  // of the measured run
  run::ClientMetrics measured_;
  run::MetricValues measured_values_;
  std::map<std::string, QuantileRange> ranges_;  // of the measured quantiles that buckets give
  SimulatedClients base_;  // the median prediction, with the first draw of the arrivals
  run::MetricValues simulated_values_;
  double waiting_ms_ = 0;  // simulated parts of TTFT, means over the draws of the arrivals
  double prefill_ms_ = 0;
  bool paired_ = false;
  bool has_model_draws_ = false;
  LogVariances sampling_;
  LogVariances model_;
  LogVariances arrivals_;
  std::string without_effect_;  // names of variants
  MeasuredComparison result_;
};

void Comparer::MeasureTotals() {
  measured_values_ = run_.totals;
  std::erase_if(measured_values_, [](const auto& entry) {
    return StatisticOf(entry.first) != "mean" && entry.first != run::kThroughput;
  });
  if (!HasLengthHistograms(run_)) {  // percentiles of requests of one length say nothing
    result_.notes.emplace_back(
        "the file holds totals alone: too little to judge percentiles, and no interval; means of "
        "requests of the mean length are compared");
    return;
  }
  for (const char* latency : run::kClientLatencies) {
    const auto found = run_.histograms.find(latency);
    if (found == run_.histograms.end() || found->second.buckets.empty()) continue;
    for (const char* statistic : {"p50", "p90", "p99"}) {
      const QuantileRange range = found->second.Quantile(run::ShareOf(statistic));
      const std::string metric = fmt::format("{}_{}_ms", statistic, latency);
      ranges_[metric] = range;
      measured_values_[metric] = range.middle;
    }
  }
  result_.notes.emplace_back(
      "the snapshots hold histograms alone: percentiles are known to the width of a bucket; they "
      "cannot tell when requests were sent, which prompt had which answer, and how much the run's "
      "means would differ if it were repeated");
}

void Comparer::Measure() {
  result_.notes = run_.notes;
  result_.notes.insert(result_.notes.end(), system_.contradictions.begin(),
                       system_.contradictions.end());
  if (!system_.ignored.empty()) {
    result_.notes.push_back(
        fmt::format("said of the server, not simulated: {}", FactsText(system_.ignored)));
  }
  if (run_.requests.empty()) {
    MeasureTotals();
  } else {
    measured_values_ = measured_.Values();
    if (run_.has_times) measured_values_.merge(run::ThroughputOf(completed_));
    if (!run_.has_times && run_.totals.contains(run::kThroughput)) {
      measured_values_[run::kThroughput] = run_.totals.at(run::kThroughput);
    }
    if (!run::CountsTokens(completed_)) {
      std::erase_if(measured_values_,
                    [](const auto& entry) { return LatencyOf(entry.first) == "itl"; });
      if (measured_.CountOf("itl") > 0) {
        result_.notes.emplace_back(
            "ITL is not compared: the file has the gaps between chunks of several tokens");
      }
    }
  }
  const std::int64_t failed = run_.failed();
  const auto all =
      static_cast<double>(run_.requests.empty() ? failed + std::llround(run_.totals.at("completed"))
                                                : static_cast<std::int64_t>(run_.requests.size()));
  if (failed == 0) return;
  const std::string text = fmt::format("{} of {:.0f} requests failed and {} left out", failed, all,
                                       failed == 1 ? "is" : "are");
  result_.notes.push_back(text);
  if (static_cast<double>(failed) > kFailuresShown * all) {
    control_.OnWarning(fmt::format("{}: {}, although their prompts were load", run_.name, text));
  }
}

void Comparer::Simulate() {
  const bool drawn = load_.replay.draws > 1;
  RequireSeeds("the experiment", config_.seed, kModelDraws + 1);
  has_model_draws_ = sim::TraitsOf(config_.cost).is_measured;
  std::vector<ExperimentConfig> experiments;
  for (int i = 0; i < load_.replay.draws; ++i) experiments.push_back(Drawn(config_, i, 0));
  const std::size_t arrivals = experiments.size();
  if (has_model_draws_) {
    for (int i = 1; i <= kModelDraws; ++i) {
      experiments.push_back(Drawn(config_, drawn ? 0 : i, i));
    }
  }
  std::vector<SimulatedClients> all = SimulateClients(experiments, costs_, control_);
  std::vector<run::MetricValues> values;
  for (const SimulatedClients& one : all) values.push_back(one.Values());
  const std::vector<run::MetricValues> of_arrivals(
      values.begin(), values.begin() + static_cast<std::ptrdiff_t>(arrivals));
  simulated_values_ = MeanOf(of_arrivals);
  for (std::size_t i = 0; i < arrivals; ++i) {
    waiting_ms_ += all[i].waiting_ms / static_cast<double>(arrivals);
    prefill_ms_ += all[i].prefill_ms / static_cast<double>(arrivals);
  }
  if (drawn) arrivals_ = VariancesOver(of_arrivals);
  if (has_model_draws_) {
    model_ = VariancesOver({values.begin() + static_cast<std::ptrdiff_t>(arrivals), values.end()});
  }
  base_ = std::move(all.front());
  paired_ = load_.replay.paired && SameRequests(completed_, base_.requests);
  if (!completed_.empty()) {
    const run::ClientMetrics simulated(base_.requests);
    sampling_ = ResampledVariances(measured_, paired_ ? &simulated : nullptr, completed_.size());
    if (paired_) {  // the simulation's gaps are known in total alone
      const LogVariances alone = ResampledVariances(measured_, nullptr, completed_.size());
      for (const auto& [metric, variance] : alone) sampling_.try_emplace(metric, variance);
    }
    const std::span<const BenchmarkRequest> paired = base_.requests;
    if (const auto variance = ThroughputVariance(completed_, paired_ ? paired : paired.first(0))) {
      sampling_[run::kThroughput] = *variance;
    }
  }
  if (base_.lost > 0) {
    result_.notes.push_back(
        fmt::format("{} requests that were answered were not in the simulation: rejected, or "
                    "cancelled",
                    base_.lost));
  }
}

void Comparer::AddErrors() {
  const auto add = [&](const std::string& metric) {
    const auto measured = measured_values_.find(metric);
    const auto simulated = simulated_values_.find(metric);
    if (measured == measured_values_.end() || simulated == simulated_values_.end()) return;
    if (!(measured->second > 0) || !(simulated->second > 0)) return;
    const std::int64_t requests = run_.requests.empty() ? std::llround(run_.totals.at("completed"))
                                  : metric == run::kThroughput
                                      ? static_cast<std::int64_t>(completed_.size())
                                      : measured_.CountOf(LatencyOf(metric));
    const auto range = ranges_.find(metric);
    result_.errors.push_back(
        {.metric = metric,
         .measured = measured->second,
         .simulated = simulated->second,
         .requests = requests,
         .log_sd = std::sqrt(LogVariance(metric)),
         .range = range == ranges_.end() ? std::nullopt : std::optional(range->second)});
  };
  for (const char* latency : run::kClientLatencies) {
    for (const char* statistic : run::kClientStatistics)
      add(fmt::format("{}_{}_ms", statistic, latency));
  }
  add(run::kThroughput);
  if (!result_.errors.empty()) return;
  throw InputError(InputError::Kind::kData, run_.name,
                   "has no latency and no throughput to compare; allowed: a file with times of "
                   "tokens, as with --save-detailed");
}

void Comparer::AddSteps() {
  if (records_ == nullptr) return;
  MeasuredWork work;
  if (run_.requests.empty()) {
    work.requests = run_.totals.at("completed");
    work.decodes = run_.totals.at("total_output_tokens") - work.requests;
  }
  for (const BenchmarkRequest& request : completed_) {
    work.requests += 1;
    work.decodes += request.output_tokens - 1;
  }
  result_.steps =
      CompareSteps(*records_, deployment_, SimulateSteps(config_, costs_, control_), work);
  if (!system_.drafts.empty()) {
    result_.notes.emplace_back("the predicted times are of steps without drafts");
  }
}

// How much of the errors the times of steps are, where a mean is off.
void Comparer::ExplainBySteps() {
  if (!result_.steps || result_.steps->classes.empty() || !IsAnyMeanOff()) return;
  std::string line = fmt::format("Step times at the recorded batches are off by {:+.1f} %",
                                 result_.steps->classes.back().percent());
  for (const char* metric : {"mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"}) {
    const MetricError* const error = Find(metric);
    if (error != nullptr)
      line += fmt::format(", {} by {:+.1f} %", TitleOf(metric), error->percent());
  }
  result_.explanation.push_back(line + ": batches, queues and the boundary are the rest");
}

void Comparer::AddTtftParts() {
  const auto simulated_ttft = simulated_values_.find("mean_ttft_ms");
  if (simulated_ttft == simulated_values_.end()) return;
  const auto ttft = measured_values_.find("mean_ttft_ms");
  TtftMeans means{.measured_ms = {}, .simulated_ms = simulated_ttft->second};
  if (ttft != measured_values_.end()) means.measured_ms = ttft->second;
  // Below a nanosecond, the difference of the means is rounding.
  const double rest_ms =
      std::round(1e6 * (simulated_ttft->second - waiting_ms_ - prefill_ms_)) / 1e6;
  const TtftParts simulated{
      .waiting_ms = waiting_ms_, .prefill_ms = prefill_ms_, .boundary_ms = std::max(rest_ms, 0.0)};
  const TtftParts measured = MeasuredTtftParts(run_, completed_);
  if (const std::string line = TtftPartsLine(measured, simulated, means); !line.empty()) {
    result_.explanation.push_back("Where the time goes" + line);
  }
  if (!result_.steps || measured.prefill_ms) return;
  if (result_.steps->missing.empty()) {
    result_.explanation.push_back(
        "Where the time goes by the steps" +
        TtftPartsLine(result_.steps->measured_parts, result_.steps->simulated_parts, {}));
  } else {
    result_.notes.push_back("the records do not tell how long requests waited: " +
                            result_.steps->missing);
  }
}

// A turn that is sent at its recorded time does not wait for a simulated answer that comes later
// than the measured one.
void Comparer::AddConversations() {
  std::map<std::uint64_t, std::optional<TimePoint>> ends;  // of the latest simulated answers
  std::int64_t turns = 0;
  std::int64_t early = 0;
  for (std::size_t i = 0; i < completed_.size(); ++i) {
    if (completed_[i].session == 0) continue;
    ++turns;
    if (!paired_) continue;
    std::optional<TimePoint>& end = ends[completed_[i].session];
    const BenchmarkRequest& simulated = base_.requests[i];
    if (end && simulated.sent < *end) ++early;
    if (simulated.e2e) end = simulated.sent + *simulated.e2e;
  }
  if (turns == 0) return;
  std::string text = fmt::format(
      "{} requests are turns of conversations; prompts long enough to repeat what was said share "
      "it with the turn before",
      turns);
  if (early > 0) {
    text += fmt::format(
        "; {} of them are sent at their recorded times before the simulated answer "
        "to the turn before has ended",
        early);
  }
  result_.notes.push_back(text);
}

void Comparer::AddWaitingReading() {
  if (!load_.waiting) return;
  const std::vector<SimulatedClients> waiting =
      SimulateClients({ExperimentWith(system_, load_.waiting->changes)}, costs_, control_);
  const run::MetricValues values = waiting.front().Values();
  std::string text = fmt::format("with {} in place of the recorded times", load_.waiting->text);
  for (const char* metric : {"mean_ttft_ms", "mean_e2el_ms", run::kThroughput}) {
    const MetricError* const error = Find(metric);
    const auto value = values.find(metric);
    if (error == nullptr || value == values.end()) continue;
    text += fmt::format(", {} is off by {:+.1f} % ({:+.1f} %)", TitleOf(metric),
                        100 * (value->second / error->measured - 1), error->percent());
  }
  result_.notes.push_back(text);
}

// Named first: where a mean is off, the settings that would explain it.
void Comparer::AddCauses() {
  if (!IsAnyMeanOff()) return;
  std::vector<std::filesystem::path> written;
  const auto write_shared = [&](double share) {
    written.push_back(load_.file.parent_path() /
                      fmt::format("{}_shared_{:.0f}.csv", load_.file.stem().string(), 100 * share));
    WriteLoad(run_, written.back(), share);
    return std::filesystem::absolute(written.back()).lexically_normal();
  };
  const std::vector<BenchmarkRequest> without_times;
  CauseQuestion question{.system = system_,
                         .replay = load_.replay,
                         .deployment = deployment_,
                         .measured = run_.has_times ? completed_ : without_times,
                         .measured_values = measured_values_,
                         .simulated = base_,
                         .paired = paired_,
                         .has_options = system_.has_options,
                         .shared_load = {}};
  if (!run_.requests.empty()) question.shared_load = write_shared;
  const CauseSearch found = FindCauses(question, costs_, control_);
  for (const std::filesystem::path& file : written) std::filesystem::remove(file);
  result_.explanation = CauseLines(found, base_);
}

void Comparer::AddEffect(const Variant& variant, const SimulatedClients& changed) {
  const run::MetricValues before = base_.Values();
  const run::MetricValues after = changed.Values();
  if (before == after) {
    without_effect_ += fmt::format("{}{}", without_effect_.empty() ? "" : ", ", variant.name);
    return;
  }
  const bool same = SameRequests(base_.requests, changed.requests);
  for (const char* latency : {"ttft", "tpot", "e2el"}) {
    const std::string metric = fmt::format("mean_{}_ms", latency);
    const MetricError* const error = Find(metric);
    if (error == nullptr || !before.contains(metric) || !after.contains(metric)) continue;
    PartEffect effect{.kind = variant.kind,
                      .name = variant.name,
                      .metric = metric,
                      .simulated = after.at(metric),
                      .error_percent = 100 * (after.at(metric) / error->measured - 1),
                      .effect_ms = before.at(metric) - after.at(metric),
                      .effect_sd_ms = std::numeric_limits<double>::quiet_NaN()};
    if (same && before.at(metric) != after.at(metric)) {
      effect.effect_sd_ms =
          DifferenceSd(run::ClientMetrics(base_.requests), run::ClientMetrics(changed.requests),
                       base_.requests.size(), metric);
    }
    result_.effects.push_back(std::move(effect));
  }
}

void Comparer::AddEffects() {
  std::vector<Variant> variants;
  std::vector<ExperimentConfig> experiments;
  for (Variant& variant : VariantsOf(config_, deployment_)) {
    try {
      ExperimentConfig config = ExperimentWith(system_, load_.replay.changes, variant.changes);
      run::Resolve(config, costs_);
      experiments.push_back(std::move(config));
      variants.push_back(std::move(variant));
    } catch (const InputError& error) {  // such a system cannot start
      result_.notes.push_back(fmt::format("not tried: {}: {}", variant.name, error.what()));
    }
  }
  const std::vector<SimulatedClients> all = SimulateClients(experiments, costs_, control_);
  for (std::size_t i = 0; i < all.size(); ++i) AddEffect(variants[i], all[i]);
  if (without_effect_.empty()) return;
  result_.notes.push_back("no effect on this run: " + without_effect_);
}

// The part whose removal changes the error most, in the metric that it changes most.
void Comparer::ExplainByPart(const MetricError& error) {
  const PartEffect* largest = nullptr;
  for (const PartEffect& effect : result_.effects) {
    if (effect.kind != Variant::Kind::kPart || effect.metric != error.metric) continue;
    if (largest == nullptr || std::abs(effect.effect_ms) > std::abs(largest->effect_ms)) {
      largest = &effect;
    }
  }
  if (largest == nullptr || largest->effect_ms == 0) return;
  const std::string interval =
      std::isfinite(largest->effect_sd_ms) && error.requests >= run::RequestsNeeded("mean")
          ? fmt::format(" [{:.2f}, {:.2f}]", largest->effect_ms - 1.96 * largest->effect_sd_ms,
                        largest->effect_ms + 1.96 * largest->effect_sd_ms)
          : "";
  result_.explanation.push_back(
      fmt::format("{}: the part that matters most is the {}: {:.2f} ms{}; without it the error is "
                  "{:+.1f} % in place of {:+.1f} %",
                  TitleOf(error.metric), largest->name, largest->effect_ms, interval,
                  largest->error_percent, error.percent()));
}

void Comparer::Explain() {
  if (!system_.drafts.empty()) {
    result_.explanation.push_back(fmt::format(
        "the server verified drafts, and the simulation does not: {}", FactsText(system_.drafts)));
  }
  for (const char* metric : {"mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"}) {
    const MetricError* const error = Find(metric);
    if (error == nullptr) continue;
    ExplainByPart(*error);
  }
}

void Comparer::AddAssumptions() {
  const PolicyTraits& traits = deployment_.traits;
  const auto limit = [](std::int32_t value) {
    return value == 0 ? std::string("no limit") : std::to_string(value);
  };
  result_.assumed = {
      fmt::format("policy {}", traits.name),
      fmt::format("tokens a step: {}", limit(traits.tokens_per_step_max)),
      fmt::format("sequences a step: {}", limit(traits.sequences_per_step_max)),
      fmt::format("longest request: {}", deployment_.context_tokens_max),
      fmt::format("prefix cache: {}", traits.caches_prefixes || traits.keeps_prefix_tree
                                          ? SharesContent()
                                                ? "on; turns share what was said"
                                                : "on, but no prompt is known to be shared"
                                          : "off"),
      fmt::format("KV blocks: {}{}", deployment_.capacity.blocks,
                  system_.kv_blocks_known ? "" : " by the memory rule of the server"),
      fmt::format("boundary: {}", sim::HasDelays(deployment_.world.boundary)
                                      ? "the times are the clients'"
                                      : "none")};
}

void Comparer::AddAdvice() {
  std::vector<std::string>& advice = result_.to_record;
  if (run_.requests.empty()) {
    advice.emplace_back("every request: --save-detailed (vLLM), --output-details (SGLang)");
  } else if (!run_.has_times) {
    advice.emplace_back(
        "when requests were sent: a client that saves it, such as `vllm bench "
        "serve --save-detailed` against the same server, or AIPerf");
  }
  if (!run_.requests.empty() && measured_.CountOf("itl") == 0) {
    advice.emplace_back("the times between tokens, which tell prefill from decode");
  }
  if (records_ == nullptr) {
    advice.emplace_back(
        "the steps of the server, for --steps: Dynamo's --fpm-trace with DYN_FPM_MODE=full");
  }
  if (!system_.kv_blocks_known) {
    advice.emplace_back(
        "the KV blocks of the server's start log: --metadata num_gpu_blocks=N "
        "(vLLM bench), or --set system.memory.blocks_override=N here");
  }
  if (run_.histograms.empty()) {
    advice.emplace_back(
        "`curl SERVER/metrics` before and after the run: preemptions, prefix hits, and the "
        "server's own times, which `validate --measured BEFORE AFTER` compares");
  }
  if (!completed_.empty() &&
      static_cast<std::int64_t>(completed_.size()) < run::RequestsNeeded("p99")) {
    advice.push_back(
        fmt::format("at least {} requests, so that p99 can be judged", run::RequestsNeeded("p99")));
  }
  if (!has_model_draws_) {
    result_.notes.emplace_back(
        "the cost model does not know its errors (only cost.profile does): intervals hold the "
        "chance of the measured run alone");
  }
}

}  // namespace

MeasuredComparison CompareMeasured(const MeasuredQuestion& question, run::RunControl& control) {
  return Comparer(question, control).Compare();
}

}  // namespace twin::apps
