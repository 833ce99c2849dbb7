#include "run/judge/judged_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "core/input_error.h"
#include "run/record/metric_catalog.h"
#include "run/simulation.h"

namespace twin::run {
namespace {

constexpr double kPenaltySeconds = 60;

// Keeps what the judge needs of every request and step.
class JudgeMeter final : public RunListener {
 public:
  JudgeMeter(const sim::StepCost& cost, JudgedRun& run) : cost_(cost), run_(run) {}

  void OnArrived(TimePoint /*now*/, const RequestLife& life) override {
    JudgedRequest& request = At(life);
    request.offered = true;
    request.name = {.tenant = life.tenant, .session = life.session};
    request.name.turn = turns_[{life.tenant, life.session}]++;
    ++run_.offered;
  }

  void OnEnded(const RequestLife& life) override {
    JudgedRequest& request = At(life);
    request.status = life.status;
    request.reject_reason = life.reject_reason;
    request.prompt_tokens = life.prompt_tokens;
    request.output_tokens = life.output_tokens;
    request.longest_gap_s = Seconds(life.longest_gap);
    if (life.has_tokens()) request.ttft_s = Seconds(life.first_received() - life.arrival);
    if (life.status == RequestStatus::kCompleted) {
      request.e2e_s = Seconds(life.last_received() - life.arrival);
    } else {
      // Its time until the end of the run: known when that is.
      request.e2e_s = -Seconds(life.arrival);
    }
    run_.end_s = std::max(run_.end_s, Seconds(life.ended));
  }

  void OnStepEnded(const EndedStep& step) override {
    const StepTotals& totals = step.plan.totals;
    const double seconds = Seconds(step.finished - step.started);
    seconds_ += seconds;
    if (!cost_.Covers(totals)) outside_s_ += seconds;
    run_.largest_step_tokens = std::max(run_.largest_step_tokens, totals.tokens());
    run_.largest_step_sequences =
        std::max(run_.largest_step_sequences, static_cast<std::int64_t>(step.plan.work.size()));
  }

  void Finish() {
    run_.outside_share = seconds_ > 0 ? outside_s_ / seconds_ : 0;
    for (JudgedRequest& request : run_.requests) {
      if (!request.offered || request.status == RequestStatus::kCompleted) continue;
      request.e2e_s += run_.end_s + kPenaltySeconds;
      if (request.ttft_s == 0) request.ttft_s = request.e2e_s;
      request.longest_gap_s = std::max(request.longest_gap_s, request.e2e_s - request.ttft_s);
    }
  }

 private:
  JudgedRequest& At(const RequestLife& life) {
    const std::size_t index = Index(life.id);
    if (index >= run_.requests.size()) run_.requests.resize(index + 1);
    return run_.requests[index];
  }

  const sim::StepCost& cost_;
  JudgedRun& run_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::int32_t> turns_;  // so far
  double seconds_ = 0;
  double outside_s_ = 0;
};

std::string TextOf(const Summary& summary, const char* name) {
  const SummaryValue* const value = summary.Find(name);
  const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? "" : *text;
}

double NumberOf(const Summary& summary, const std::string& name) {
  const SummaryValue* const value = summary.Find(name);
  if (value == nullptr || std::holds_alternative<std::string>(*value)) return std::nan("");
  return summary.Number(name);
}

}  // namespace

JudgedRun RunJudged(const Deployment& deployment, RunControl& control, RunObserver* tap,
                    const std::string& metric) {
  JudgedRun run;
  JudgeMeter meter(*deployment.cost, run);
  RunWatchers watchers{.listeners = {&meter}, .observers = {}};
  if (tap != nullptr) watchers.observers.push_back(tap);
  const RunOutcome outcome = Simulate(deployment, control, watchers);
  meter.Finish();
  run.digest = TextOf(outcome.summary, "digest");
  run.saturated = TextOf(outcome.summary, "saturated");
  run.interrupted = outcome.interrupted;
  if (!metric.empty()) run.metric = NumberOf(outcome.summary, metric);
  run.mean_e2e_s = NumberOf(outcome.summary, "mean_e2el_ms") / 1e3;
  return run;
}

std::vector<RequestPair> PairRequests(const JudgedRun& one, const JudgedRun& other) {
  std::map<RequestName, const JudgedRequest*> of_one;
  for (const JudgedRequest& request : one.requests) {
    if (request.offered) of_one[request.name] = &request;
  }
  std::vector<RequestPair> pairs;
  for (const JudgedRequest& request : other.requests) {
    if (!request.offered) continue;
    const auto same = of_one.extract(request.name);
    pairs.push_back({same.empty() ? nullptr : same.mapped(), &request});
  }
  for (const JudgedRequest& request : one.requests) {
    if (of_one.contains(request.name)) pairs.push_back({&request, nullptr});
  }
  return pairs;
}

double Utility(const JudgedRun& run) {
  double sum_log_e2e = 0;
  double sum_ttft = 0;
  std::vector<double> gaps;
  for (const JudgedRequest& request : run.requests) {
    if (!request.offered) continue;
    sum_log_e2e += std::log(std::max(request.e2e_s, kShortestSeconds));
    sum_ttft += request.ttft_s;
    gaps.push_back(std::max(request.longest_gap_s, kShortestSeconds));
  }
  if (gaps.empty()) return 0;
  const auto count = static_cast<double>(gaps.size());
  const auto rank = static_cast<std::size_t>(std::ceil(0.99 * count)) - 1;
  std::ranges::nth_element(gaps, gaps.begin() + static_cast<std::ptrdiff_t>(rank));
  return -(0.5 * sum_log_e2e / count +
           0.3 * std::log(std::max(sum_ttft / count, kShortestSeconds)) +
           0.2 * std::log(gaps[rank]));
}

double MetricUtility(const JudgedRun& run, const std::string& metric) {
  const std::optional<bool> higher = HigherIsBetter(metric);
  if (!higher) {
    throw InputError(
        InputError::Kind::kUsage, "judge --metric",
        fmt::format("{} is no metric of which more or less is better; allowed: keys of "
                    "summary.json such as mean_e2el_ms",
                    metric));
  }
  if (!(run.metric > 0 && std::isfinite(run.metric))) {
    throw InputError(
        InputError::Kind::kUsage, "judge --metric",
        fmt::format("{} is {} in a run; allowed: metrics above 0", metric, run.metric));
  }
  return *higher ? std::log(run.metric) : -std::log(run.metric);
}

}  // namespace twin::run
