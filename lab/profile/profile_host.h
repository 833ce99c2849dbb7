// The host's share of a step, measured: an engine and a real world at work.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "exec/device_model.h"
#include "lab/profile/profile_file.h"
#include "lab/run_directory.h"

namespace twin::lab {

// Serves `requests` requests at once on the model, all there from the start, and sums up what
// scheduling and delivering took: a row for steps with prefill, a row for steps of decodes alone.
// Steps without the full number of requests are left out. As in a run, everything that watches one
// works on the host as well, and writes its files into the directory.
std::vector<ProfileRow> MeasureHost(exec::DeviceModel& model, DType kv_dtype,
                                    std::int32_t block_size, std::int32_t requests,
                                    const RunDirectory& directory);

}  // namespace twin::lab
