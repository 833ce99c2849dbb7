// Measures the host time of steps: scheduling and delivery in a real world.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/profile/profile_measurements.h"
#include "core/dtype.h"
#include "exec/device_model.h"
#include "run/run_directory.h"

namespace twin::run {

// Serves `requests` requests at the same time on the model, all of which arrive at the start, and
// averages schedule and delivery times: one row for steps with prefill, one for decode steps. Steps
// with fewer requests are left out. The observers of a run are active, since their work is part of
// the host time; they write their files into the directory.
std::vector<ProfileRow> MeasureHost(exec::DeviceModel& model, DType kv_dtype,
                                    std::int32_t block_size, std::int32_t requests,
                                    const RunDirectory& directory);

}  // namespace twin::run
