// twinserve import: public databases of measurements become profiles of devices.
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/predict/import_databases.h"
#include "apps/terminal_control.h"

namespace twin::apps {
namespace {

struct ImportArguments {
  std::string folder;
  std::string out;
};

void AddAiconfiguratorCommand(CommandParser import) {
  auto arguments = std::make_shared<ImportArguments>();
  CommandParser command = import.AddCommand(
      "aiconfigurator", "Profiles from tables of NVIDIA aiconfigurator: gemm_SYSTEM.csv[.gz]");
  command.AddOption("DIR", arguments->folder, "The folder of the tables").Required();
  command.AddOption("--out", arguments->out, "The folder that gets one folder per device")
      .Required();
  command.OnCall([arguments] {
    TerminalControl control;
    run::ImportAiconfigurator(arguments->folder, arguments->out, control);
  });
}

void AddLlmServingSimCommand(CommandParser import) {
  auto arguments = std::make_shared<ImportArguments>();
  CommandParser command = import.AddCommand(
      "llmservingsim",
      "Profiles from layer profiles of LLMServingSim: profile_DEVICE_MODEL_dense.csv[.gz]");
  command.AddOption("DIR", arguments->folder, "The folder of the tables").Required();
  command.AddOption("--out", arguments->out, "The folder that gets one folder per device")
      .Required();
  command.OnCall([arguments] {
    TerminalControl control;
    run::ImportLlmServingSim(arguments->folder, arguments->out, control);
  });
}

void AddVidurCommand(CommandParser import) {
  auto arguments = std::make_shared<ImportArguments>();
  CommandParser command = import.AddCommand(
      "vidur", "Profiles from Vidur's tables: dense_ops, attention, network .csv[.gz]");
  command.AddOption("DIR", arguments->folder, "The folder of the tables").Required();
  command.AddOption("--out", arguments->out, "The folder that gets one folder per device")
      .Required();
  command.OnCall([arguments] {
    TerminalControl control;
    run::ImportVidur(arguments->folder, arguments->out, control);
  });
}

}  // namespace

void AddImportCommand(CommandParser app, CommandContext& /*context*/) {
  CommandParser import =
      app.AddCommand("import", "Turn a public database of measurements into device profiles");
  import.RequireCommand();
  AddAiconfiguratorCommand(import);
  AddLlmServingSimCommand(import);
  AddVidurCommand(import);
}

}  // namespace twin::apps
