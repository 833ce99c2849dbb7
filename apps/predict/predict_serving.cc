#include "apps/predict/predict_serving.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "apps/predict/serving_experiment.h"
#include "config/experiment_text.h"
#include "core/csv.h"
#include "core/files/compressible_file.h"
#include "core/files/csv.h"
#include "core/files/output_file.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "run/deployment.h"
#include "run/many/parallel_runs.h"
#include "run/simulation.h"
#include "run/version.h"

namespace twin::run {
namespace {

constexpr std::array<std::string_view, 8> kColumns = {
    "id", "ttft_ms", "tpot_ms", "output_tokens_per_s", "devices", "refused", "ignored", "input"};
constexpr std::size_t kInputColumn = 7;
constexpr std::size_t kRefusedColumn = 5;
constexpr std::uint64_t kRowsPerWrite = 25;

using Cells = std::array<std::string, kColumns.size()>;

// Passes on whether to stop; the simulation of a row reports nothing.
class QuietControl final : public RunControl {
 public:
  explicit QuietControl(const RunControl& outer) : outer_(outer) {}
  [[nodiscard]] bool StopRequested() const override { return outer_.StopRequested(); }

 private:
  const RunControl& outer_;
};

std::string InputOf(const ServingRow& row, const ServingPredictionOptions& options) {
  return HexText(HashText(fmt::format("{} {} {}\n{}\n{}\n{}", kVersion, kCommit, kDirty,
                                      options.seed, fmt::join(options.changes, "\n"), row.Key())));
}

std::string NumberCell(double value) {
  return std::isfinite(value) && value > 0 ? fmt::format("{:.6g}", value) : std::string();
}

Cells CellsOf(const std::string& id, const ServingPrediction& told, const std::string& input) {
  const bool is_told = told.refused.empty();
  return {id,
          NumberCell(told.ttft_ms),
          NumberCell(told.tpot_ms),
          NumberCell(told.output_tokens_per_s),
          is_told ? std::to_string(told.devices) : std::string(),
          told.refused,
          fmt::format("{}", fmt::join(told.unused, ";")),
          input};
}

void Write(const std::filesystem::path& path, const std::vector<std::optional<Cells>>& rows) {
  CompressibleFile file(path);
  CsvLine line;
  std::string text;
  for (const std::string_view column : kColumns) line.Word(column);
  line.AppendTo(text);
  for (const std::optional<Cells>& cells : rows) {
    if (!cells) continue;
    for (const std::string& cell : *cells) line.Word(cell);
    line.AppendTo(text);
  }
  file.Write(text);
  file.Commit();
}

// The rows that an earlier call wrote, by their input.
std::unordered_map<std::string, Cells> ReadEarlier(const std::filesystem::path& path) {
  std::unordered_map<std::string, Cells> earlier;
  if (!std::filesystem::exists(path)) return earlier;
  try {
    CsvTable table(path.string(), {kColumns.begin(), kColumns.end()});
    while (table.Next()) {
      Cells cells;
      for (std::size_t i = 0; i < kColumns.size(); ++i) cells[i] = table.Text(kColumns[i]);
      earlier[cells[kInputColumn]] = cells;
    }
  } catch (const InputError& error) {
    throw InputError(InputError::Kind::kUsage, "--out",
                     fmt::format("{} exists and holds no predictions of deployments ({}); allowed: "
                                 "another file",
                                 path.string(), error.what()));
  }
  return earlier;
}

// `unused` gets the columns without a meaning here.
std::vector<ServingRow> ReadRows(const std::string& path, std::vector<std::string>& unused) {
  CsvTable table(path, ServingRow::RequiredColumns());
  const std::vector<std::string_view>& known = ServingRow::Columns();
  std::ranges::copy_if(table.columns(), std::back_inserter(unused), [&](const auto& column) {
    return std::ranges::find(known, column) == known.end();
  });
  std::vector<ServingRow> rows;
  std::set<std::string> ids;
  while (table.Next()) {
    rows.emplace_back(table);
    const std::string& id = rows.back().Text("id");
    if (id.empty() || !ids.insert(id).second) {
      table.Refuse("id", "a name that no other row has");
    }
  }
  return rows;
}

void WriteExperiment(const std::filesystem::path& folder, const ServingRow& row,
                     const ExperimentConfig& config) {
  OutputFile file(folder / (row.Text("id") + ".textproto"));
  file.Write(WriteAsked(config));
  file.Commit();
}

}  // namespace

ServingPrediction PredictServingRow(const ServingRow& row, const ServingPredictionOptions& options,
                                    CostCache& costs, RunControl& control) {
  ServingPrediction told;
  try {
    const ServingExperiment made = ExperimentOfRow(row, options.seed, options.changes);
    told.unused.assign(made.row.unused.begin(), made.row.unused.end());
    if (!options.experiments.empty()) WriteExperiment(options.experiments, row, made.config);
    QuietControl quiet(control);
    const RunOutcome outcome = Simulate(Resolve(made.config, costs), quiet);
    if (outcome.interrupted) return told;
    const double asked = outcome.summary.Number("requests");
    const double completed = outcome.summary.Number("completed");
    if (completed < asked) {
      throw InputError(InputError::Kind::kData, "",
                       fmt::format("the server refuses {} of {} requests: they exceed its limits "
                                   "or its KV cache",
                                   asked - completed, asked));
    }
    told.devices = made.row.devices;
    told.ttft_ms = outcome.summary.Number("mean_ttft_ms");
    told.tpot_ms = outcome.summary.Number("mean_tpot_ms");
    const double rest =
        made.row.output_tokens > 1 ? (made.row.output_tokens - 1) * told.tpot_ms : 0;
    const auto users = static_cast<double>(row.RequiredCount("concurrency"));
    told.output_tokens_per_s = 1e3 * users * made.row.output_tokens / (told.ttft_ms + rest);
  } catch (const InputError& error) {
    told.refused = Printable(error.what(), 2 * kMessageBytesMax);
  }
  return told;
}

ServingOutcome PredictServing(const OperationTableFiles& files,
                              const ServingPredictionOptions& options, RunControl& control) {
  std::vector<std::string> unused_columns;
  const std::vector<ServingRow> rows = ReadRows(files.in, unused_columns);
  if (!unused_columns.empty()) {
    control.OnNote(fmt::format("{}: columns that are not used: {}", files.in,
                               fmt::join(unused_columns, ", ")));
  }
  const std::unordered_map<std::string, Cells> earlier = ReadEarlier(files.out);
  if (!options.experiments.empty()) std::filesystem::create_directories(options.experiments);
  std::vector<std::optional<Cells>> cells(rows.size());
  std::vector<std::string> inputs;
  std::vector<std::size_t> open;
  ServingOutcome outcome{.rows = rows.size()};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    inputs.push_back(InputOf(rows[i], options));
    const auto found = earlier.find(inputs[i]);
    if (found != earlier.end() && found->second[0] == rows[i].Text("id")) {
      cells[i] = found->second;
      ++outcome.kept;
    } else {
      open.push_back(i);
    }
  }
  if (outcome.kept > 0) {
    control.OnNote(
        fmt::format("{}: kept {} of {} rows", files.out.string(), outcome.kept, outcome.rows));
  }
  CostCache costs;
  std::vector<ServingPrediction> told(open.size());
  std::vector<char> complete(open.size(), 0);
  std::map<std::string, std::uint64_t> unused;
  std::uint64_t finished = 0;
  RunInParallel(
      open.size(), options.jobs, control,
      [&](std::size_t i, RunControl& inner) {
        told[i] = PredictServingRow(rows[open[i]], options, costs, inner);
        complete[i] = told[i].devices > 0 || !told[i].refused.empty() ? 1 : 0;
      },
      [&](std::size_t i) {
        if (complete[i] == 0) return;
        cells[open[i]] = CellsOf(rows[open[i]].Text("id"), told[i], inputs[open[i]]);
        for (const std::string& flag : told[i].unused) ++unused[flag];
        control.OnProgress("rows", ++finished, open.size());
        if (finished % kRowsPerWrite == 0) Write(files.out, cells);
      });
  control.OnProgressEnd();
  Write(files.out, cells);
  for (const std::optional<Cells>& row : cells) {
    if (!row) continue;
    ++outcome.done;
    if (!(*row)[kRefusedColumn].empty()) ++outcome.refused;
  }
  outcome.interrupted = outcome.done < outcome.rows;
  std::vector<std::string> names;
  for (const auto& [flag, count] : unused) names.push_back(fmt::format("{} ({})", flag, count));
  if (!names.empty()) {
    control.OnNote(fmt::format("flags that are not simulated (rows): {}", fmt::join(names, ", ")));
  }
  return outcome;
}

}  // namespace twin::run
