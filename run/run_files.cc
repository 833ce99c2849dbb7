#include "run/run_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "run/deployed_groups.h"
#include "run/version.h"

namespace twin::run {

RunFiles::RunFiles(const Deployment& deployment, const std::string& resolved,
                   const RunDirectory& directory)
    : directory_(directory) {
  const ExperimentConfig& config = deployment.config;
  const OutputsConfig& outputs = config.outputs;
  const FurtherColumns further = FurtherColumnsOf(config);
  const std::int32_t kv_blocks = KvBlocksOf(EnginesOf(deployment));
  if (outputs.requests_csv) {
    watchers_.listeners.push_back(&requests_.emplace(Open("requests.csv"), further));
  }
  if (outputs.steps_csv) watchers_.listeners.push_back(&steps_.emplace(Open("steps.csv"), further));
  if (outputs.series_csv) {
    watchers_.listeners.push_back(&series_.emplace(
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
        .groups = deployment.groups.empty() ? EngineGroups() : EnginesOf(deployment)};
    record_ = std::make_unique<RecordWriter>(
        directory.File("record.pb"), header,
        outputs.compress_record ? Compression::kGzip : Compression::kNone, directory.appearance());
    watchers_.observers.push_back(record_.get());
  }
  if (outputs.perfetto && config.system.replicas == 1) {
    perfetto_ = std::make_unique<PerfettoWriter>(directory.File("trace.pftrace"),
                                                 PerfettoOptions{.kv_blocks = kv_blocks});
    watchers_.observers.push_back(perfetto_.get());
  }
}

std::ofstream& RunFiles::Open(const char* name) {
  files_.push_back(std::make_unique<std::ofstream>(directory_.File(name), std::ios::binary));
  if (!*files_.back()) {
    throw std::system_error(errno, std::generic_category(), directory_.File(name).string());
  }
  return *files_.back();
}

void RunFiles::Finish(RequestTracker& tracker) {
  if (requests_) tracker.ForEachLive([&](const RequestLife& life) { requests_->Write(life); });
  if (series_) series_->WriteTo(Open("series.csv"));
  if (record_ != nullptr) record_->Finish();
  if (perfetto_ != nullptr) perfetto_->Finish();
  for (const auto& file : files_) {
    file->flush();
    if (!*file) throw std::system_error(errno, std::generic_category(), "run directory");
  }
}

}  // namespace twin::run
