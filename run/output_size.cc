#include "run/output_size.h"

#include <fmt/format.h>

namespace twin::run {
namespace {

constexpr std::int64_t kAnnouncedAbove = 100'000;  // requests

struct Output {
  const char* field;
  bool OutputsConfig::*on;
  std::int64_t bytes;  // per request
};

constexpr Output kOutputs[] = {{"record", &OutputsConfig::record, 2000},
                               {"perfetto", &OutputsConfig::perfetto, 1200},
                               {"steps_csv", &OutputsConfig::steps_csv, 900},
                               {"requests_csv", &OutputsConfig::requests_csv, 140}};
// Plain size of a record over its size after gzip.
constexpr std::int64_t kCompression = 3;

std::int64_t BytesOf(const Output& output, const OutputsConfig& outputs) {
  if (!(outputs.*output.on)) return 0;
  const bool compressed = output.on == &OutputsConfig::record && outputs.compress_record;
  return compressed ? output.bytes / kCompression : output.bytes;
}

}  // namespace

std::int64_t OutputBytesPerRequest(const OutputsConfig& outputs) {
  std::int64_t bytes = 0;
  for (const Output& output : kOutputs) bytes += BytesOf(output, outputs);
  return bytes;
}

std::optional<std::string> LargeOutputNote(const ExperimentConfig& config) {
  const std::int64_t requests = config.workload.requests;
  const std::int64_t bytes = OutputBytesPerRequest(config.outputs);
  if (requests <= kAnnouncedAbove || bytes == 0) return std::nullopt;
  std::string switches;
  for (const Output& output : kOutputs) {
    if (BytesOf(output, config.outputs) == 0) continue;
    switches += fmt::format(" --set outputs.{}=false", output.field);
  }
  return fmt::format(
      "the run directory will take about {:.2g} GB ({:.2g} kB per request); to make it smaller:{}",
      1e-9 * static_cast<double>(bytes) * static_cast<double>(requests),
      1e-3 * static_cast<double>(bytes), switches);
}

}  // namespace twin::run
