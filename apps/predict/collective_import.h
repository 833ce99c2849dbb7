// Curves of collectives of a profile from published measurements.
#pragma once

#include <string>
#include <vector>

#include "run/run_control.h"
#include "sim/devices/operations/collective_profile.h"

namespace twin::run {

struct CollectiveImport {
  sim::CollectiveProfile profile;
  std::vector<std::string> versions;  // "nccl 2.29.2", in the order of the file
};

// Reads a file of aiconfigurator's, comm_SYSTEM.csv, plain or gzip, with the columns impl, version,
// op, num_gpus, bytes, latency_us. All versions and number formats of one implementation become one
// curve, their geometric mean; its spread is their disagreement, at least 5 %. Implementations
// without a captured graph (*_eager) are left out. A time of more than 1.3 times both neighbors' is
// noise, as no message takes longer than a larger one: it is interpolated between them. Throws
// InputError with file, line and field, and ends early as EndIfStopped() does.
CollectiveImport ImportCollectives(const std::string& path, const RunControl& control);

}  // namespace twin::run
