#include "run/run_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "run/deployed_groups.h"
#include "run/files/perfetto_writer.h"
#include "run/files/record_file.h"
#include "run/record/csv_columns.h"
#include "run/record/request_tracker.h"
#include "run/record/series.h"
#include "run/record/table_rows.h"
#include "run/run_directory.h"
#include "run/version.h"

namespace twin::run {

struct RunFiles::Writers {
  Writers(const Deployment& deployment, const std::string& resolved,
          const RunDirectory& run_directory);
  std::ofstream& Open(const char* name);
  void Finish(RunMetrics& metrics);

  const RunDirectory& directory;
  std::vector<std::unique_ptr<std::ofstream>> files;
  std::optional<RequestRows> requests;
  std::optional<StepRows> steps;
  std::optional<Series> series;
  std::unique_ptr<RecordWriter> record;
  std::unique_ptr<PerfettoWriter> perfetto;
  RunWatchers watchers;
};

RunFiles::Writers::Writers(const Deployment& deployment, const std::string& resolved,
                           const RunDirectory& run_directory)
    : directory(run_directory) {
  const ExperimentConfig& config = deployment.config;
  const OutputsConfig& outputs = config.outputs;
  const FurtherColumns further = FurtherColumnsOf(config);
  const std::int32_t kv_blocks = KvBlocksOf(deployment.engines());
  if (outputs.requests_csv) {
    watchers.listeners.push_back(&requests.emplace(Open("requests.csv"), further));
  }
  if (outputs.steps_csv) watchers.listeners.push_back(&steps.emplace(Open("steps.csv"), further));
  if (outputs.series_csv) {
    watchers.listeners.push_back(&series.emplace(
        SeriesConfig{.interval = config.metrics.series_interval,
                     .points_max = static_cast<std::size_t>(config.metrics.series_points_max),
                     .kv_blocks = kv_blocks}));
  }
  if (outputs.record) {
    const RecordHeader header{
        .config = resolved,
        .seed = config.seed,
        .version = fmt::format("{}+{}", kVersion, kCommit),
        .policy = std::string(deployment.traits.name),
        .delivery = deployment.traits.delivery,
        .engine = deployment.engine,
        .groups = deployment.groups.empty() ? EngineGroups() : deployment.engines()};
    record = std::make_unique<RecordWriter>(
        directory.File("record.pb"), header,
        outputs.compress_record ? Compression::kGzip : Compression::kNone, directory.appearance());
    watchers.observers.push_back(record.get());
  }
  if (outputs.perfetto && config.system.replicas == 1) {
    perfetto = std::make_unique<PerfettoWriter>(directory.File("trace.pftrace"),
                                                PerfettoOptions{.kv_blocks = kv_blocks});
    watchers.observers.push_back(perfetto.get());
  }
}

std::ofstream& RunFiles::Writers::Open(const char* name) {
  files.push_back(std::make_unique<std::ofstream>(directory.File(name), std::ios::binary));
  if (!*files.back()) {
    throw std::system_error(errno, std::generic_category(), directory.File(name).string());
  }
  return *files.back();
}

void RunFiles::Writers::Finish(RunMetrics& metrics) {
  RequestTracker& tracker = metrics.tracker();
  if (requests) tracker.ForEachLive([&](const RequestLife& life) { requests->Write(life); });
  if (series) {
    series->WriteTo(Open("series.csv"), metrics.Power(series->interval(), series->points()));
  }
  if (record != nullptr) record->Finish();
  if (perfetto != nullptr) perfetto->Finish();
  for (const auto& file : files) {
    file->flush();
    if (!*file) throw std::system_error(errno, std::generic_category(), "run directory");
  }
}

RunFiles::RunFiles(const Deployment& deployment, const std::string& resolved,
                   const RunDirectory& directory)
    : writers_(std::make_unique<Writers>(deployment, resolved, directory)) {}
RunFiles::~RunFiles() = default;

const RunWatchers& RunFiles::watchers() const { return writers_->watchers; }
RecordWriter* RunFiles::record() const { return writers_->record.get(); }
PerfettoWriter* RunFiles::perfetto() const { return writers_->perfetto.get(); }
void RunFiles::Finish(RunMetrics& metrics) { writers_->Finish(metrics); }

}  // namespace twin::run
