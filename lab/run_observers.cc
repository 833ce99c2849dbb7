#include "lab/run_observers.h"

#include <cerrno>
#include <system_error>

#include "lab/version.h"

namespace twin::lab {

MetricsConfig MetricsConfigOf(const ExperimentConfig& config, const EngineConfig& engine) {
  return {.goal = config.slo,
          .stall_threshold = config.metrics.stall_threshold,
          .kv_blocks = engine.kv.blocks,
          .by_tenant = config.metrics.by_tenant};
}

TrackerConfig TrackerConfigOf(const ExperimentConfig& config, const EngineConfig& engine,
                              Delivery delivery) {
  TrackerConfig tracker{.kv_blocks = engine.kv.blocks, .delivery = delivery, .window = {}};
  const RunMetricsConfig& metrics = config.metrics;
  if (metrics.head_share + metrics.tail_share > 0) {
    tracker.window = MeasuredWindow::Trimmed(static_cast<std::uint64_t>(config.workload.requests),
                                             metrics.head_share, metrics.tail_share);
  }
  return tracker;
}

RunObservers::RunObservers(const ExperimentConfig& config, const EngineConfig& engine,
                           const PolicyTraits& traits, const std::string& resolved,
                           const RunDirectory& directory)
    : directory_(directory),
      by_tenant_(config.metrics.by_tenant),
      metrics_(MetricsConfigOf(config, engine)) {
  const OutputsConfig& outputs = config.outputs;
  listeners_.push_back(&metrics_);
  if (by_tenant_) listeners_.push_back(&fairness_);
  if (outputs.requests_csv) listeners_.push_back(&requests_.emplace(Open("requests.csv")));
  if (outputs.steps_csv) listeners_.push_back(&steps_.emplace(Open("steps.csv")));
  if (outputs.series_csv) {
    listeners_.push_back(&series_.emplace(
        SeriesConfig{.interval = config.metrics.series_interval,
                     .points_max = static_cast<std::size_t>(config.metrics.series_points_max),
                     .kv_blocks = engine.kv.blocks}));
  }
  list_.push_back(&digest_);
  list_.push_back(&tracker_.emplace(TrackerConfigOf(config, engine, traits.delivery), listeners_));
  if (outputs.record) {
    const RecordHeader header{.config = resolved,
                              .seed = config.seed,
                              .version = std::string(kVersion) + "+" + kCommit,
                              .policy = std::string(traits.name),
                              .delivery = traits.delivery,
                              .engine = engine};
    auto writer = std::make_unique<RecordWriter>(
        directory.File("record.pb"), header,
        outputs.compress_record ? Compression::kGzip : Compression::kNone);
    record_ = writer.get();
    writers_.push_back(std::move(writer));
    list_.push_back(record_);
  }
  if (outputs.perfetto) {
    auto writer = std::make_unique<PerfettoWriter>(directory.File("trace.pftrace"),
                                                   PerfettoOptions{.kv_blocks = engine.kv.blocks});
    perfetto_ = writer.get();
    writers_.push_back(std::move(writer));
    list_.push_back(perfetto_);
  }
}

std::ofstream& RunObservers::Open(const char* name) {
  files_.push_back(std::make_unique<std::ofstream>(directory_.File(name), std::ios::binary));
  if (!*files_.back()) {
    throw std::system_error(errno, std::generic_category(), directory_.File(name).string());
  }
  return *files_.back();
}

Summary RunObservers::Finish() {
  if (requests_) tracker_->ForEachLive([&](const RequestLife& life) { requests_->Write(life); });
  if (series_) series_->WriteTo(Open("series.csv"));
  if (record_ != nullptr) record_->Finish();
  if (perfetto_ != nullptr) perfetto_->Finish();
  for (const auto& file : files_) {
    file->flush();
    if (!*file) throw std::system_error(errno, std::generic_category(), "run directory");
  }
  Summary summary = metrics_.Summarise();
  if (by_tenant_) fairness_.Summarise(summary);
  summary.Set("digest", digest_.text());
  return summary;
}

}  // namespace twin::lab
