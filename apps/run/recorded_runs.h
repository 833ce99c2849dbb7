// The recorded serving run that is most like a system, and how far its prediction was off.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "config/experiment_config.h"
#include "core/files/embedded_file.h"

namespace twin::apps {

// Recordings of one model on one kind of server, predicted.
struct RecordedRuns {
  std::string model;
  std::string device;
  int tensor = 1;      // ranks
  std::string server;  // "vllm-0.15.1"
  int runs = 0;
  // Mean of |simulated / recorded - 1| over the runs, in percent, of the mean latencies.
  double ttft_error_pct = 0;
  double tpot_error_pct = 0;
  double e2e_error_pct = 0;
};

// The recordings nearest to a system, of all of its server that checks/fidelity predicts, without
// runs in which clients gave up and without runs to which something was fitted. Nearest are those
// on its device, of a mixture of experts before those of dense models (or the reverse), then by the
// ratio of the parameters per rank. A system without a server is compared with all. Nullopt for a
// system of several groups, and for one of a server that no such run was recorded of.
std::optional<RecordedRuns> NearestRecordedRuns(const SystemConfig& system);

// errors.csv of checks/fidelity.
std::span<const EmbeddedFile> RecordedErrorTables();

}  // namespace twin::apps
