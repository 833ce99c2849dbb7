// Drawn workloads for the tests, and a world that serves them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "traces/workload.h"

namespace twin {

inline IntegerDistribution Fixed(std::int32_t value) {
  return {.kind = IntegerDistribution::Kind::kFixed, .value = value};
}

inline WorkloadConfig Drawn(std::int64_t requests, ArrivalConfig arrivals) {
  WorkloadConfig config;
  config.requests = requests;
  config.arrivals = std::move(arrivals);
  config.shape.prompt = Fixed(100);
  config.shape.output = Fixed(10);
  return config;
}

inline ArrivalConfig Poisson(double rate) {
  return {.kind = ArrivalConfig::Kind::kPoisson, .rate = rate};
}

// Serves every request in `service` time, all at once, and tells the source when each is done.
struct Served {
  std::vector<TracedRequest> requests;
  std::vector<TimePoint> done;
  std::size_t in_flight_max = 0;
};
using AnswerTokens = std::function<std::int32_t(const TracedRequest&)>;
inline std::int32_t WholeAnswer(const TracedRequest& request) { return request.output_tokens; }
inline Served Serve(ArrivalSource& source, const std::function<Duration(std::size_t)>& service,
                    const AnswerTokens& answer_tokens = WholeAnswer) {
  using Done = std::pair<TimePoint, std::uint32_t>;
  std::priority_queue<Done, std::vector<Done>, std::greater<>> running;
  Served served;
  while (true) {
    const TracedRequest* next = source.Peek();
    if (next != nullptr && (running.empty() || next->arrival <= running.top().first)) {
      const std::size_t id = served.requests.size();
      served.requests.push_back(*next);
      source.Take();
      served.done.push_back(served.requests[id].arrival + service(id));
      running.emplace(served.done[id], static_cast<std::uint32_t>(id));
      served.in_flight_max = std::max(served.in_flight_max, running.size());
    } else if (!running.empty()) {
      const auto [now, id] = running.top();
      running.pop();
      source.OnDone(RequestId{id}, now, answer_tokens(served.requests[id]));
    } else {
      return served;
    }
  }
}

inline std::vector<TracedRequest> DrawAll(const WorkloadConfig& config, std::uint64_t seed) {
  return Serve(*MakeWorkload(config, seed), [](std::size_t) { return Duration{0}; }).requests;
}

}  // namespace twin
