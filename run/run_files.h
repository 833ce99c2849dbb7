// The tables and traces of a run directory, written while the run happens.
#pragma once

#include <memory>
#include <string>

#include "run/deployment.h"
#include "run/run_metrics.h"

namespace twin {
class PerfettoWriter;
class RecordWriter;
}  // namespace twin

namespace twin::run {

class RunDirectory;

class RunFiles {
 public:
  // Opens the files that config.outputs asks for: requests.csv, steps.csv, series.csv, record.pb,
  // trace.pftrace. `resolved` is the configuration that the record carries. Borrows the directory.
  // Throws std::system_error.
  RunFiles(const Deployment& deployment, const std::string& resolved,
           const RunDirectory& directory);
  ~RunFiles();
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  // Listeners and observers that write the files. Valid while this object lives.
  [[nodiscard]] const RunWatchers& watchers() const;

  // The writer of record.pb; nullptr if there is none.
  [[nodiscard]] RecordWriter* record() const;
  // The writer of trace.pftrace; nullptr if there is none.
  [[nodiscard]] PerfettoWriter* perfetto() const;

  // Adds the rows of requests that have not ended and closes the files. REQUIRES: called once,
  // after the run. Throws std::system_error.
  void Finish(RunMetrics& metrics);

 private:
  struct Writers;
  const std::unique_ptr<Writers> writers_;
};

}  // namespace twin::run
