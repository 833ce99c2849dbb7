// The requests of a workload without a system that serves them.
#pragma once

#include <cstdint>

#include "core/arrival_source.h"

namespace twin {

// Takes requests from `source` up to its end, or until visit(request) returns false. Each one is
// answered, with all its tokens, the moment it arrives: a request that waits for an answer (a
// session's next turn, a user of a closed loop) comes a think time later.
template <class Visit>
void VisitAnsweredAtOnce(ArrivalSource& source, Visit visit) {
  std::uint32_t id = 0;
  while (const TracedRequest* const request = source.Peek()) {
    const TimePoint arrival = request->arrival;
    const std::int32_t answer_tokens = request->output_tokens;
    const bool goes_on = visit(*request);
    source.Take();
    source.OnDone(RequestId{id++}, arrival, answer_tokens);
    if (!goes_on) return;
  }
}

}  // namespace twin
