#include "run/finish_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "config/experiment_config.h"
#include "core/files/input_file.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "run/deployment.h"
#include "run/files/record_file.h"
#include "run/process_use.h"
#include "run/record/run_measurements.h"
#include "run/replay.h"
#include "run/run_files.h"
#include "run/run_metrics.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPartsBytesMax = std::size_t{1} << 32;

[[noreturn]] void Refuse(InputError::Kind kind, const fs::path& run, const std::string& what) {
  throw InputError(kind, run.string(), what);
}

// The process that writes a record holds its lock.
bool IsBeingWritten(const fs::path& record) {
  const int file = open(record.c_str(), O_RDONLY | O_CLOEXEC);
  const bool locked = file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0;
  if (file >= 0) close(file);
  return locked;
}

void RequireUnfinished(const fs::path& run) {
  if (!fs::exists(run / "record.pb")) {
    Refuse(InputError::Kind::kUsage, run,
           "has no record.pb; allowed: the run directory of a service with outputs.record");
  }
  if (fs::exists(run / "summary.json")) {
    Refuse(InputError::Kind::kUsage, run, "is complete: it has a summary.json");
  }
  if (IsBeingWritten(run / "record.pb")) {
    Refuse(InputError::Kind::kUsage, run, "is still being written; end that service first");
  }
}

// Rows of parts.csv were written one by one: the last one may have been cut.
void CutToWholeRows(const fs::path& table) {
  if (!fs::exists(table)) return;
  std::string text = ReadFile(table, kPartsBytesMax);
  text.resize(text.rfind('\n') + 1);
  WriteFile(table, text);
}

// Removes the resource use of this process, which did not serve the run.
Summary WithoutProcess(const Summary& all) {
  Summary summary;
  for (const SummaryEntry& entry : all.entries()) {
    if (!NamesProcessUse(entry.name)) summary.Set(entry.name, entry.value);
  }
  return summary;
}

}  // namespace

RunOutcome FinishRun(const fs::path& run, const std::vector<std::string>& command_line,
                     RunControl& control) {
  RequireUnfinished(run);
  RecordReader reader(run / "record.pb", RecordReader::WithoutEnd::kReadWhatIsThere);
  const RecordHeader& header = reader.header();
  Deployment deployment =
      Resolve(ParseExperiment(header.config, (run / "record.pb").string() + ": config", run));
  deployment.engine = header.engine;
  RunDirectory directory = RunDirectory::Existing(run);
  RunFiles files(deployment, header.config, directory);
  RunMetrics metrics(deployment, files.watchers());
  std::int64_t refused = 0;
  reader.ListenToRefusals([&](const RefusedRequest& one) {
    if (!one.draining) ++refused;
    if (files.record() != nullptr) files.record()->OnRefused(one);
  });
  const ReplayResult replay =
      ReplayDecisions(reader, deployment.config, header, metrics.observers());
  if (replay.difference) {
    Refuse(InputError::Kind::kData, run,
           "was decided otherwise than this program decides; allowed: the program that wrote it, " +
               header.version);
  }
  files.Finish(metrics);
  Summary more;
  SummariseRefusals(MetricWriter(more), refused);
  RunOutcome outcome = SumUp(deployment, metrics, more, /*interrupted=*/true);
  outcome.summary = WithoutProcess(outcome.summary);
  ReportLosses(outcome, control);
  CutToWholeRows(run / "parts.csv");
  CompleteDirectory(deployment, header.config, command_line, std::nullopt, outcome, directory);
  return outcome;
}

}  // namespace twin::run
