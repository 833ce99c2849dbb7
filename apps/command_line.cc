#include "apps/command_line.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include "apps/commands.h"
#include "apps/trace_command.h"
#include "core/input_error.h"
#include "lab/version.h"

namespace twin::apps {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

int Main(int argc, char** argv) {
  CLI::App app{"twinserve: LLM serving, simulated and executed by the same scheduler"};
  app.set_version_flag("--version", std::string("twinserve ") + lab::kVersion + " (" +
                                        lab::kCommit + (lab::kDirty ? ", changed)" : ")"));
  app.require_subcommand(1);
  CommandContext context;
  context.command_line.assign(argv + 1, argv + argc);
  AddRunCommand(app, context);
  AddValidateCommand(app, context);
  AddReplayCommand(app, context);
  AddScheduleCommand(app, context);
  AddGenerateCommand(app, context);
  AddBenchCommand(app, context);
  AddProfileCommand(app, context);
  AddFitCommand(app, context);
  AddCompareCommand(app, context);
  AddTraceCommand(app);
  AddDoctorCommand(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    std::cerr << "twinserve: " << what << " (--help shows what is allowed)\n";
    return kUsage;
  }
  return context.exit_code;
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const InputError& error) {
    std::cerr << "twinserve: " << error.what() << "\n";
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << "twinserve: " << error.what() << "\n";
    return kFailure;
  }
}

}  // namespace twin::apps
