// What `twinserve doctor --measure state` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "exec/cuda/state_probe.h"

namespace twin::apps {

nlohmann::ordered_json StateJson(const exec::DeviceState& state);
void PrintState(const exec::DeviceState& state);

}  // namespace twin::apps
