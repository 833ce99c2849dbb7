// Makes the operations.textproto of a device from measured operations.
#pragma once

#include <string>
#include <vector>

#include "core/hardware_spec.h"
#include "run/run_control.h"
#include "sim/devices/operations/operation_kinds.h"
#include "sim/devices/operations/operation_profile.h"

namespace twin::run {

// Reads latency_us and the columns of the kind from a CSV file, plain or gzip, and appends a table
// for each library and variant to `profile`: its closed form, fitted to all of its rows, and the
// ratios to it. Deviations of shapes that were not measured are of shapes left out. Returns a line
// for each table: its rows, and errors in % (median/p90) of the closed form and of shapes left out.
// Throws InputError with file, line and field, and ends early as EndIfStopped() does.
std::vector<std::string> ImportOperations(const HardwareSpec& hardware,
                                          const sim::OperationKind& kind, const std::string& path,
                                          sim::OperationProfile& profile,
                                          const RunControl& control);

}  // namespace twin::run
