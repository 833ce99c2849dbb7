// Arrival sources: generated arrivals, and sources that wrap a stream or other sources.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/arrival_source.h"
#include "traces/conversation.h"
#include "traces/distribution_config.h"
#include "traces/request_stream.h"

namespace twin {

// Requests with generated arrivals: open loop, closed loop, and sessions.
//
// An open-loop process starts a conversation at each of its arrival times; a closed loop starts one
// whenever a user's think time ends. Each later turn is sent a think time after the turn before it
// completes. At equal times, the event that was scheduled first comes first. Memory: for closed
// loops and sessions, one conversation per outstanding request or pause; otherwise constant.
std::unique_ptr<ArrivalSource> MakeGeneratedSource(
    std::unique_ptr<ConversationSource> conversations, const ArrivalConfig& arrivals,
    bool has_sessions, std::uint64_t seed);

// The stream's requests at their recorded arrivals, independent of completions.
std::unique_ptr<ArrivalSource> StreamArrivals(std::unique_ptr<RequestStream> stream);

// All requests of the sources in order of arrival; at equal times, in order of `sources`.
std::unique_ptr<ArrivalSource> MergeArrivals(std::vector<std::unique_ptr<ArrivalSource>> sources);

// The first `requests` requests that arrive before `duration`; 0 = no limit. Its Peek() throws
// InputError (usage) for a request that arrives beyond 126 years.
std::unique_ptr<ArrivalSource> LimitArrivals(std::unique_ptr<ArrivalSource> source,
                                             std::int64_t requests, Duration duration);

// Delays arrivals while `in_flight_max` requests are outstanding. A delayed request arrives when
// an outstanding one completes. REQUIRES: in_flight_max >= 1.
std::unique_ptr<ArrivalSource> CapInFlight(std::unique_ptr<ArrivalSource> source,
                                           std::int32_t in_flight_max);

// Request i, counted from 0, gets the content of prompt i mod `prompts`, in chunks of 16 tokens:
// requests of the same prompt share it as far as the shorter one reaches. Outputs share no
// content. REQUIRES: prompts >= 1.
std::unique_ptr<ArrivalSource> CyclePrompts(std::unique_ptr<ArrivalSource> source,
                                            std::int32_t prompts);

}  // namespace twin
