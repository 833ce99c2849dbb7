#include "apps/predict/energy_command.h"

#include <fmt/format.h>

#include <memory>

#include "apps/predict/predict_energy.h"
#include "apps/terminal_control.h"

namespace twin::apps {
namespace {

constexpr const char* kEnergyColumns =
    "Columns of the table (others are kept):\n"
    "  id, model, gpu            a hub name; H100, H200, A100, B200, or a data sheet\n"
    "  task                      lm-arena-chat, gpqa or sourcegraph-fim: prompts of 100, 250 and "
    "500\n"
    "                            tokens are assumed\n"
    "  gpus, weights             devices of the server; format\n"
    "  max_num_seqs              users who keep the server full\n"
    "  mean_batch, mean_output_tokens, output_tokens_per_s (of all devices): measured\n"
    "  optional: ep, max_batched_tokens, memory_fraction, server (flag=value;flag=value)\n"
    "Further columns of the output: predicted_power_w (all devices, at the measured mean time of "
    "a\n"
    "step), predicted_itl_ms (simulated median), predicted_power_w_simulated and\n"
    "predicted_output_tokens_per_s (at the simulated time), step_ms, the work of a mean step "
    "(bytes,\n"
    "flops, activation_bytes, routed_bytes, link_bytes), prompt_tokens, refused (why a row has no\n"
    "prediction).";

struct EnergyArguments {
  run::OperationTableFiles files;
  run::EnergyPredictionOptions options;
};

void PredictEnergy(const EnergyArguments& arguments, CommandContext& context) {
  TerminalControl control;
  const run::EnergyOutcome outcome =
      run::PredictEnergy(arguments.files, arguments.options, control);
  if (outcome.interrupted) {
    control.OnNote("interrupted: nothing was written");
    context.exit_code = 1;
    return;
  }
  control.OnNote(fmt::format("wrote {}: {} rows, {} of them refused", arguments.files.out.string(),
                             outcome.rows, outcome.refused));
}

}  // namespace

void AddPredictEnergyCommand(CommandParser predict, CommandContext& context) {
  auto arguments = std::make_shared<EnergyArguments>();
  CommandParser command = predict.AddCommand(
      "energy", "Predict the power of a table of deployments that are kept full");
  command.AddOption("--in", arguments->files.in, "The table: CSV, plain or gzip").Required();
  command.AddOption("--out", arguments->files.out, "The predictions; compressed if it ends in .gz")
      .Required();
  command.AddOption("--jobs", arguments->options.jobs, "Rows at a time (default: one per core)")
      .InRange(1, 1024);
  command.AddOption("--seed", arguments->options.seed, "Seed of every simulation").ShowDefault();
  command
      .AddOption("--request-step-us", arguments->options.request_step_us,
                 "Time by which each running request lengthens a measured step")
      .InRange(0.0, 1e6)
      .ShowDefault();
  AddOverrideOptions(command, arguments->options.changes);
  command.Footer(kEnergyColumns);
  command.OnCall([arguments, &context] { PredictEnergy(*arguments, context); });
}

}  // namespace twin::apps
