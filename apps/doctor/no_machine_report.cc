// The report in a build without TWIN_EXEC.
#include <iostream>

#include <nlohmann/json.hpp>

#include "apps/doctor/machine_report.h"
#include "apps/doctor/program.h"
#include "apps/missing_command.h"

namespace twin::apps {

MachineReport AddMachineReport(CommandParser /*command*/) {
  return [](bool as_json) {
    if (as_json) {
      std::cout << ProgramJson().dump(2) << "\n";
      return;
    }
    std::cout << ProgramLine()
              << (IsWheel()
                      ? "machine   the wheel simulates, and runs no model\n"
                      : "machine   built with -DTWIN_EXEC=OFF: this program simulates, and runs no "
                        "model\n");
  };
}

}  // namespace twin::apps
