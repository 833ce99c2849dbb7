#include "run/judge/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

namespace twin::run {
namespace {

constexpr double kStarvedFactor = 10;
constexpr double kStarvedSeconds = 30;
constexpr double kClassWorse = 1.5;
constexpr double kTradeWorse = 1.1;
constexpr double kOutsideShare = 0.01;

bool IsServed(const JudgedRequest& request) { return request.status == RequestStatus::kCompleted; }

// The length that the requests which were not served have in common, if there is one.
std::string InCommon(const std::vector<const JudgedRequest*>& lost, const JudgedRun& run) {
  std::int32_t shortest = lost.front()->prompt_tokens;
  for (const JudgedRequest* request : lost) {
    shortest = std::min(shortest, request->prompt_tokens);
  }
  const auto longer = std::ranges::count_if(run.requests, [&](const JudgedRequest& request) {
    return IsServed(request) && request.prompt_tokens >= shortest;
  });
  return longer == 0 ? fmt::format(", all of {} prompt tokens or more", shortest) : "";
}

constexpr double kTail = 0.95;

// The share of the run's requests with a smaller value, for each request.
std::vector<double> Ranks(const JudgedRun& run,
                          const std::function<std::int32_t(const JudgedRequest&)>& value) {
  std::vector<std::int32_t> sorted;
  for (const JudgedRequest& request : run.requests) {
    if (request.offered) sorted.push_back(value(request));
  }
  std::ranges::sort(sorted);
  std::vector<double> ranks;
  for (const JudgedRequest& request : run.requests) {
    const auto below = std::ranges::lower_bound(sorted, value(request)) - sorted.begin();
    ranks.push_back(static_cast<double>(below) /
                    static_cast<double>(std::max<std::size_t>(1, sorted.size())));
  }
  return ranks;
}

}  // namespace

std::optional<GateFailure> CheckServed(const JudgedRun& run, const JudgedRun& reference) {
  std::vector<const JudgedRequest*> lost;
  std::int64_t reference_lost = 0;
  for (std::size_t i = 0; i < reference.requests.size(); ++i) {
    const JudgedRequest& other = reference.requests[i];
    if (!other.offered) continue;
    if (!IsServed(other)) ++reference_lost;
    const bool served = i < run.requests.size() && IsServed(run.requests[i]);
    if (IsServed(other) && !served && i < run.requests.size()) lost.push_back(&run.requests[i]);
    if (i >= run.requests.size()) {
      return GateFailure{"G4", fmt::format("request {} never came", i)};
    }
  }
  if (lost.empty()) return std::nullopt;
  const auto refused = std::ranges::count(lost, RequestStatus::kRejected, &JudgedRequest::status);
  const std::string how = refused == std::ssize(lost) ? "were refused" : "did not complete";
  return GateFailure{"G4", fmt::format("{} of {} requests {} (the reference: {}){}", lost.size(),
                                       run.offered, how, reference_lost, InCommon(lost, run))};
}

std::optional<GateFailure> CheckNobodyStarves(const JudgedRun& run, const JudgedRun& reference) {
  std::int64_t starved = 0;
  std::size_t worst = 0;
  double worst_excess = 0;
  for (std::size_t i = 0; i < run.requests.size() && i < reference.requests.size(); ++i) {
    if (!IsServed(reference.requests[i])) continue;
    const double limit = kStarvedFactor * reference.requests[i].e2e_s + kStarvedSeconds;
    const double excess = run.requests[i].e2e_s / limit;
    if (excess <= 1) continue;
    ++starved;
    if (excess <= worst_excess) continue;
    worst_excess = excess;
    worst = i;
  }
  if (starved == 0) return std::nullopt;
  const JudgedRequest& request = run.requests[worst];
  return GateFailure{
      "G5",
      fmt::format("{} of {} requests starve: one of {} prompt tokens takes {:.1f} s, with the "
                  "reference {:.1f} s; allowed: {:g} times as long and {:g} s more",
                  starved, run.offered, request.prompt_tokens, request.e2e_s,
                  reference.requests[worst].e2e_s, kStarvedFactor, kStarvedSeconds)};
}

std::optional<GateFailure> CheckTraits(const PolicyTraits& traits, const PolicyTraits& system) {
  const std::int32_t tokens = traits.tokens_per_step_max;
  if (system.tokens_per_step_max > 0 && (tokens == 0 || tokens > system.tokens_per_step_max)) {
    return GateFailure{
        "G6", fmt::format("tokens_per_step_max is {}; allowed in this system: 1 to {}, which its "
                          "memory was planned for",
                          tokens, system.tokens_per_step_max)};
  }
  if (traits.step_engine != system.step_engine || traits.memory_rule != system.memory_rule) {
    return GateFailure{"G6", fmt::format("its traits say step_engine {} and memory_rule {}; this "
                                         "system has {} and {}",
                                         traits.step_engine, traits.memory_rule, system.step_engine,
                                         system.memory_rule)};
  }
  if (traits.steps_in_flight_max > system.steps_in_flight_max) {
    return GateFailure{"G6", fmt::format("steps_in_flight_max is {}; allowed in this system: {} "
                                         "(--set policy.vllm_v1.async_scheduling=true: 2)",
                                         traits.steps_in_flight_max, system.steps_in_flight_max)};
  }
  return std::nullopt;
}

std::optional<GateFailure> CheckSteps(const JudgedRun& run, const JudgedRun& reference,
                                      const PolicyTraits& system) {
  if (system.tokens_per_step_max > 0 && run.largest_step_tokens > system.tokens_per_step_max) {
    return GateFailure{"G6", fmt::format("out of memory: a step has {} tokens; allowed: {}",
                                         run.largest_step_tokens, system.tokens_per_step_max)};
  }
  if (system.sequences_per_step_max > 0 &&
      run.largest_step_sequences > system.sequences_per_step_max) {
    return GateFailure{"G6",
                       fmt::format("out of memory: a step has {} sequences; allowed: {}",
                                   run.largest_step_sequences, system.sequences_per_step_max)};
  }
  if (run.outside_share > reference.outside_share + kOutsideShare) {
    return GateFailure{
        "G6",
        fmt::format("{:.1f} % of the time lies in steps larger than any that were measured (the "
                    "reference: {:.1f} %); allowed: {:g} % more than the reference",
                    100 * run.outside_share, 100 * reference.outside_share, 100 * kOutsideShare)};
  }
  return std::nullopt;
}

void ClassMeter::Add(const JudgedRun& run, const JudgedRun& reference) {
  const std::vector<double> prompts =
      Ranks(reference, [](const JudgedRequest& r) { return r.prompt_tokens; });
  const std::vector<double> outputs =
      Ranks(reference, [](const JudgedRequest& r) { return r.output_tokens; });
  std::set<std::uint32_t> tenants;
  for (const JudgedRequest& request : reference.requests) tenants.insert(request.tenant);
  for (std::size_t i = 0; i < run.requests.size() && i < reference.requests.size(); ++i) {
    const JudgedRequest& other = reference.requests[i];
    if (!IsServed(other)) continue;
    const double log_ratio = std::log(std::max(run.requests[i].e2e_s, kShortestSeconds) /
                                      std::max(other.e2e_s, kShortestSeconds));
    const auto add = [&](const std::string& name) {
      Sum& sum = sums_[name];
      sum.log_ratio += log_ratio;
      ++sum.requests;
    };
    for (const auto& [kind, rank] : {std::pair("prompt", prompts[i]), {"output", outputs[i]}}) {
      add(fmt::format("{}_q{}", kind, 1 + static_cast<int>(4 * rank)));
      if (rank >= kTail) add(fmt::format("{}_top5", kind));
    }
    if (tenants.size() > 1) add(fmt::format("tenant_{}", other.tenant));
  }
}

std::vector<Trade> ClassMeter::Trades() const {
  std::vector<Trade> trades;
  for (const auto& [name, sum] : sums_) {
    const double mean = sum.log_ratio / static_cast<double>(sum.requests);
    if (mean > std::log(kTradeWorse)) trades.push_back({name, mean});
  }
  std::ranges::sort(trades, std::greater<>(), &Trade::log_ratio);
  return trades;
}

std::optional<GateFailure> ClassMeter::Check() const {
  const std::vector<Trade> trades = Trades();
  if (trades.empty() || trades.front().log_ratio <= std::log(kClassWorse)) return std::nullopt;
  return GateFailure{
      "G5", fmt::format("requests of the class {} take {:.2f} times as long as with the reference; "
                        "allowed: {:g} times",
                        trades.front().requests, std::exp(trades.front().log_ratio), kClassWorse)};
}

}  // namespace twin::run
