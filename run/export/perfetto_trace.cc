#include "run/export/perfetto_trace.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/input_error.h"
#include "run/files/message_output.h"
#include "run/files/perfetto_writer.h"
#include "run/files/record_file.h"
#include "run/measured_run.h"
#include "run/record/recorded_run.h"
#include "run/run_directory.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

void AddRun(const fs::path& run, std::uint32_t process, MessageOutput& file) {
  if (!fs::exists(run / "record.pb")) {
    throw InputError(InputError::Kind::kUsage, run.string(),
                     "has no record.pb; allowed: directories of runs with outputs.record");
  }
  RecordReader reader(run / "record.pb");
  RecordedRun events;
  ReadEvents(reader, events);
  PerfettoOptions options;
  options.kv_blocks = reader.header().engine.kv.blocks;
  options.process = process;
  options.process_name = RunName(run);
  PerfettoWriter writer(file, options);
  RunObserver* const observers[] = {&writer};
  NotifyObservers(events, observers);
  if (fs::exists(run / "parts.csv")) {
    const auto steps = ReadStepTimesByReplica(run / "parts.csv");
    const std::size_t drawn = steps.size() == 1 ? steps.front().size() : 0;
    for (std::size_t i = 0; i < drawn; ++i) writer.AddParts(StepId{i + 1}, steps.front()[i]);
  }
  writer.Finish();
}

}  // namespace

void WritePerfettoTrace(const fs::path& out, std::span<const fs::path> runs) {
  MessageOutput file(out, Compression::kNone);
  std::uint32_t process = 0;
  for (const fs::path& run : runs) AddRun(run, ++process, file);
  file.Commit();
}

}  // namespace twin::run
