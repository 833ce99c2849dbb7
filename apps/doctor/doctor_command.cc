// twinserve doctor: what this machine and this build can do.
#include <iostream>
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/doctor/doctor_lists.h"
#include "apps/doctor/machine_report.h"
#include "apps/options.h"

namespace twin::apps {
namespace {

struct DoctorArguments {
  DoctorList list = DoctorList::kNone;
  std::string format = "table";
  MachineReport report;
};

void Doctor(const DoctorArguments& arguments) {
  const bool as_json = arguments.format == "json";
  if (arguments.list == DoctorList::kNone) {
    arguments.report(as_json);
    return;
  }
  (as_json ? PrintListJson : PrintList)(arguments.list, std::cout);
}

}  // namespace

void AddDoctorCommand(CommandParser app, CommandContext& /*context*/) {
  auto arguments = std::make_shared<DoctorArguments>();
  CommandParser command =
      app.AddCommand("doctor", "Show this machine and this build: CPU features, CUDA, NCCL, MPI");
  command.AddOption("--format", arguments->format, "Output format, also of --list (default: table)")
      .OneOf({"table", "json"});
  arguments->report = AddMachineReport(command);
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
