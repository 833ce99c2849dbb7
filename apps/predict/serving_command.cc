#include "apps/predict/serving_command.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "apps/predict/predict_serving.h"
#include "apps/terminal_control.h"

namespace twin::apps {
namespace {

constexpr const char* kServingColumns =
    "Columns of the table (others are ignored; an empty cell leaves the choice to the server):\n"
    "  id                     any name that no other row has\n"
    "  model, device          names of doctor --list models and --list hardware\n"
    "  engine, version        vllm, sglang or trtllm; the nearest preset of doctor --list servers\n"
    "  isl, osl, concurrency  tokens of prompts and outputs; users\n"
    "  tp                     ranks of tensor parallelism\n"
    "  optional: weights, kv (formats), pp, ep, moe_tp, attention_dp, devices, mode (agg),\n"
    "  speculation (none), range_ratio (lengths from range_ratio x L to L), requests (10 per "
    "user),\n"
    "  max_batched_tokens, max_seqs, max_len, memory_fraction, graph_max_batch, and server, the\n"
    "  flags of the launch line as flag=value;flag=value, which hold against the columns\n"
    "Columns of the predictions: id, ttft_ms and tpot_ms (means over requests),\n"
    "output_tokens_per_s (users x tokens / (TTFT + (tokens - 1) x TPOT)), devices, refused (why a\n"
    "row has no prediction), input (a hash; rows of --out with an equal one are kept).";

struct ServingArguments {
  run::OperationTableFiles files;
  run::ServingPredictionOptions options;
};

void PredictServing(const ServingArguments& arguments, CommandContext& context) {
  TerminalControl control;
  const run::ServingOutcome outcome =
      run::PredictServing(arguments.files, arguments.options, control);
  control.OnNote(fmt::format("wrote {}: {} of {} rows, {} of them refused",
                             arguments.files.out.string(), outcome.done, outcome.rows,
                             outcome.refused));
  if (outcome.interrupted) {
    control.OnNote("interrupted: the same command continues");
    context.exit_code = 1;
  }
}

}  // namespace

void AddPredictServingCommand(CommandParser predict, CommandContext& context) {
  auto arguments = std::make_shared<ServingArguments>();
  CommandParser command = predict.AddCommand(
      "serving",
      "Predict mean TTFT and TPOT of a table of deployments under closed-loop load, by one "
      "simulation per row");
  command.AddOption("--in", arguments->files.in, "The table: CSV, plain or gzip").Required();
  command
      .AddOption("--out", arguments->files.out,
                 "The predictions; compressed if it ends in .gz. An unfinished file of the same "
                 "table is continued")
      .Required();
  command.AddOption("--jobs", arguments->options.jobs, "Rows at a time (default: one per core)")
      .InRange(1, 1024);
  command.AddOption("--seed", arguments->options.seed, "Seed of every simulation").ShowDefault();
  command.AddOption("--experiments", arguments->options.experiments,
                    "A folder for the experiment of each row, ID.textproto, as resolve and run "
                    "read it");
  AddOverrideOptions(command, arguments->options.changes);
  command.Footer(kServingColumns);
  command.OnCall([arguments, &context] { PredictServing(*arguments, context); });
}

}  // namespace twin::apps
