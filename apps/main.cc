// twinserve: the command line. The only place that catches exceptions.
#include <algorithm>
#include <exception>
#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include "apps/commands.h"
#include "apps/trace_command.h"
#include "apps/version.h"
#include "core/input_error.h"

namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

int Main(int argc, char** argv) {
  CLI::App app{"twinserve: LLM serving, simulated and executed by the same scheduler"};
  app.set_version_flag("--version", std::string("twinserve ") + twin::apps::kVersion + " (" +
                                        twin::apps::kCommit +
                                        (twin::apps::kDirty ? ", changed)" : ")"));
  app.require_subcommand(1);
  twin::apps::CommandContext context;
  context.command_line.assign(argv + 1, argv + argc);
  twin::apps::AddRunCommand(app, context);
  twin::apps::AddValidateCommand(app, context);
  twin::apps::AddReplayCommand(app, context);
  twin::apps::AddScheduleCommand(app, context);
  twin::apps::AddGenerateCommand(app, context);
  twin::apps::AddBenchCommand(app, context);
  twin::apps::AddProfileCommand(app, context);
  twin::apps::AddFitCommand(app, context);
  twin::apps::AddCompareCommand(app, context);
  twin::apps::AddTraceCommand(app);
  twin::apps::AddDoctorCommand(app, context);
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

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const twin::InputError& error) {
    std::cerr << "twinserve: " << error.what() << "\n";
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << "twinserve: " << error.what() << "\n";
    return kFailure;
  }
}
