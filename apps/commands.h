// The subcommands of twinserve. Each function adds one; its callback does the work, throws
// InputError on bad input, and sets the exit code of failures that are not exceptions.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace twin::apps {

struct FitStepsArguments;

struct CommandContext {
  std::vector<std::string> command_line;  // as given
  int exit_code = 0;
};

void AddRunCommand(CLI::App& app, CommandContext& context);
void AddSweepCommand(CLI::App& app, CommandContext& context);
void AddCapacityCommand(CLI::App& app, CommandContext& context);
void AddBoundsCommand(CLI::App& app, CommandContext& context);
void AddRecommendCommand(CLI::App& app, CommandContext& context);
void AddValidateCommand(CLI::App& app, CommandContext& context);
void AddReplayCommand(CLI::App& app, CommandContext& context);
void AddServeCommand(CLI::App& app, CommandContext& context);
void AddScheduleCommand(CLI::App& app, CommandContext& context);
void AddGenerateCommand(CLI::App& app, CommandContext& context);
void AddBenchCommand(CLI::App& app, CommandContext& context);
void AddProfileCommand(CLI::App& app, CommandContext& context);
// `fit_steps` fits recorded steps (apps/fit_steps_command.h): it belongs to another verb.
void AddFitCommand(CLI::App& app, CommandContext& context,
                   void (*fit_steps)(const FitStepsArguments&));
void AddImportCommand(CLI::App& app, CommandContext& context);
void AddPredictCommand(CLI::App& app, CommandContext& context);
void AddReportCommand(CLI::App& app, CommandContext& context);
void AddTraceCommand(CLI::App& app, CommandContext& context);
void AddCompareCommand(CLI::App& app, CommandContext& context);
void AddDoctorCommand(CLI::App& app, CommandContext& context);

}  // namespace twin::apps
