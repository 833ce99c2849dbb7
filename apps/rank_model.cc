#include "apps/rank_model.h"

#include <iostream>
#include <set>
#include <sstream>
#include <utility>

#include "exec/comm/agreement.h"
#include "exec/cpu/cpu_model.h"
#include "exec/model/weights.h"

namespace twin::apps {
namespace {

void PrintWarnings(exec::Communicator& world, const std::vector<std::string>& warnings) {
  std::string own;
  for (const std::string& warning : warnings) own += "warning: " + warning + "\n";
  const std::vector<std::string> texts = exec::GatherTexts(world, own);
  if (world.rank() != 0) return;
  // Ranks that read the same tensor say the same.
  std::set<std::string> printed;
  for (const std::string& text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (printed.insert(line).second) std::cerr << line << "\n";
    }
  }
}

}  // namespace

RankModel LoadRankModel(const RankModelOptions& options, exec::Communicator& world) {
  RankModel rank;
  rank.groups = std::make_unique<exec::RankGroups>(world, options.grid);
  rank.pool = std::make_unique<kernels::ThreadPool>(options.threads);
  std::vector<std::string> warnings;
  const auto load = [&] {
    exec::LoadedWeights loaded;
    if (options.weights.empty()) {
      loaded.weights = exec::MakeDummyWeights(options.config, options.format, options.seed,
                                              *rank.pool, rank.groups->place());
    } else {
      loaded = exec::LoadWeights(options.weights, options.config, options.format, *rank.pool,
                                 rank.groups->place());
    }
    warnings = std::move(loaded.warnings);
    rank.model =
        std::make_unique<exec::CpuModel>(options.config, std::move(loaded.weights),
                                         options.positions, *rank.pool, rank.groups->links());
  };
  if (exec::SucceedTogether(world, load)) {
    PrintWarnings(world, warnings);
  } else {
    rank.model.reset();
  }
  return rank;
}

}  // namespace twin::apps
