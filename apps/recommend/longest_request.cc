#include "apps/recommend/longest_request.h"

#include <algorithm>
#include <bit>

#include "traces/answered_at_once.h"

namespace twin::run {
namespace {

constexpr std::int64_t kDrawn = 100'000;
constexpr std::int64_t kLeast = 256;

}  // namespace

LongestRequest LongestRequestOf(WorkloadConfig workload, std::uint64_t seed) {
  if (!workload.trace) workload.requests = kDrawn;
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(workload, seed);
  LongestRequest longest;
  TimePoint first{};
  TimePoint last{};
  VisitAnsweredAtOnce(*source, [&](const TracedRequest& request) {
    longest.lengths.push_back(std::int64_t{request.prompt_tokens} + request.max_output_tokens);
    longest.tokens = std::max(longest.tokens, longest.lengths.back());
    longest.mean_prompt_tokens += request.prompt_tokens;
    longest.mean_output_tokens += request.output_tokens;
    if (longest.requests++ == 0) first = request.arrival;
    last = request.arrival;
    return true;
  });
  const double requests = static_cast<double>(std::max<std::int64_t>(longest.requests, 1));
  longest.mean_prompt_tokens /= requests;
  longest.mean_output_tokens /= requests;
  if (last > first) longest.requests_per_s = (requests - 1) / Seconds(last - first);
  return longest;
}

std::int64_t PlausibleLimit(std::int64_t tokens) {
  const auto above = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(tokens, kLeast))));
  const std::int64_t eighth = above / 8;
  return std::max((tokens + eighth - 1) / eighth * eighth, kLeast);
}

}  // namespace twin::run
