// twinserve import: public databases of measurements become profiles of devices.
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/predict/import_aiconfigurator.h"
#include "apps/predict/import_llmservingsim.h"
#include "apps/predict/import_vidur.h"
#include "apps/terminal_control.h"

namespace twin::apps {
namespace {

struct ImportArguments {
  std::string folder;
  std::string out;
};

void AddAiconfiguratorCommand(CLI::App& import) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = import.add_subcommand(
      "aiconfigurator", "Profiles from tables of NVIDIA aiconfigurator: gemm_SYSTEM.csv[.gz]");
  command->add_option("DIR", arguments->folder, "The folder of the tables")->required();
  command->add_option("--out", arguments->out, "The folder that gets one folder per device")
      ->required();
  command->callback([arguments] {
    TerminalControl control;
    run::ImportAiconfigurator(arguments->folder, arguments->out, control);
  });
}

void AddLlmServingSimCommand(CLI::App& import) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = import.add_subcommand(
      "llmservingsim",
      "Profiles from layer profiles of LLMServingSim: profile_DEVICE_MODEL_dense.csv[.gz]");
  command->add_option("DIR", arguments->folder, "The folder of the tables")->required();
  command->add_option("--out", arguments->out, "The folder that gets one folder per device")
      ->required();
  command->callback([arguments] {
    TerminalControl control;
    run::ImportLlmServingSim(arguments->folder, arguments->out, control);
  });
}

void AddVidurCommand(CLI::App& import) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = import.add_subcommand(
      "vidur", "Profiles from Vidur's tables: dense_ops, attention, network .csv[.gz]");
  command->add_option("DIR", arguments->folder, "The folder of the tables")->required();
  command->add_option("--out", arguments->out, "The folder that gets one folder per device")
      ->required();
  command->callback([arguments] {
    TerminalControl control;
    run::ImportVidur(arguments->folder, arguments->out, control);
  });
}

}  // namespace

void AddImportCommand(CLI::App& app, CommandContext& /*context*/) {
  CLI::App* import =
      app.add_subcommand("import", "Turn a public database of measurements into device profiles");
  import->require_subcommand(1);
  AddAiconfiguratorCommand(*import);
  AddLlmServingSimCommand(*import);
  AddVidurCommand(*import);
}

}  // namespace twin::apps
