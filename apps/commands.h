// The subcommands of twinserve. Each function adds one; its callback does the work, throws
// InputError on bad input, and sets the exit code of failures that are not exceptions.
#pragma once

#include <string>
#include <vector>

#include "apps/options.h"

namespace twin::apps {

struct FitStepsArguments;

struct CommandContext {
  std::vector<std::string> command_line;      // as given
  std::vector<std::string> missing_commands;  // those that this build leaves out
  int exit_code = 0;
};

// How the process is started in which `judge` runs a policy: the program and its first arguments,
// and the files and folders that it needs. Default: this program.
void SetPolicyHostCommand(std::vector<std::string> words, std::vector<std::string> paths);

void AddRunCommand(CommandParser app, CommandContext& context);
void AddResolveCommand(CommandParser app, CommandContext& context);
void AddSweepCommand(CommandParser app, CommandContext& context);
void AddCapacityCommand(CommandParser app, CommandContext& context);
void AddBoundsCommand(CommandParser app, CommandContext& context);
void AddJudgeCommand(CommandParser app, CommandContext& context);
void AddRecommendCommand(CommandParser app, CommandContext& context);
void AddValidateCommand(CommandParser app, CommandContext& context);
void AddReplayCommand(CommandParser app, CommandContext& context);
void AddServeCommand(CommandParser app, CommandContext& context);
void AddScheduleCommand(CommandParser app, CommandContext& context);
void AddGenerateCommand(CommandParser app, CommandContext& context);
void AddBenchCommand(CommandParser app, CommandContext& context);
void AddProfileCommand(CommandParser app, CommandContext& context);
// `fit_steps` fits recorded steps (apps/fit_steps_command.h): it belongs to another verb.
void AddFitCommand(CommandParser app, CommandContext& context,
                   void (*fit_steps)(const FitStepsArguments&));
void AddImportCommand(CommandParser app, CommandContext& context);
void AddPredictCommand(CommandParser app, CommandContext& context);
void AddReportCommand(CommandParser app, CommandContext& context);
void AddTraceCommand(CommandParser app, CommandContext& context);
void AddCompareCommand(CommandParser app, CommandContext& context);
void AddDoctorCommand(CommandParser app, CommandContext& context);

}  // namespace twin::apps
