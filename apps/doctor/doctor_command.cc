// twinserve doctor: what this machine and this build can do.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/built_parts.h"
#include "apps/commands.h"
#include "apps/doctor/doctor_lists.h"
#include "apps/doctor/machine_report.h"
#include "apps/doctor/program.h"
#include "apps/missing_command.h"
#include "apps/options.h"

namespace twin::apps {
namespace {

struct DoctorArguments {
  DoctorList list = DoctorList::kNone;
  std::string format = "table";
  MachineReport report;
};

// The report of a program that runs no models: itself, and the commands that it lacks.
void ReportProgram(const std::vector<std::string>& missing_commands, bool as_json) {
  if (as_json) {
    nlohmann::ordered_json json = ProgramJson();
    json["wheel"] = IsWheel();
    json["lacks"] = missing_commands;
    std::cout << json.dump(2) << "\n";
    return;
  }
  std::cout << ProgramLine()
            << (IsWheel() ? "machine   this is the wheel: it simulates, and runs no model\n"
                          : "machine   built with -DTWIN_EXEC=OFF: this program simulates, and "
                            "runs no model\n")
            << fmt::format("lacks     {}; run and validate with a real world{}\n",
                           fmt::join(missing_commands, ", "),
                           IsWheel() ? " (a build from source has them: README.md)" : "");
}

void Doctor(const DoctorArguments& arguments) {
  const bool as_json = arguments.format == "json";
  if (arguments.list == DoctorList::kNone) {
    arguments.report(as_json);
    return;
  }
  (as_json ? PrintListJson : PrintList)(arguments.list, std::cout);
}

}  // namespace

void AddDoctorCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<DoctorArguments>();
  CommandParser command =
      app.AddCommand("doctor", "Show this machine and this build: CPU features, CUDA, NCCL, MPI");
  command.AddOption("--format", arguments->format, "Output format, also of --list (default: table)")
      .OneOf({"table", "json"});
  if constexpr (kHasExec) {
    arguments->report = AddMachineReport(command);
  } else {
    arguments->report = [missing = context.missing_commands](bool as_json) {
      ReportProgram(missing, as_json);
    };
  }
  command.AddEnumOption<DoctorList>(
      "--list", arguments->list,
      {{"models", DoctorList::kModels},
       {"families", DoctorList::kFamilies},
       {"hardware", DoctorList::kHardware},
       {"servers", DoctorList::kServers},
       {"server-defaults", DoctorList::kServerDefaults},
       {"server-settings", DoctorList::kServerSettings},
       {"policies", DoctorList::kPolicies},
       {"cost-models", DoctorList::kCostModels},
       {"configuration", DoctorList::kConfiguration},
       {"metrics", DoctorList::kMetrics}},
      "Print a table of what experiments can name, or the reference of "
      "experiment files, instead");
  command.OnCall([arguments] { Doctor(*arguments); });
}

}  // namespace twin::apps
