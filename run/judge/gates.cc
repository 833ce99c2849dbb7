#include "run/judge/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "run/judge/judged_traits.h"

namespace twin::run {
namespace {

constexpr double kStarvedFactor = 10;
constexpr double kStarvedSeconds = 30;
constexpr double kClassWorse = 1.5;
constexpr double kTradeWorse = 1.1;
constexpr double kOutsideShare = 0.01;

bool IsServed(const JudgedRequest& request) { return request.status == RequestStatus::kCompleted; }

bool RefusesForLoad(const JudgedRequest& request) {
  return request.status == RequestStatus::kRejected &&
         request.reject_reason == RejectReason::kOverloaded;
}

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
  for (const auto& [mine, other] : PairRequests(run, reference)) {
    if (other != nullptr && !IsServed(*other)) ++reference_lost;
    if (mine == nullptr || IsServed(*mine)) continue;
    // The policy may refuse a request that the reference was not asked for its length alone.
    const bool served = other != nullptr ? IsServed(*other) : RefusesForLoad(*mine);
    if (served) lost.push_back(mine);
  }
  if (lost.empty()) return std::nullopt;
  const auto refused = std::ranges::count(lost, RequestStatus::kRejected, &JudgedRequest::status);
  const std::string how = refused == std::ssize(lost) ? "were refused" : "did not complete";
  return GateFailure{"G4", fmt::format("{} of {} requests {} (the reference: {}){}", lost.size(),
                                       run.offered, how, reference_lost, InCommon(lost, run))};
}

std::optional<GateFailure> CheckLengths(const JudgedRun& run, const JudgedRun& reference) {
  std::int64_t different = 0;
  RequestPair first;
  for (const RequestPair& pair : PairRequests(run, reference)) {
    const auto& [mine, other] = pair;
    if (mine == nullptr || other == nullptr) continue;
    const bool both = IsServed(*mine) && IsServed(*other);
    if (mine->prompt_tokens == other->prompt_tokens &&
        (!both || mine->output_tokens == other->output_tokens)) {
      continue;
    }
    if (different++ == 0) first = pair;
  }
  if (different == 0) return std::nullopt;
  return GateFailure{
      "G4", fmt::format("{} of {} requests have other lengths than with the reference: one of {} "
                        "prompt tokens gets {} tokens, there one of {} gets {}",
                        different, run.offered, first.one->prompt_tokens, first.one->output_tokens,
                        first.other->prompt_tokens, first.other->output_tokens)};
}

std::optional<GateFailure> CheckNobodyStarves(const JudgedRun& run, const JudgedRun& reference) {
  std::int64_t starved = 0;
  RequestPair worst;
  double worst_excess = 0;
  for (const RequestPair& pair : PairRequests(run, reference)) {
    const auto& [mine, other] = pair;
    if (mine == nullptr || other == nullptr || !IsServed(*other)) continue;
    const double limit = kStarvedFactor * other->e2e_s + kStarvedSeconds;
    const double excess = mine->e2e_s / limit;
    if (excess <= 1) continue;
    ++starved;
    if (excess <= worst_excess) continue;
    worst_excess = excess;
    worst = pair;
  }
  if (starved == 0) return std::nullopt;
  return GateFailure{
      "G5",
      fmt::format("{} of {} requests starve: one of {} prompt tokens takes {:.1f} s, with the "
                  "reference {:.1f} s; allowed: {:g} times as long and {:g} s more",
                  starved, run.offered, worst.one->prompt_tokens, worst.one->e2e_s,
                  worst.other->e2e_s, kStarvedFactor, kStarvedSeconds)};
}

std::optional<GateFailure> CheckTraits(const PolicyTraits& traits, const PolicyTraits& system) {
  const std::string refusal = RefuseTraits(traits, system);
  if (refusal.empty()) return std::nullopt;
  return GateFailure{"G6", refusal};
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
  for (const JudgedRequest& request : reference.requests) tenants.insert(request.name.tenant);
  for (const auto& [mine, other] : PairRequests(run, reference)) {
    if (mine == nullptr || other == nullptr || !IsServed(*other)) continue;
    const auto i = static_cast<std::size_t>(other - reference.requests.data());
    const double log_ratio = std::log(std::max(mine->e2e_s, kShortestSeconds) /
                                      std::max(other->e2e_s, kShortestSeconds));
    const auto add = [&](const std::string& name) {
      Sum& sum = sums_[name];
      sum.log_ratio += log_ratio;
      ++sum.requests;
    };
    for (const auto& [kind, rank] : {std::pair("prompt", prompts[i]), {"output", outputs[i]}}) {
      add(fmt::format("{}_q{}", kind, 1 + static_cast<int>(4 * rank)));
      if (rank >= kTail) add(fmt::format("{}_top5", kind));
    }
    if (tenants.size() > 1) add(fmt::format("tenant_{}", other->name.tenant));
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
