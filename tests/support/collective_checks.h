// What every communicator has to do, checked from the inside by each rank.
#pragma once

#include <string>
#include <vector>

#include "exec/comm/communicator.h"

namespace twin::testing {

// Runs every collective, messages and splits on sizes around the borders of shares and buffers, and
// returns a line for each thing that is wrong. To be called by all ranks of the group.
std::vector<std::string> CheckCollectives(exec::Communicator& group);

}  // namespace twin::testing
