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
// (moe_ep_size 1). Each format is fitted twice: on every second shape, judged on the others, for
// its deviation, and on all. With four models or more it gets a table, whose deviations are those
// of all rows of its shapes and of models left out; where a column `distribution` says "balanced"
// of some rows, it holds these alone. Throws InputError with file, line and field, or without such
// rows, and ends early as EndIfStopped() does.
MoeImport ImportMoe(const HardwareSpec& hardware, const std::string& path,
                    const RunControl& control);

}  // namespace twin::run
