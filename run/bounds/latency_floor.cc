#include "run/bounds/latency_floor.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

namespace twin::run {

double LeastTotalFlow(std::span<const Job> jobs) {
  std::priority_queue<double, std::vector<double>, std::greater<>> left;  // work of unfinished jobs
  double now = 0;
  double sum = 0;
  for (std::size_t next = 0; next < jobs.size() || !left.empty();) {
    const double arrival =
        next < jobs.size() ? jobs[next].arrival_s : std::numeric_limits<double>::infinity();
    if (left.empty() || now >= arrival) {
      now = std::max(now, arrival);
      left.push(jobs[next++].work_s);
      continue;
    }
    const double work = left.top();
    const double done = std::min(work, arrival - now);
    left.pop();
    sum += done * static_cast<double>(left.size() + 1);
    now += done;
    if (done < work) left.push(work - done);
  }
  return sum;
}

double LeastEnd(std::span<const Job> jobs) {
  double end = 0;
  for (const Job& job : jobs) end = std::max(end, job.arrival_s) + job.work_s;
  return end;
}

LatencyFloor FloorOf(std::span<const RequestWork> requests, WorkFloor& floor) {
  LatencyFloor result;
  if (requests.empty()) return result;
  const auto count = static_cast<double>(requests.size());
  const TimePoint begin = requests.front().arrival;
  std::vector<double> arrivals;
  double first_s = 0;  // sums over requests alone on the device
  double behind_s = 0;
  for (const RequestWork& request : requests) {
    arrivals.push_back(Seconds(request.arrival - begin));
    const double first = floor.UntilFirstToken(request);
    const double behind = floor.BehindFirstToken(request);
    first_s += first;
    behind_s += behind;
    result.makespan_s = std::max(result.makespan_s, arrivals.back() + first + behind);
  }
  double prompts_s = 0;
  double wholes_s = 0;
  std::vector<Job> prompts(requests.size());
  std::vector<Job> wholes(requests.size());
  for (const WorkRate& rate : floor.rates()) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const RequestWork& r = requests[i];
      const auto work = [&rate](std::int64_t tokens, std::int64_t contexts) {
        return rate.token_s * static_cast<double>(tokens) +
               rate.context_s * static_cast<double>(contexts);
      };
      prompts[i] = {arrivals[i], work(r.own_prompt(), r.contexts(1))};
      wholes[i] = {arrivals[i], work(r.tokens(), r.contexts(r.output_tokens))};
    }
    prompts_s = std::max(prompts_s, LeastTotalFlow(prompts));
    wholes_s = std::max(wholes_s, LeastTotalFlow(wholes));
    result.makespan_s = std::max(result.makespan_s, LeastEnd(wholes));
  }
  const double least_first_s = std::max(first_s, prompts_s);
  result.mean_ttft_s = least_first_s / count;
  result.mean_e2el_s = std::max(wholes_s, least_first_s + behind_s) / count;
  return result;
}

}  // namespace twin::run
