// Requests whose arrivals are generated: by a point process, by users who wait, by conversations.
#pragma once

#include <cstdint>
#include <memory>

#include "core/arrival_source.h"
#include "traces/conversation.h"
#include "traces/distribution_config.h"

namespace twin {

// An open-loop process starts conversations at its times, a closed loop whenever a user has
// finished thinking; later turns follow the end of the turn before.
// Memory: a conversation for every outstanding request and every pause, where completions matter.
// Ties go to the event that was scheduled first.
std::unique_ptr<ArrivalSource> MakeGeneratedSource(
    std::unique_ptr<ConversationSource> conversations, const ArrivalConfig& arrivals,
    bool has_sessions, std::uint64_t seed);

}  // namespace twin
