// twinserve fit: turns a profile into a cost model and reports its errors on held-out steps.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/fit_steps_command.h"
#include "apps/profile/fit_profile.h"
#include "apps/terminal_control.h"
#include "config/cost_file.h"
#include "core/files/output_file.h"
#include "core/input_error.h"

namespace twin::apps {
namespace {

void PrintError(const char* name, const sim::PartError& error) {
  const std::string noise = error.noise ? fmt::format("{:.1f} %", 100 * *error.noise) : "unknown";
  std::printf("%-14s %6.1f %% %7.1f %% %7.1f %% %+7.1f %% %9s\n", name, 100 * error.share,
              100 * error.median, 100 * error.p90, 100 * error.bias, noise.c_str());
}

void PrintReport(const sim::FitReport& report) {
  std::printf("fitted on %lld whole steps; errors on %lld that were held out\n",
              static_cast<long long>(report.fitted_steps),
              static_cast<long long>(report.total.steps));
  std::printf("%-14s %8s %9s %9s %9s %9s\n", "part", "of time", "median", "p90", "bias", "noise");
  for (std::size_t i = 0; i < kStepPartCount; ++i) {
    if (report.parts[i].steps == 0) continue;
    PrintError(std::string(kStepPartNames[i]).c_str(), report.parts[i]);
  }
  PrintError("device total", report.total);
}

struct FitArguments {
  void (*fit_steps)(const FitStepsArguments&) = nullptr;
  std::string profile;
  std::string out;
  FitStepsArguments steps;
};

void Fit(FitArguments& arguments) {
  if (arguments.profile.empty() == arguments.steps.sets.empty()) {
    throw InputError(InputError::Kind::kUsage, "PROFILE", "allowed: either PROFILE or --steps");
  }
  if (!arguments.steps.sets.empty()) {
    arguments.steps.out = arguments.out;
    arguments.fit_steps(arguments.steps);
    return;
  }
  TerminalReports control;
  OutputFile out(arguments.out);
  const sim::FitResult fit = run::FitProfile(arguments.profile, control);
  out.Write(WriteFittedCost(fit.config));
  out.Commit();
  PrintReport(fit.report);
  control.OnNote(fmt::format("wrote {}", arguments.out));
}

}  // namespace

void AddFitCommand(CommandParser app, CommandContext& /*context*/,
                   void (*fit_steps)(const FitStepsArguments&)) {
  auto arguments = std::make_shared<FitArguments>();
  arguments->fit_steps = fit_steps;
  CommandParser command =
      app.AddCommand("fit",
                     "Turn a profile into a cost model: cost { fitted { path: ... } }, "
                     "or recorded steps into terms of cost { profile {} }");
  command.AddOption("PROFILE", arguments->profile, "CSV file that `twinserve profile` wrote");
  command.AddOption(
      "--steps", arguments->steps.sets,
      "CSV file listing tables of recorded steps, one per line: file, model, tensor, use. use: fit "
      "= fit all terms, ratios = fit only the model's correction, judge = report errors. Columns "
      "of a table: `twinserve predict steps --help`, and iter_us");
  command.AddOption("--data", arguments->steps.data, "Folder of the tables of --steps");
  command.AddOption("--hardware", arguments->steps.hardware,
                    "Device of the steps: name of a data sheet, or a file");
  command.AddOption("--device-profile", arguments->steps.profile,
                    "A folder that replaces the built-in profile of the device");
  command.AddOption("--out", arguments->out, "Cost model to write (.textproto)").Required();
  command.OnCall([arguments] { Fit(*arguments); });
}

}  // namespace twin::apps
