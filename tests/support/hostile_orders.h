// Orders of waiting requests, combined with the modes of the policies that take them.
#pragma once

#include <vector>

#include "tests/support/hostile_policies.h"

namespace twin::testing {

// Appends some of the modes again, each with every order.
void AddOrderModes(std::vector<PolicyMode>& modes);

// Appends policies that go by times: Sarathi with slack_chunking, and FastServe.
void AddDeadlineModes(std::vector<PolicyMode>& modes);

}  // namespace twin::testing
