#include "apps/run_command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/built_parts.h"
#include "apps/commands.h"
#include "apps/fit_steps_command.h"
#include "apps/missing_command.h"
#include "core/input_error.h"
#include "core/nearest_names.h"
#include "core/printable.h"
#include "run/version.h"

namespace twin::apps {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0  success\n"
    "  1  failure: a data file that is missing or bad, an output that cannot be written, results\n"
    "     that differ (replay, schedule --check, validate), an interrupted run\n"
    "  2  usage: a wrong argument, run directory or experiment file\n";

[[noreturn]] void RefuseName(std::string_view kind, const std::string& wrong,
                             const std::string& command, const std::vector<std::string>& names,
                             const std::string& advice) {
  // "twinserve" itself is printed in front of every error.
  const std::size_t space = command.find(' ');
  const std::string where = space == std::string::npos ? "" : command.substr(space + 1);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string nearest = NearestNames(wrong, views);
  throw InputError(InputError::Kind::kUsage, where,
                   fmt::format("no {} \"{}\"; nearest \"{}\"; {}", kind, Printable(wrong),
                               nearest.substr(0, nearest.find(',')), advice));
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* /*any*/) { return true; });
}

// Commands that the Python package adds (apps/python/twinserve/_command.py).
constexpr const char* kCommandsOfPackage[] = {"engines", "examples", "plot"};

const CLI::App& FindCommand(const CLI::App& app, const std::string& name,
                            const std::string& where) {
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(app)) {
    if (command->get_name() == name) return *command;
    names.push_back(command->get_name());
  }
  if (std::ranges::find(kCommandsOfPackage, name) != std::end(kCommandsOfPackage)) {
    throw InputError(InputError::Kind::kUsage, name,
                     "is a command of the Python package; allowed: its command twinserve "
                     "(pip install of a wheel of tools/wheel, or pip install .)");
  }
  RefuseName("command", name, where, names,
             fmt::format("allowed: {}; see {} --help", fmt::join(names, ", "), where));
}

const CLI::Option& FindOption(const CLI::App& command, const std::string& name,
                              const std::string& where) {
  if (const CLI::Option* option = command.get_option_no_throw(name)) return *option;
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  }
  RefuseName("option", name, where, names, fmt::format("allowed: see {} --help", where));
}

// Two dashes before options of several letters that were written with one: "-tp 2", as vLLM takes
// it, is "--tp 2".
void RepairDashes(const CLI::App& app, std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  const std::vector<const CLI::App*> commands = CommandsOf(app);
  const auto command = std::ranges::find(commands, arguments.front(), &CLI::App::get_name);
  if (command == commands.end()) return;
  for (std::string& argument : arguments) {
    const bool is_short = argument.starts_with('-') && !argument.starts_with("--");
    if (!is_short || argument.size() < 3) continue;
    const std::string repaired = "-" + argument;
    if ((*command)->get_option_no_throw(repaired.substr(0, repaired.find('='))) != nullptr) {
      argument = repaired;
    }
  }
}

// Checks names before the parser does: its own errors on unknown names come after its errors on
// missing arguments, and name no alternative.
void RequireKnownNames(const CLI::App& app, std::span<const std::string> arguments) {
  const CLI::App* command = &app;
  std::string where = "twinserve";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    // A command that this program lacks says so, whatever its options are.
    if (argument == "--" || command->get_allow_extras()) return;
    const bool is_number = argument.size() > 1 && std::isdigit(argument[1]) != 0;
    if (argument.starts_with('-') && argument.size() > 1 && !is_number) {
      const std::size_t equals = argument.find('=');
      const CLI::Option& option = FindOption(*command, argument.substr(0, equals), where);
      if (option.get_items_expected_min() > 0 && equals == std::string::npos) ++i;
    } else if (!CommandsOf(*command).empty()) {
      command = &FindCommand(*command, argument, where);
      where += " " + argument;
    }
  }
}

// Output that did not arrive is a failure, even if the work itself succeeded.
void RequireWrittenStdout() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return;
  const std::string reason = errno != 0 ? ": " + std::generic_category().message(errno) : "";
  throw InputError(InputError::Kind::kData, "stdout", "cannot be written" + reason);
}

// `fit` lies beside `profile`; its part for recorded steps belongs to `predict`.
void AddFit(CommandParser parser, CommandContext& context) {
  if constexpr (kHasExec) AddFitCommand(parser, context, FitSteps);
}

