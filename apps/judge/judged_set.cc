#include "apps/judge/judged_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "core/files/csv.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "core/random.h"

namespace twin::apps {
namespace {

struct JudgedSystem {
  std::string name;
  std::vector<std::string> changes;
};

std::vector<JudgedSystem> ReadSystems(const std::filesystem::path& folder) {
  CsvTable table((folder / "systems.csv").string(), {"system", "model", "hardware", "cost"});
  std::vector<JudgedSystem> systems;
  while (table.Next()) {
    systems.push_back({std::string(table.Text("system")),
                       {fmt::format("system.model=\"{}\"", table.Text("model")),
                        fmt::format("system.hardware=\"{}\"", table.Text("hardware")),
                        fmt::format("cost={}", table.Text("cost"))}});
  }
  return systems;
}

using Capacities = std::map<std::pair<std::string, std::string>, double>;

Capacities ReadCapacities(const std::filesystem::path& folder) {
  CsvTable table((folder / "capacity.csv").string(), {"workload", "system", "requests_per_s"});
  Capacities capacities;
  while (table.Next()) {
    capacities[{std::string(table.Text("workload")), std::string(table.Text("system"))}] =
        table.Positive("requests_per_s", 1e9);
  }
  return capacities;
}

std::vector<std::filesystem::path> ExperimentsOf(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() == ".textproto" && !path.filename().string().starts_with('_')) {
      files.push_back(path);
    }
  }
  if (error || files.empty()) {
    throw InputError(InputError::Kind::kUsage, folder.string(),
                     error ? "no such folder; allowed: search, judge, or a folder of experiments "
                             "with systems.csv and capacity.csv"
                           : "holds no experiment (*.textproto)");
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<run::JudgedCell> ReadJudgedSet(const std::filesystem::path& folder) {
  const std::vector<std::filesystem::path> files = ExperimentsOf(folder);
  const std::vector<JudgedSystem> systems = ReadSystems(folder);
  const Capacities capacities = ReadCapacities(folder);
  std::vector<run::JudgedCell> cells;
  for (const std::filesystem::path& file : files) {
    const std::string workload = file.stem().string();
    const ExperimentTemplate experiment(file);
    for (const JudgedSystem& system : systems) {
      const auto capacity = capacities.find({workload, system.name});
      if (capacity == capacities.end()) {
        throw InputError(
            InputError::Kind::kData, (folder / "capacity.csv").string(),
            fmt::format("has no row for the workload {} on the system {}", workload, system.name));
      }
      for (const double load : kJudgedLoads) {
        run::JudgedCell& cell =
            cells.emplace_back(run::JudgedCell{workload, system.name, load, experiment});
        std::vector<std::string> changes = system.changes;
        changes.push_back(fmt::format("workload.arrivals.rate={}", load * capacity->second));
        cell.experiment.Change(changes, folder);
      }
    }
  }
  return cells;
}

std::vector<run::JudgedCell> DrawCells(const std::vector<run::JudgedCell>& cells,
                                       std::size_t per_workload, double load_min,
                                       std::uint64_t seed) {
  std::map<std::string, std::vector<const run::JudgedCell*>> by_workload;
  for (const run::JudgedCell& cell : cells) {
    if (cell.load >= load_min) by_workload[cell.workload].push_back(&cell);
  }
  Random random(seed, "judged cells");
  std::vector<run::JudgedCell> drawn;
  for (auto& [workload, choices] : by_workload) {
    const std::size_t count = choices.size();
    for (std::size_t i = 0; i < per_workload && !choices.empty(); ++i) {
      const auto last = static_cast<std::int64_t>(choices.size()) - 1;
      const auto chosen = choices.begin() + random.UniformInt(0, last);
      drawn.push_back(**chosen);
      drawn.back().of_cells = count;
      choices.erase(chosen);
    }
  }
  return drawn;
}

std::uint64_t HashOf(const std::vector<run::JudgedCell>& cells) {
  std::uint64_t hash = 0;
  for (const run::JudgedCell& cell : cells) hash = MixWords(hash, cell.experiment.Hash());
  return hash;
}

}  // namespace twin::apps
