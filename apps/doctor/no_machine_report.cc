// The report in a build without TWIN_EXEC.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <iostream>

#include <nlohmann/json.hpp>

#include "apps/doctor/machine_report.h"
#include "apps/doctor/program.h"
#include "apps/missing_command.h"

namespace twin::apps {
namespace {

// Commands that run models; they are declared in apps/no_exec_commands.cc and no_serve_command.cc.
constexpr std::array kLacking = {"generate", "bench", "profile", "fit", "serve"};

}  // namespace

MachineReport AddMachineReport(CommandParser /*command*/) {
  return [](bool as_json) {
    if (as_json) {
      nlohmann::ordered_json json = ProgramJson();
      json["wheel"] = IsWheel();
      json["lacks"] = kLacking;
      std::cout << json.dump(2) << "\n";
      return;
    }
    std::cout << ProgramLine()
              << (IsWheel() ? "machine   this is the wheel: it simulates, and runs no model\n"
                            : "machine   built with -DTWIN_EXEC=OFF: this program simulates, and "
                              "runs no model\n")
              << fmt::format("lacks     {}; run and validate with a real world{}\n",
                             fmt::join(kLacking, ", "),
                             IsWheel() ? " (a build from source has them: README.md)" : "");
  };
}

}  // namespace twin::apps
