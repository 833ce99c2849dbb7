// Makes all ranks agree on success or failure before they depend on each other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"

namespace twin::exec {

// Calls `body` on every rank and waits for all of them. Returns true if none threw. Otherwise the
// lowest rank that threw rethrows its exception and all other ranks return false, so that the user
// sees one message. Collective. The body must not communicate; the wait for it has no time limit.
bool SucceedTogether(Communicator& group, const std::function<void()>& body);

// Returns the texts of all ranks, on every rank. Collective.
std::vector<std::string> GatherTexts(Communicator& group, const std::string& own);

}  // namespace twin::exec
