// What ranks do together before they depend on each other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"

namespace twin::exec {

// Calls `body` on every rank and waits for all. True if none threw. Otherwise the lowest rank that
// did throws it again, and all others are told false: one message, whoever was wrong. Collective;
// the body itself may not communicate, and may take as long as it does: this wait has no limit.
bool SucceedTogether(Communicator& group, const std::function<void()>& body);

// The texts of all ranks, on all ranks. Collective.
std::vector<std::string> GatherTexts(Communicator& group, const std::string& own);

}  // namespace twin::exec
