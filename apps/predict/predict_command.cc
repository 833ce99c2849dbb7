// twinserve predict: how long operations, steps and the requests of deployments take.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/options.h"
#include "apps/predict/energy_command.h"
#include "apps/predict/predict_operations.h"
#include "apps/predict/predict_steps.h"
#include "apps/predict/serving_command.h"
#include "apps/terminal_control.h"
#include "config/hardware_file.h"
#include "config/models/named_model.h"
#include "config/profile_folder.h"
#include "config/step_engine_names.h"
#include "core/input_error.h"
#include "sim/devices/profile_cost.h"

namespace twin::apps {
namespace {

// The words for formats are listed in operation_predictor.cc.
constexpr const char* kOperationColumns =
    "Columns of the table (others are copied):\n"
    "  gemm                  m, n, k; optional dtype (bf16, fp16, fp32, fp8, fp8_block, int8,\n"
    "                        int8_wo, int4, int4_wo, nvfp4, ...; bf16 without it)\n"
    "  context_attention     num_heads, num_kv_heads, head_dim, batch, seq_len\n"
    "  generation_attention  num_heads, num_kv_heads, head_dim, batch, kv_len\n"
    "                        optional for both: attn_dtype, kv_dtype (bf16, fp16, fp8, int8, "
    "...),\n"
    "                        window (keys that a query sees; 0 = all)\n"
    "  other kinds           the columns of aiconfigurator-core's tables of that name\n"
    "  all kinds             optional backend (vllm, sglang, trtllm; vllm without it)\n"
    "aiconfigurator's own names of these columns are understood, too: gemm_dtype, framework,\n"
    "num_key_value_heads, batch_size, isl (seq_len), kv_cache_dtype, window_size.";

struct OperationArguments {
  std::string hardware;
  std::string profile;
  std::string kind = "gemm";
  run::OperationTableFiles files;
};

void PredictOperations(const OperationArguments& arguments) {
  TerminalControl control;
  const HardwareSpec hardware = HardwareFromNameOrFile(arguments.hardware);
  const auto parts = {run::PartOfOperation(arguments.kind)};
  const sim::DeviceProfile profile = arguments.profile.empty()
                                         ? ProfilePreset(hardware.name, parts)
                                         : ReadProfileFolder(arguments.profile, parts);
  const std::uint64_t rows =
      run::PredictOperations(hardware, profile, arguments.kind, arguments.files, control);
  control.OnNote(fmt::format("wrote {} rows to {}", rows, arguments.files.out.string()));
}

void AddOperationsCommand(CommandParser predict) {
  auto arguments = std::make_shared<OperationArguments>();
  CommandParser command = predict.AddCommand(
      "ops",
      "Predict a table of operations: adds predicted_us, predicted_low_us, predicted_high_us (a "
      "90 % interval)");
  command.AddOption("--hardware", arguments->hardware, "Name of a data sheet, or a file")
      .Required();
  command
      .AddEnumOption<std::string>("--op", arguments->kind, run::OperationKindWords(),
                                  "The kind of all operations of the table")
      .Required();
  command.AddOption("--in", arguments->files.in, "The table: CSV, plain or gzip").Required();
  command
      .AddOption("--out", arguments->files.out,
                 "The table with predictions; compressed if it ends in .gz")
      .Required();
  command.AddOption("--profile", arguments->profile,
                    "A folder that replaces the built-in profile of the device");
  command.Footer(kOperationColumns);
  command.OnCall([arguments] { PredictOperations(*arguments); });
}

// A model on devices, as an engine runs it.
struct ServedArguments {
  std::string hardware;
  std::string model;
  std::string profile;
  Parallelism parallelism;
  sim::ProfileCostConfig cost;
};

void AddServedOptions(CommandParser command, ServedArguments& served) {
  command.AddOption("--hardware", served.hardware, "Name of a data sheet, or a file");
  command.AddOption("--model", served.model,
                    "Name of a model (doctor --list models or huggingface.co), or a file");
  command.AddOption("--tensor", served.parallelism.tensor, "Ranks of tensor parallelism")
      .InRange(1, 1024);
  command.AddOption("--pipeline", served.parallelism.pipeline, "Pipeline stages").InRange(1, 1024);
  command.AddOption("--profile", served.profile,
                    "A folder that replaces the built-in profile of the device");
  command.AddEnumOption<sim::StepEngine>("--engine", served.cost.engine, StepEnginesWithoutPolicy(),
                                         "How the host prepares steps (default: v1_async)");
  command.AddOption("--captured-size-max", served.cost.captured_size_max,
                    "Largest batch that a captured CUDA graph replays (default: 512)");
  command.AddFlag("--expert-parallel", served.cost.expert_parallel,
                  "Ranks hold whole experts of a mixture");
}

std::unique_ptr<sim::StepModel> MakeModel(const ServedArguments& served) {
  if (served.hardware.empty() || served.model.empty()) {
    throw InputError(InputError::Kind::kUsage, served.hardware.empty() ? "--hardware" : "--model",
                     "is required");
  }
  const HardwareSpec hardware = HardwareFromNameOrFile(served.hardware);
  const ModelSpec model = ReadNamedShape(served.model, false);
  Validate(model, served.parallelism);
  sim::ProfileCostConfig cost = served.cost;
  Validate(cost, model, served.parallelism);
  cost.device = std::make_shared<const sim::DeviceProfile>(
      served.profile.empty() ? ProfilePreset(hardware.name) : ReadProfileFolder(served.profile));
  return std::make_unique<sim::StepModel>(sim::StepModelConfigOf(cost, hardware), model, hardware,
                                          served.parallelism, *cost.device);
}

struct StepsArguments {
  ServedArguments served;
  run::OperationTableFiles files;
};

void PredictSteps(const StepsArguments& arguments) {
  TerminalControl control;
  const std::unique_ptr<sim::StepModel> model = MakeModel(arguments.served);
  const std::uint64_t rows = run::PredictSteps(*model, arguments.files, control);
  control.OnNote(fmt::format("wrote {} rows to {}", rows, arguments.files.out.string()));
}

void AddStepsCommand(CommandParser predict) {
  auto arguments = std::make_shared<StepsArguments>();
  CommandParser command = predict.AddCommand(
      "steps",
      "Predict a table of steps: adds predicted_us, predicted_low_us, predicted_high_us (a 90 % "
      "interval)");
  AddServedOptions(command, arguments->served);
  command
      .AddOption("--in", arguments->files.in,
                 "CSV, plain or gzip: decode_reqs, decode_context_tokens, prefill_reqs, "
                 "prefill_tokens. Optional: prefill_context_tokens = keys that the prompts' chunks "
                 "read, themselves included; duty = recent load of the device, 0 (idle) to 1; t_us "
                 "= end time of the step, if the rows are consecutive steps of one run")
      .Required();
  command
      .AddOption("--out", arguments->files.out,
                 "The table with predictions; compressed if it ends in .gz")
      .Required();
  command.OnCall([arguments] { PredictSteps(*arguments); });
}

constexpr std::int64_t kCountMax = std::int64_t{1} << 40;

struct BreakdownArguments {
  ServedArguments served;
  std::string run;
  std::string experiment;
  std::int64_t decodes = 0;
  std::int64_t decode_context = 0;
  std::int64_t prompts = 0;
  std::int64_t prompt_tokens = 0;
  double duty = 0;
};

StepTotals TotalsOf(const BreakdownArguments& a) {
  StepTotals totals;
  totals.prefill_tokens = a.prompt_tokens;
  totals.prefill_items = a.prompts;
  totals.prefill_context_tokens = a.prompt_tokens;
  totals.decode_items = a.decodes;
  totals.decode_context_tokens = a.decode_context;
  totals.emitting_items = a.decodes + a.prompts;
  if (a.prompts > 0) {
    totals.prefill_attention_pairs = a.prompt_tokens * (a.prompt_tokens / a.prompts + 1) / 2;
  }
  if (totals.tokens() == 0 || a.prompt_tokens < a.prompts || a.decode_context < a.decodes ||
      (a.prompts == 0) != (a.prompt_tokens == 0)) {
    throw InputError(InputError::Kind::kUsage, "--decodes",
                     "describes no step; allowed: --decodes with --decode-context (tokens that "
                     "they attend to), --prompts with --prompt-tokens, or both");
  }
  return totals;
}

void PrintBreakdown(const std::vector<run::BreakdownRow>& rows) {
  double sum = 0;
  for (const run::BreakdownRow& row : rows) sum += row.seconds;
  std::printf("%-18s %12s %8s %8s\n", "operation", "ms", "share", "spread");
  for (const run::BreakdownRow& row : rows) {
    std::printf("%-18s %12.4f %6.1f %% %s\n", row.name.c_str(), 1e3 * row.seconds,
                100 * row.seconds / sum,
                row.log_sd > 0 ? fmt::format("{:5.1f} %", 100 * row.log_sd).c_str() : "");
  }
  std::printf("%-18s %12.4f\n", "total", 1e3 * sum);
}

void PrintStages(const std::vector<run::StageBreakdown>& rows) {
  std::printf("%6s %8s %7s %12s %13s %9s %12s %9s\n", "stages", "devices", "layers", "products us",
              "attention us", "links us", "overhead us", "total us");
  double sum = 0;
  for (const run::StageBreakdown& row : rows) {
    const sim::DataflowSeconds& s = row.seconds;
    std::printf("%6d %8d %7d %12.3f %13.3f %9.3f %12.3f %9.3f\n", row.count, row.devices,
                row.layers, 1e6 * s.products, 1e6 * s.attention, 1e6 * s.links, 1e6 * s.overhead,
                1e6 * s.total());
    sum += row.count * s.total();
  }
  std::printf("all stages %.3f us\n", 1e6 * sum);
}

void BreakDown(const BreakdownArguments& arguments) {
  if (!arguments.run.empty()) {
    PrintBreakdown(run::BreakDownRun(arguments.run));
    return;
  }
  const StepTotals totals = TotalsOf(arguments);
  if (!arguments.experiment.empty()) {
    PrintStages(run::BreakDownStages(ReadExperiment(arguments.experiment, {}), totals));
    return;
  }
  const std::unique_ptr<sim::StepModel> model = MakeModel(arguments.served);
  PrintBreakdown(run::BreakDownStep(*model, totals, arguments.duty));
}

void AddBreakdownCommand(CommandParser predict) {
  auto arguments = std::make_shared<BreakdownArguments>();
  CommandParser command = predict.AddCommand(
      "breakdown", "Show where the time of a step, or of all steps of a run directory, goes");
  AddServedOptions(command, arguments->served);
  CommandOption run = command.AddOption("RUN", arguments->run, "A run directory with parts.csv");
  command.AddOption("--experiment", arguments->experiment,
                    "An experiment on a dataflow machine, in place of --hardware and --model: a "
                    "line for each kind of stage");
  command.AddOption("--decodes", arguments->decodes, "Requests that decode")
      .InRange(std::int64_t{0}, kCountMax);
  command
      .AddOption("--decode-context", arguments->decode_context,
                 "Tokens that these requests attend to, in total")
      .InRange(std::int64_t{0}, kCountMax);
  command.AddOption("--prompts", arguments->prompts, "Prompts in the step")
      .InRange(std::int64_t{0}, kCountMax);
  command.AddOption("--prompt-tokens", arguments->prompt_tokens, "Tokens of all prompts")
      .InRange(std::int64_t{0}, kCountMax);
  command.AddOption("--duty", arguments->duty, "Recent load of the device, 0 (idle) to 1")
      .InRange(0.0, 1.0);
  for (const CommandOption option : command.NamedOptions()) run.Excludes(option);
  command.OnCall([arguments] { BreakDown(*arguments); });
}

}  // namespace

void AddPredictCommand(CommandParser app, CommandContext& context) {
  CommandParser predict = app.AddCommand(
      "predict", "Predict how long operations, steps and the requests of deployments take");
  predict.RequireCommand();
  AddOperationsCommand(predict);
  AddStepsCommand(predict);
  AddBreakdownCommand(predict);
  AddPredictServingCommand(predict, context);
  AddPredictEnergyCommand(predict, context);
}

}  // namespace twin::apps
