#include "run/real/rank_model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "exec/comm/agreement.h"
#include "exec/cpu/cpu_model.h"
#include "exec/model/weights.h"

namespace twin::run {
namespace {

void ReportWarnings(exec::Communicator& world, const std::vector<std::string>& warnings,
                    RunControl& control) {
  std::string own;
  for (const std::string& warning : warnings) own += warning + "\n";
  const std::vector<std::string> texts = exec::GatherTexts(world, own);
  if (world.rank() != 0) return;
  // Ranks that read the same tensor give the same warning; it is printed once.
  std::set<std::string> printed;
  for (const std::string& text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (printed.insert(line).second) control.OnWarning(line);
    }
  }
}

// The number of lower ranks on this rank's machine. Collective.
std::int32_t LocalRank(exec::Communicator& world) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::vector<std::string> hosts = exec::GatherTexts(world, name.data());
  const auto own = hosts.begin() + world.rank();
  return static_cast<std::int32_t>(std::count(hosts.begin(), own, *own));
}

std::vector<std::string> LoadOnCpu(const RankModelOptions& options, RankModel& rank) {
  exec::LoadedWeights loaded;
  if (options.weights.empty()) {
    loaded.weights = exec::MakeDummyWeights(options.config, options.format, options.seed,
                                            *rank.pool, rank.groups->place());
  } else {
    loaded = exec::LoadWeights(options.weights, options.config, options.format, *rank.pool,
                               rank.groups->place());
  }
  rank.model =
      std::make_unique<exec::CpuModel>(options.config, std::move(loaded.weights), options.positions,
                                       *rank.pool, rank.groups->links());
  return std::move(loaded.warnings);
}

std::vector<std::string> LoadOnCuda(const RankModelOptions& options, std::int32_t local_rank,
                                    RankModel& rank) {
  exec::LoadedCudaModel loaded =
      exec::LoadCudaModel({.config = options.config,
                           .weights = options.weights,
                           .seed = options.seed,
                           .format = options.format,
                           .model_options = options.model_options,
                           .positions = options.positions,
                           .links = rank.groups->links(),
                           .device = CudaDeviceOf(local_rank),
                           .largest_step = options.largest_step,
                           .algorithm_cache = exec::DefaultAlgorithmCache(),
                           .decode_batches = options.decode_batches},
                          *rank.pool);
  rank.model = std::move(loaded.model);
  return std::move(loaded.warnings);
}

}  // namespace

RankModel LoadRankModel(const RankModelOptions& options, exec::Communicator& world,
                        RunControl& control) {
  const bool cuda = options.device == ModelDevice::kCuda;
  RankModel rank;
  rank.groups = std::make_unique<exec::RankGroups>(world, options.grid);
  rank.pool = std::make_unique<kernels::ThreadPool>(options.threads);
  const std::int32_t local_rank = cuda ? LocalRank(world) : 0;
  std::vector<std::string> warnings;
  const auto load = [&] {
    if (cuda) RequireDevice("device", options.device, "cpu");
    warnings = cuda ? LoadOnCuda(options, local_rank, rank) : LoadOnCpu(options, rank);
  };
  if (exec::SucceedTogether(world, load)) {
    ReportWarnings(world, warnings, control);
  } else {
    rank.model.reset();
  }
  return rank;
}

std::int64_t MeasureKvBytesOfAll(exec::DeviceModel& model, double utilization,
                                 exec::Communicator& world) {
  const std::int64_t own = exec::MeasureKvBytes(model, utilization);
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world.AllGather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return *std::min_element(all.begin(), all.end());
}

}  // namespace twin::run
