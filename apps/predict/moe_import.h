// Makes the moe.textproto of a device from measured mixtures of experts.
#pragma once

#include <string>

#include "core/hardware_spec.h"
#include "run/run_control.h"
#include "sim/devices/operations/moe_profile.h"

namespace twin::run {

struct MoeImport {
  sim::MoeProfile profile;
  std::string text;  // of the file: the profile, after comments with the errors of each format
};

// Reads moe_dtype, num_tokens, hidden_size, inter_size, topk, num_experts, moe_tp_size, moe_ep_size
// and latency_us of a CSV file, plain or gzip. Only rows whose rank holds all experts count
// (moe_ep_size 1). Each format is fitted twice: on every second shape, where the remaining shapes
// give its deviation, and on all shapes. With four models or more it gets a table, whose deviations
// come from all rows of its shapes and from models left out. If a column `distribution` says
// "balanced" of some rows, the table holds these rows alone. Throws InputError with file, line and
// field, or without such rows, and ends early as EndIfStopped() does.
MoeImport ImportMoe(const HardwareSpec& hardware, const std::string& path,
                    const RunControl& control);

}  // namespace twin::run
