// What answers say of the service's load.
#pragma once

#include <string>
#include <string_view>

#include "apps/serve/service/service_state.h"

namespace twin::serve {

// Whole seconds until a place in the queue may be free: at the latest pace, 1 to 60.
int RetryAfter(const run::ServiceState& state);

// ORCA's report of the load, for routers in front of several servers. `format`: "JSON" or "TEXT".
std::string LoadText(std::string_view format, const run::ServiceState& state);

}  // namespace twin::serve
