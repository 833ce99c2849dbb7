// Times, cache sizes and work of steps of every model preset on six deployments, compared with
// recorded rows to the last digit: a change of the code that should change none of them is seen
// here.
//
// TWIN_UPDATE_SNAPSHOTS=1 writes the rows anew. A commit that does so shows what moved, and why.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/experiment_config.h"
#include "config/models/model_names.h"
#include "core/files/compressible_file.h"
#include "core/files/line_reader.h"
#include "core/input_error.h"
#include "run/deployment.h"
#include "sim/devices/device_work.h"

namespace twin {
namespace {

const std::filesystem::path kRows =
    std::filesystem::path(TWIN_SOURCE_DIR) / "tests/golden/model_costs/rows.csv.gz";

struct AskedSystem {
  std::string_view name;
  std::string_view text;
};

// Each cost model that looks into a model's layers, on one device, on ranks and on stages.
constexpr AskedSystem kSystems[] = {
    {"h100", R"(system { hardware: "h100-sxm" } policy { vllm_v1 {} } cost { profile {} })"},
    {"b200x8", R"(system { hardware: "b200" tensor_parallel: 8 } policy { sglang {} }
       cost { profile {} })"},
    {"h200x4-experts", R"(system { hardware: "h200-sxm" tensor_parallel: 4 } policy { vllm_v1 {} }
       cost { profile { expert_parallel: true } })"},
    {"h200x2x2", R"(system { hardware: "h200-sxm" tensor_parallel: 2 pipeline_parallel: 2 }
       policy { trtllm {} } cost { profile {} })"},
    {"a100x4-roofline", R"(system { hardware: "a100-80gb-sxm" tensor_parallel: 4 }
       policy { vllm_v1 {} } cost { roofline {} })"},
    {"lpu", R"(system { hardware: "lpu-v1" hardware_spec { memory_bytes: 4000000000000 }
       memory { rule: ship } } policy { orca {} } cost { dataflow {} })"}};

struct Step {
  std::string_view name;
  StepTotals totals;
};

StepTotals Decodes(std::int64_t requests, std::int64_t context) {
  return {.decode_items = requests,
          .decode_context_tokens = requests * context,
          .decode_context_max = context,
          .emitting_items = requests};
}

// Adds `items` chunks of `tokens` tokens that begin at `start` and emit.
StepTotals WithChunks(StepTotals totals, std::int64_t items, std::int64_t tokens,
                      std::int64_t start) {
  totals.prefill_items = items;
  totals.prefill_tokens = items * tokens;
  totals.prefill_context_tokens = items * (start + tokens);
  totals.prefill_attention_pairs = items * (tokens * start + tokens * (tokens + 1) / 2);
  totals.prefill_context_max = start + tokens;
  totals.emitting_items += items;
  return totals;
}

StepTotals WithDrafts(StepTotals totals, std::int64_t drafts_each) {
  totals.draft_items = totals.decode_items;
  totals.draft_tokens = totals.decode_items * drafts_each;
  totals.decode_items += totals.draft_tokens;
  totals.decode_context_tokens *= 1 + drafts_each;
  return totals;
}

std::vector<Step> Steps() {
  return {{"decode 1 at 100", Decodes(1, 100)},
          {"decode 8 at 1000", Decodes(8, 1000)},
          {"decode 64 at 2000", Decodes(64, 2000)},
          {"decode 256 at 500", Decodes(256, 500)},
          {"decode 1 at 100000", Decodes(1, 100'000)},
          {"prompt 1", WithChunks({}, 1, 1, 0)},
          {"prompt 128", WithChunks({}, 1, 128, 0)},
          {"prompts 8 of 1000", WithChunks({}, 8, 1000, 0)},
          {"prompt 8192", WithChunks({}, 1, 8192, 0)},
          {"chunk 512 at 8192", WithChunks({}, 1, 512, 8192)},
          {"decode 64 at 2000 and chunk 512", WithChunks(Decodes(64, 2000), 1, 512, 0)},
          {"decode 16 at 1000 with 3 drafts", WithDrafts(Decodes(16, 1000), 3)}};
}

constexpr std::string_view kWorkload = R"(
workload { requests: 10 arrivals { kind: poisson rate: 1 }
  shape { prompt { kind: fixed value: 100 } output { kind: fixed value: 10 } } }
)";

// Cells with commas and quotes keep the file one of plain CSV.
std::string Quoted(std::string text) {
  std::ranges::replace(text, '"', '\'');
  std::ranges::replace(text, '\n', ' ');
  return '"' + text + '"';
}

struct Outcome {
  std::optional<run::Deployment> deployment;
  std::string refusal;
};

Outcome ResolveModel(const ExperimentTemplate& experiment, const std::vector<std::string>& changes,
                     run::CostCache& cache) {
  try {
    return {run::Resolve(experiment.With(changes, "/"), cache), ""};
  } catch (const InputError& error) {
    return {std::nullopt, error.what()};
  }
}

std::string CapacityCells(const sim::KvCapacity& c) {
  return fmt::format(
      "stage {} weights {} activations {} kv {} sequence {} block {} blocks {} {} {}", c.stage,
      c.weight_bytes, c.activation_bytes, c.kv_bytes, c.sequence_bytes, c.block_bytes, c.blocks,
      c.window_blocks, c.blocks_per_request);
}

std::string WorkCells(const sim::DeviceWork& w) {
  return fmt::format("{:.12g},{:.12g},{:.12g},{:.12g},{:.12g}", w.bytes, w.flops,
                     w.activation_bytes, w.routed_bytes, w.link_bytes);
}

std::string TimeCells(const sim::StepCost& cost, const StepPlan& plan) {
  std::vector<Duration> stages(static_cast<std::size_t>(cost.stages()));
  cost.DeviceTimes(plan, stages);
  std::vector<std::int64_t> times;
  for (const Duration stage : stages) times.push_back(stage.count());
  std::vector<std::int64_t> parts;
  if (const std::optional<StepParts> known = cost.Parts(plan)) {
    for (const Duration part : known->times) parts.push_back(part.count());
  }
  return fmt::format("{},{}", fmt::join(times, " "), fmt::join(parts, " "));
}

// The rows of one model on one deployment: one of its cache, one a step.
void AddRows(std::string_view model, const AskedSystem& asked, run::CostCache& cache,
             std::vector<std::string>& rows) {
  const auto experiment =
      ExperimentTemplate::FromText(std::string(kWorkload).append(asked.text), "asked");
  std::vector<std::string> changes = {fmt::format("system.model={}", model)};
  Outcome outcome = ResolveModel(experiment, changes, cache);
  const std::string where = fmt::format("{},{}", model, asked.name);
  rows.push_back(fmt::format(
      "{},capacity,{}", where,
      Quoted(outcome.deployment ? CapacityCells(outcome.deployment->capacity) : outcome.refusal)));
  if (!outcome.deployment) {
    changes.emplace_back("system.memory.blocks_override=1000000");
    outcome = ResolveModel(experiment, changes, cache);
  }
  if (!outcome.deployment) {
    rows.push_back(fmt::format("{},refused,{}", where, Quoted(outcome.refusal)));
    return;
  }
  const run::Deployment& deployment = *outcome.deployment;
  const SystemConfig& system = deployment.config.system;
  const sim::DeviceWorkModel work(system.model_spec, system.hardware_spec, system.parallelism);
  for (const Step& step : Steps()) {
    StepPlan plan;
    plan.totals = step.totals;
    rows.push_back(
        fmt::format("{},{},{},{}", where, step.name, TimeCells(*deployment.cost, plan),
                    WorkCells(work.WorkOfStep(step.totals, step.totals.decode_context_tokens))));
  }
}

std::vector<std::string> RecordedRows() {
  LineReader lines(kRows.string());
  std::vector<std::string> rows;
  for (std::string_view line; lines.Next(line);) rows.emplace_back(line);
  return rows;
}

TEST(ModelCostsTest, EveryModelOnEveryDeployment) {
  std::vector<std::string> rows;
  for (const AskedSystem& asked : kSystems) {
    run::CostCache cache;
    for (const std::string_view model : ModelPresetNames()) AddRows(model, asked, cache, rows);
  }
  if (std::getenv("TWIN_UPDATE_SNAPSHOTS") != nullptr) {
    CompressibleFile file(kRows);
    for (const std::string& row : rows) file.Write(row + "\n");
    file.Commit();
    return;
  }
  const std::vector<std::string> recorded = RecordedRows();
  ASSERT_EQ(rows.size(), recorded.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == recorded[i]) continue;
    constexpr std::size_t kShown = 20;
    if (++different <= kShown) ADD_FAILURE() << "now " << rows[i] << "\nwas " << recorded[i];
  }
  EXPECT_EQ(different, 0U) << "of " << rows.size() << " rows";
}

}  // namespace
}  // namespace twin
