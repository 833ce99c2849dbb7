#include "apps/predict/predict_energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "apps/predict/serving_experiment.h"
#include "config/servers/server.h"
#include "core/csv.h"
#include "core/files/compressible_file.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "run/deployment.h"
#include "run/many/parallel_runs.h"
#include "run/simulation.h"

namespace twin::run {
namespace {

constexpr std::array<std::string_view, 12> kPredicted = {"predicted_power_w",
                                                         "predicted_itl_ms",
                                                         "predicted_power_w_simulated",
                                                         "predicted_output_tokens_per_s",
                                                         "step_ms",
                                                         "bytes",
                                                         "flops",
                                                         "activation_bytes",
                                                         "routed_bytes",
                                                         "link_bytes",
                                                         "prompt_tokens",
                                                         "refused"};

struct TaskPrompts {
  std::string_view name;
  std::int64_t prompt_tokens;
};
// Questions of a chat, of an examination, and a file around the place to be filled.
constexpr std::array kTasks = {TaskPrompts{"lm-arena-chat", 100}, TaskPrompts{"gpqa", 250},
                               TaskPrompts{"sourcegraph-fim", 500}};

// Outputs vary: a running request has produced this share of the mean output in the mean over time,
// E[n^2] / (2 E[n]^2) with a variance of a fifth of the squared mean.
constexpr double kMeanProgress = 0.6;
constexpr std::int64_t kRequestsOfUser = 3;

// Names of devices in tables of measurements.
struct Device {
  std::string_view name;
  std::string_view sheet;
};
constexpr std::array kDevices = {Device{"H100", "h100-sxm"}, Device{"H200", "h200-sxm"},
                                 Device{"A100", "a100-80gb-sxm"}, Device{"B200", "b200"}};

using NamedCells = std::map<std::string, std::string, std::less<>>;

std::string SheetOf(const std::string& gpu) {
  const auto* const known = std::ranges::find(kDevices, std::string_view(gpu), &Device::name);
  return std::string(known == kDevices.end() ? std::string_view(gpu) : known->sheet);
}

double NumberIn(const NamedCells& cells, const char* column) {
  constexpr double kMost = 1e12;
  return NumberAbove0(column, cells.at(column), kMost);
}

std::string LastPart(const std::string& model) { return model.substr(model.rfind('/') + 1); }

// Settings may be followed by a remark.
std::string BeforeRemark(const std::string& text) {
  const std::string bare = text.substr(0, text.find('#'));
  return bare.substr(0, bare.find_last_not_of(' ') + 1);
}

// The closed loop that keeps the server of the row full.
ServingRow LoadOf(const NamedCells& cells) {
  const auto text = [&](std::string_view column) {
    const auto found = cells.find(column);
    return found == cells.end() ? std::string() : BeforeRemark(found->second);
  };
  const std::int64_t users = WholeNumber("max_num_seqs", text("max_num_seqs"), 1, 1 << 20);
  NamedCells row = {
      {"id", text("id")},
      {"model", LastPart(text("model"))},
      {"engine", std::string(kVllmServer.family)},
      {"device", SheetOf(text("gpu"))},
      {"weights", text("weights")},
      {"isl", std::to_string(AssumedPromptTokens(text("task")))},
      {"osl", std::to_string(std::max(1LL, std::llround(NumberIn(cells, "mean_output_tokens"))))},
      {"concurrency", std::to_string(users)},
      {"requests", std::to_string(kRequestsOfUser * users)},
      {"tp", text("gpus")},
      {"max_seqs", std::to_string(users)},
      {"max_batched_tokens", text("max_batched_tokens")},
      {"memory_fraction", text("memory_fraction")}};
  if (const std::string experts = text("ep"); !experts.empty() && experts != "1") {
    row["ep"] = text("gpus");
  }
  const ServingRow served(NamedCells{{"server", text("server")}});
  const auto flags = served.Flags();
  if (const auto length = flags.find("max_model_len"); length != flags.end()) {
    row["max_len"] = length->second;
  }
  return ServingRow(std::move(row));
}

// The work of a mean step: `batch` decodes, and their share of prompts.
sim::DeviceWork MeanWork(const sim::DeviceWorkModel& model, double batch, double prompt,
                         double output) {
  const auto items = static_cast<std::int64_t>(std::max(1.0, std::round(batch)));
  const double context = prompt + kMeanProgress * output;
  StepTotals decodes;
  decodes.decode_items = decodes.emitting_items = items;
  const auto keys = static_cast<std::int64_t>(static_cast<double>(items) * context);
  StepTotals both = decodes;
  both.prefill_items = 1;
  both.prefill_tokens = both.prefill_context_tokens = static_cast<std::int64_t>(prompt);
  both.prefill_attention_pairs = static_cast<std::int64_t>(prompt * (prompt + 1) / 2);
  ++both.emitting_items;
  const sim::DeviceWork one = model.WorkOfStep(decodes, keys);
  const sim::DeviceWork two = model.WorkOfStep(both, keys);
  const double prompts = batch / output;  // in a step
  const auto mix = [prompts](double decode, double with_prompt) {
    return decode + prompts * (with_prompt - decode);
  };
  return {.bytes = mix(one.bytes, two.bytes),
          .flops = mix(one.flops, two.flops),
          .activation_bytes = mix(one.activation_bytes, two.activation_bytes),
          .routed_bytes = mix(one.routed_bytes, two.routed_bytes),
          .link_bytes = mix(one.link_bytes, two.link_bytes)};
}

double PowerOf(const EnergySpec& energy, const sim::DeviceWork& work, double devices,
               double seconds) {
  const double each = energy.base_watts + sim::Joules(energy, work) / (devices * seconds);
  return devices * std::min(energy.limit_watts, each);
}

EnergyPrediction PredictKnownRow(const NamedCells& cells, const EnergyPredictionOptions& options,
                                 CostCache& costs, RunControl& control) {
  const std::int64_t prompt = AssumedPromptTokens(cells.at("task"));
  if (prompt == 0) {
    throw InputError(InputError::Kind::kData, "task",
                     fmt::format("{} has no known prompts; allowed: lm-arena-chat, gpqa, "
                                 "sourcegraph-fim",
                                 Printable(cells.at("task"))));
  }
  const ServingExperiment made = ExperimentOfRow(LoadOf(cells), options.seed, options.changes);
  const SystemConfig& system = made.config.system;
  if (!system.hardware_spec.energy) {
    throw InputError(
        InputError::Kind::kData, "gpu",
        fmt::format("the data sheet {} says nothing of energy; allowed: a device whose "
                    "sheet has it, as h100-sxm, b200",
                    system.hardware_spec.name));
  }
  const EnergySpec& energy = *system.hardware_spec.energy;
  const double batch = NumberIn(cells, "mean_batch");
  const auto devices = static_cast<double>(made.row.devices);
  EnergyPrediction told;
  told.step_ms = 1e3 * batch / NumberIn(cells, "output_tokens_per_s");
  const sim::DeviceWorkModel model(system.model_spec, system.hardware_spec, system.parallelism);
  told.work =
      MeanWork(model, batch, static_cast<double>(prompt), NumberIn(cells, "mean_output_tokens"));
  told.power_w = PowerOf(energy, told.work, devices, 1e-3 * told.step_ms);
  const RunOutcome outcome = Simulate(Resolve(made.config, costs), control);
  if (outcome.interrupted) return {};
  const double answers_ms = 1e-3 * options.request_step_us * batch;
  told.itl_ms = outcome.summary.Number("median_itl_ms") + answers_ms;
  const double step_ms = outcome.summary.Number("mean_itl_ms") + answers_ms;
  told.simulated_power_w = PowerOf(energy, told.work, devices, 1e-3 * step_ms);
  told.output_tokens_per_s = 1e3 * batch / step_ms;
  return told;
}

std::vector<NamedCells> ReadRows(CsvTable& table) {
  std::vector<NamedCells> rows;
  while (table.Next()) {
    NamedCells cells;
    for (std::size_t i = 0; i < table.columns().size(); ++i) {
      cells[table.columns()[i]] = std::string(table.cells()[i]);
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

void AddNumber(double value, CsvLine& line) {
  line.Word(value > 0 ? fmt::format("{:.6g}", value) : std::string());
}

void WriteRow(const std::vector<std::string>& columns, const NamedCells& cells,
              const EnergyPrediction& told, CompressibleFile& file) {
  CsvLine line;
  for (const std::string& column : columns) line.Word(cells.at(column));
  for (const double value :
       {told.power_w, told.itl_ms, told.simulated_power_w, told.output_tokens_per_s, told.step_ms,
        told.work.bytes, told.work.flops, told.work.activation_bytes, told.work.routed_bytes,
        told.work.link_bytes, static_cast<double>(AssumedPromptTokens(cells.at("task")))}) {
    AddNumber(told.refused.empty() ? value : 0, line);
  }
  line.Word(told.refused);
  std::string text;
  line.AppendTo(text);
  file.Write(text);
}

}  // namespace

std::int64_t AssumedPromptTokens(std::string_view task) {
  const auto* const known = std::ranges::find(kTasks, task, &TaskPrompts::name);
  return known == kTasks.end() ? 0 : known->prompt_tokens;
}

const std::vector<std::string_view>& EnergyColumns() {
  static const std::vector<std::string_view> columns = {"id",
                                                        "task",
                                                        "model",
                                                        "gpu",
                                                        "gpus",
                                                        "weights",
                                                        "max_num_seqs",
                                                        "mean_batch",
                                                        "mean_output_tokens",
                                                        "output_tokens_per_s"};
  return columns;
}

EnergyOutcome PredictEnergy(const OperationTableFiles& files,
                            const EnergyPredictionOptions& options, RunControl& control) {
  CsvTable table(files.in, EnergyColumns());
  const std::vector<NamedCells> rows = ReadRows(table);
  std::vector<std::string> columns;
  for (const std::string& column : table.columns()) {
    if (std::ranges::find(kPredicted, column) == kPredicted.end()) columns.push_back(column);
  }
  std::vector<EnergyPrediction> told(rows.size());
  CostCache costs;
  std::uint64_t finished = 0;
  RunInParallel(
      rows.size(), options.jobs, control,
      [&](std::size_t i, RunControl& inner) {
        try {
          told[i] = PredictKnownRow(rows[i], options, costs, inner);
        } catch (const InputError& error) {
          told[i] = {};
          told[i].refused = Printable(error.what(), 2 * kMessageBytesMax);
        }
      },
      [&](std::size_t) { control.OnProgress("rows", ++finished, rows.size()); });
  control.OnProgressEnd();
  EnergyOutcome outcome{.rows = rows.size()};
  outcome.interrupted = control.StopRequested();
  if (outcome.interrupted) return outcome;
  CompressibleFile file(files.out);
  CsvLine line;
  std::string text;
  for (const std::string& column : columns) line.Word(column);
  for (const std::string_view column : kPredicted) line.Word(column);
  line.AppendTo(text);
  file.Write(text);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    WriteRow(columns, rows[i], told[i], file);
    if (!told[i].refused.empty()) ++outcome.refused;
  }
  file.Commit();
  return outcome;
}

}  // namespace twin::run
