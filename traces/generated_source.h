// Requests with generated arrivals: open loop, closed loop, and sessions.
#pragma once

#include <cstdint>
#include <memory>

#include "core/arrival_source.h"
#include "traces/conversation.h"
#include "traces/distribution_config.h"

namespace twin {

// An open-loop process starts a conversation at each of its arrival times; a closed loop starts one
// whenever a user's think time ends. Each later turn is sent a think time after the turn before it
// completes. At equal times, the event that was scheduled first comes first. Memory: for closed
// loops and sessions, one conversation per outstanding request or pause; otherwise constant.
std::unique_ptr<ArrivalSource> MakeGeneratedSource(
    std::unique_ptr<ConversationSource> conversations, const ArrivalConfig& arrivals,
    bool has_sessions, std::uint64_t seed);

}  // namespace twin
