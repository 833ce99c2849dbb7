// twinserve profile: how long operations, whole steps and the host take on this machine.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/measured_model_options.h"
#include "apps/profile/measure_profile.h"
#include "apps/terminal_control.h"
#include "exec/comm/mpi_ranks.h"
#include "run/real/model_device.h"

namespace twin::apps {
namespace {

struct ProfileArguments {
  run::ProfileRequest request;
  std::string dtype;  // empty = the default of the device
  std::string kv_dtype;
};

void RunProfile(const ProfileArguments& arguments, CommandContext& context) {
  if (!exec::RunsAlone("profile")) return;
  TerminalControl control;
  run::ProfileRequest request = arguments.request;
  const run::ModelDevice device = request.model.device;
  run::RequireDevice("--device", device, "cpu");
  request.weight_dtype =
      run::ParseDTypeOption("--dtype", arguments.dtype, run::WeightFormats(device));
  run::RequireModelOptions(request.model.model_options, request.weight_dtype, device);
  request.kv_dtype = run::ParseDTypeOption("--kv-dtype", arguments.kv_dtype,
                                           run::KvFormats(device, request.weight_dtype));
  const run::ProfileOutcome outcome = run::MeasureProfile(request, control);
  control.OnNote(fmt::format("wrote {}: {} {}measurements, steps of up to {} tokens",
                             request.out.string(), outcome.measured,
                             outcome.continued ? "more " : "", outcome.tokens_max));
  if (!outcome.interrupted) return;
  control.OnNote("interrupted: the same command continues from here");
  context.exit_code = 1;
}

}  // namespace

void AddProfileCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<ProfileArguments>();
  CommandParser command = app.AddCommand("profile",
                                         "Measure this machine's operation and step times; "
                                         "`twinserve fit` turns them into a cost model");
  AddMeasuredModelOptions(command, arguments->request.model);
  command.AddOption(
      "--dtype", arguments->dtype,
      "Weights: on a CPU fp32 (default), bf16, int8 or int4; on CUDA bf16 (default), fp8 or int4");
  command.AddOption(
      "--kv-dtype", arguments->kv_dtype,
      "KV cache: on a CPU fp32 or bf16, default fp32 for fp32 weights, bf16 otherwise; "
      "on CUDA bf16");
  command
      .AddOption("--out", arguments->request.out,
                 "Profile to write, a CSV file; an existing one is continued")
      .Required();
  command.AddFlag("--quick", arguments->request.quick, "A coarse grid, in a minute or so");
  command.AddOption("--tokens-max", arguments->request.tokens_max, "Tokens of the largest step")
      .InRange(32, 1 << 20);
  command
      .AddOption("--context-max", arguments->request.context_max, "Tokens of the longest sequence")
      .InRange(64, 1 << 20);
  command.AddOption("--batch-max", arguments->request.batch_max, "Most requests of a step")
      .InRange(4, 4096);
  command.AddOption("--block-size", arguments->request.block_size, "Tokens per KV block")
      .InRange(1, 4096);
  command.AddOption("--rounds", arguments->request.rounds, "Repeats of every measurement")
      .InRange(1, 1000);
  command
      .AddOption("--until-round", arguments->request.until_round,
                 "Stop after this round; without it, the same command continues")
      .InRange(1, 1000);
  command.OnCall([arguments, &context] { RunProfile(*arguments, context); });
}

}  // namespace twin::apps