struct Verb {
  std::string_view name;
  const char* needs;  // the build option; null: every build has the command
  // Null in a build without that option. The choice is a constant, so that the linker needs no
  // function of a part that is left out.
  void (*add)(CommandParser parser, CommandContext& context);
};
constexpr const char* kAlways = nullptr;
constexpr const char* kStudies = "TWIN_STUDIES";
constexpr const char* kExec = "TWIN_EXEC";
constexpr const char* kServing = "TWIN_SERVING";
constexpr Verb kVerbs[] = {
    {"run", kAlways, AddRunCommand},
    {"resolve", kAlways, AddResolveCommand},
    {"sweep", kStudies, kHasStudies ? AddSweepCommand : nullptr},
    {"capacity", kStudies, kHasStudies ? AddCapacityCommand : nullptr},
    {"bounds", kStudies, kHasStudies ? AddBoundsCommand : nullptr},
    {"judge", kStudies, kHasStudies ? AddJudgeCommand : nullptr},
    {"recommend", kStudies, kHasStudies ? AddRecommendCommand : nullptr},
    {"validate", kAlways, AddValidateCommand},
    {"replay", kAlways, AddReplayCommand},
    {"serve", kServing, kHasServing ? AddServeCommand : nullptr},
    {"schedule", kStudies, kHasStudies ? AddScheduleCommand : nullptr},
    {"generate", kExec, kHasExec ? AddGenerateCommand : nullptr},
    {"bench", kExec, kHasExec ? AddBenchCommand : nullptr},
    {"profile", kExec, kHasExec ? AddProfileCommand : nullptr},
    {"fit", kExec, kHasExec ? AddFit : nullptr},
    {"import", kStudies, kHasStudies ? AddImportCommand : nullptr},
    {"predict", kStudies, kHasStudies ? AddPredictCommand : nullptr},
    {"compare", kAlways, AddCompareCommand},
    {"report", kStudies, kHasStudies ? AddReportCommand : nullptr},
    {"trace", kAlways, AddTraceCommand},
    {"doctor", kAlways, AddDoctorCommand},
};

// The options of all commands take a millisecond to declare: a command that comes first is the only
// one that the rest of the command line can name. Help texts take all, because they list exclusions
// in the order in which options lie in memory.
void AddCommands(CommandParser parser, CommandContext& context) {
  const std::vector<std::string>& line = context.command_line;
  const auto holds = [&](const char* flag) { return std::ranges::find(line, flag) != line.end(); };
  const bool all = line.empty() || holds("-h") || holds("--help");
  const auto named = all ? std::end(kVerbs) : std::ranges::find(kVerbs, line.front(), &Verb::name);
  for (const Verb& verb : kVerbs) {
    if (verb.add == nullptr) context.missing_commands.emplace_back(verb.name);
  }
  for (const Verb& verb : kVerbs) {
    if (named != std::end(kVerbs) && named != &verb) continue;
    if (verb.add != nullptr) {
      verb.add(parser, context);
    } else {
      AddMissingCommand(parser, std::string(verb.name), verb.needs);
    }
  }
}

// The further command that the command line begins with, or null.
const FurtherCommand* FindFurther(std::span<const FurtherCommand> further,
                                  const std::vector<std::string>& line) {
  if (line.empty()) return nullptr;
  const auto found = std::ranges::find(further, line.front(), &FurtherCommand::name);
  return found == further.end() ? nullptr : &*found;
}

int Main(int argc, char** argv, std::span<const FurtherCommand> further) {
  CLI::App app{"twinserve: LLM serving, simulated and executed by the same scheduler"};
  app.set_version_flag("--version", fmt::format("twinserve {} ({}{})", run::kVersion, run::kCommit,
                                                run::kDirty ? ", changed" : ""));
  app.footer(kExitCodes);
  app.require_subcommand(1);
  CommandContext context;
  context.command_line.assign(argv + 1, argv + argc);
  if (const FurtherCommand* command = FindFurther(further, context.command_line)) {
    return command->call({context.command_line.begin() + 1, context.command_line.end()});
  }
  AddCommands(CommandParser(app), context);
  for (const FurtherCommand& command : further) app.add_subcommand(command.name, command.help);
  std::vector<std::string> arguments = context.command_line;
  RepairDashes(app, arguments);
  RequireKnownNames(app, arguments);
  std::ranges::reverse(arguments);  // the parser takes the first one from the end
  app.name(argv[0]);                // in help texts
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      std::string what = error.what();
      std::replace(what.begin(), what.end(), '\n', ' ');
      std::cerr << "twinserve: " << what << "; --help shows what is allowed\n";
      return kUsage;
    }
    app.exit(error);  // --help, --version
  }
  RequireWrittenStdout();
  return context.exit_code;
}

}  // namespace

int RunCommandLine(int argc, char** argv, std::span<const FurtherCommand> further) {
  // A write beyond the limit of a file's size then fails like a write to a full disk, and the error
  // names the file.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return Main(argc, argv, further);
  } catch (const InputError& error) {
    std::cerr << "twinserve: " << error.what() << "\n";
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    std::cerr << "twinserve: out of memory\n";
    return kFailure;
  } catch (const std::system_error& error) {
    std::cerr << "twinserve: " << error.what();
    const bool no_thread = error.code() == std::errc::resource_unavailable_try_again;
    if (no_thread) std::cerr << ": no further thread is allowed (ulimit -u, ulimit -v)";
    std::cerr << "\n";
    return kFailure;
  } catch (const std::exception& error) {
    std::cerr << "twinserve: " << error.what() << "\n";
    return kFailure;
  }
}

}  // namespace twin::apps
