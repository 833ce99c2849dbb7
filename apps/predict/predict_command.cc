// twinserve predict: how long operations take on a device.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/options.h"
#include "apps/predict/predict_operations.h"
#include "apps/predict/predict_steps_command.h"
#include "apps/terminal_control.h"
#include "config/hardware_file.h"
#include "config/profile_file.h"

namespace twin::apps {
namespace {

// Words for formats are those of gemm_predictor.cc and attention_predictor.cc.
constexpr const char* kOperationColumns =
    "Columns of the table (others are copied):\n"
    "  gemm                  m, n, k; optional dtype (bf16, fp16, fp32, fp8, fp8_block, int8,\n"
    "                        int8_wo, int4, int4_wo, nvfp4, ...; bf16 without it)\n"
    "  context_attention     num_heads, num_kv_heads, head_dim, batch, seq_len\n"
    "  generation_attention  num_heads, num_kv_heads, head_dim, batch, kv_len\n"
    "                        optional for both: attn_dtype, kv_dtype (bf16, fp16, fp8, int8, "
    "...),\n"
    "                        window (keys that a query sees; 0 = all)\n"
    "  all kinds             optional backend (vllm, sglang, trtllm; vllm without it)\n"
    "aiconfigurator's own names of these columns are understood, too: gemm_dtype, framework,\n"
    "num_key_value_heads, batch_size, isl (seq_len), kv_cache_dtype, window_size.";

struct OperationArguments {
  std::string hardware;
  std::string profile;
  run::OperationKind kind = run::OperationKind::kGemm;
  run::OperationTableFiles files;
};

ProfilePart PartOf(run::OperationKind kind) {
  return kind == run::OperationKind::kGemm ? ProfilePart::kGemm : ProfilePart::kAttention;
}

void PredictOperations(const OperationArguments& arguments) {
  TerminalControl control;
  const HardwareSpec hardware = HardwareFromNameOrFile(arguments.hardware);
  const auto parts = {PartOf(arguments.kind)};
  const sim::DeviceProfile profile = arguments.profile.empty()
                                         ? ProfilePreset(hardware.name, parts)
                                         : ReadProfileFolder(arguments.profile, parts);
  const std::uint64_t rows =
      run::PredictOperations(hardware, profile, arguments.kind, arguments.files, control);
  control.OnNote(fmt::format("wrote {} rows to {}", rows, arguments.files.out.string()));
}

void AddOperationsCommand(CommandParser predict) {
  using enum run::OperationKind;
  auto arguments = std::make_shared<OperationArguments>();
  CommandParser command = predict.AddCommand(
      "ops",
      "Predict a table of operations: adds predicted_us, predicted_low_us, predicted_high_us (a "
      "90 % interval)");
  command.AddOption("--hardware", arguments->hardware, "Name of a data sheet, or a file")
      .Required();
  command
      .AddEnumOption<run::OperationKind>("--op", arguments->kind,
                                         {{"gemm", kGemm},
                                          {"context_attention", kContextAttention},
                                          {"generation_attention", kGenerationAttention}},
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

}  // namespace

void AddPredictCommand(CommandParser app, CommandContext& /*context*/) {
  CommandParser predict = app.AddCommand("predict", "Predict how long operations take on a device");
  predict.RequireCommand();
  AddOperationsCommand(predict);
  AddPredictStepsCommands(predict);
}

}  // namespace twin::apps
