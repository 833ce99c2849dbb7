// The tables and traces of a run directory, written while the run happens.
#pragma once

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/perfetto_writer.h"
#include "config/record_file.h"
#include "run/deployment.h"
#include "run/record/series.h"
#include "run/record/table_rows.h"
#include "run/run_directory.h"
#include "run/run_metrics.h"

namespace twin::run {

class RunFiles {
 public:
  // Opens the files that config.outputs asks for: requests.csv, steps.csv, series.csv, record.pb,
  // trace.pftrace. `resolved` is the configuration that the record carries. Borrows the directory.
  // Throws std::system_error.
  RunFiles(const Deployment& deployment, const std::string& resolved,
           const RunDirectory& directory);
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  // What writes them. Valid while this object lives.
  [[nodiscard]] const RunWatchers& watchers() const { return watchers_; }

  // The writer of record.pb; nullptr if there is none.
  [[nodiscard]] RecordWriter* record() const { return record_.get(); }
  // The writer of trace.pftrace; nullptr if there is none.
  [[nodiscard]] PerfettoWriter* perfetto() const { return perfetto_.get(); }

  // Adds the rows of requests that have not ended and closes the files. REQUIRES: called once,
  // after the run. Throws std::system_error.
  void Finish(RequestTracker& tracker);

 private:
  std::ofstream& Open(const char* name);

  const RunDirectory& directory_;
  std::vector<std::unique_ptr<std::ofstream>> files_;
  std::optional<RequestRows> requests_;
  std::optional<StepRows> steps_;
  std::optional<Series> series_;
  std::unique_ptr<RecordWriter> record_;
  std::unique_ptr<PerfettoWriter> perfetto_;
  RunWatchers watchers_;
};

}  // namespace twin::run
