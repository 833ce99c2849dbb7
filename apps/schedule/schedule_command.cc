// twinserve schedule: what a policy decides, step by step, in unit time.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "apps/commands.h"
#include "apps/progress.h"
#include "apps/schedule/schedule_run.h"
#include "config/case_parameters.h"
#include "core/files/input_file.h"
#include "core/input_error.h"
#include "sched/invariant.h"

namespace twin::apps {
namespace {

struct ScheduleArguments {
  std::vector<std::string> files;
  bool check = false;
};

struct Tally {
  std::int64_t cases = 0;
  std::int64_t matched = 0;
  std::string first_difference;
};

void Compare(const run::ScheduleCase& c, const PolicyConfig& policy, Tally& tally) {
  ++tally.cases;
  std::string difference;
  try {
    difference = run::FirstDifference(c, run::DecideCase(c, policy));
  } catch (const InvariantViolation& violation) {
    difference = violation.what();
  }
  if (difference.empty()) {
    ++tally.matched;
  } else if (tally.first_difference.empty()) {
    tally.first_difference = c.name + "\n     " + difference;
  }
}

// Decides the case on a line of a file, and counts it or prints the decisions. Throws InputError.
void TakeLine(const std::string& line, const std::string& where, bool check,
              std::map<std::string, Tally>& tallies) {
  const run::ScheduleCase c = run::ParseScheduleCase(line, where);
  const PolicyConfig policy = ReadCaseParameters(c.policy, c.params.dump(), where);
  if (!check) {
    const nlohmann::ordered_json result{{"case", c.name},
                                        {c.decisions(), run::DecideCase(c, policy)}};
    std::cout << result.dump() << "\n";
    return;
  }
  if (c.steps.is_null()) {
    throw InputError(InputError::Kind::kData, where,
                     fmt::format("field '{}' is missing", c.decisions()));
  }
  Compare(c, policy, tallies[c.variant]);
}

// A refused case is reported in a line of its own, and the next one is decided.
void Schedule(const ScheduleArguments& arguments, CommandContext& context) {
  std::map<std::string, Tally> tallies;
  Progress progress("cases", 0);
  std::uint64_t done = 0;
  for (const std::string& file : arguments.files) {
    RequireRegularFileIfThere(file);
    std::ifstream in(file);
    if (!in) throw InputError(InputError::Kind::kData, file, "cannot be read");
    std::int64_t number = 0;
    for (std::string line; std::getline(in, line);) {
      try {
        TakeLine(line, file + ":" + std::to_string(++number), arguments.check, tallies);
      } catch (const InputError& error) {
        std::cerr << "twinserve: " << error.what() << "\n";
        context.exit_code = std::max(context.exit_code, 1);  // a case is data, whatever is wrong
      }
      progress.Show(++done);
    }
    if (number == 0)
      throw InputError(InputError::Kind::kData, file,
                       "holds no case; allowed: NDJSON, a case a line");
  }
  for (const auto& [variant, tally] : tallies) {
    const bool all = tally.matched == tally.cases;
    std::cout << variant << ": " << tally.matched << "/" << tally.cases << " matched\n";
    if (!all) {
      std::cout << "     " << tally.first_difference << "\n";
      context.exit_code = 1;
    }
  }
}

}  // namespace

void AddScheduleCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<ScheduleArguments>();
  CommandParser command = app.AddCommand(
      "schedule",
      "Print the decisions of policies on scheduling cases, step by step (every step takes one "
      "unit of time)");
  command
      .AddOption("--cases,CASES", arguments->files,
                 "Case files: NDJSON, one case per line; prints one line {\"case\", \"steps\"} per "
                 "case (\"batches\" where a batch takes a given time). A case that is refused is "
                 "reported, and the next one is decided")
      .Required();
  command.AddFlag(
      "--check", arguments->check,
      "Compare with the steps that each case expects instead of printing them; the exit code "
      "is 1 if any differ");
  command.OnCall([arguments, &context] { Schedule(*arguments, context); });
}

}  // namespace twin::apps
