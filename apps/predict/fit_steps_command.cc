#include "apps/fit_steps_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "apps/predict/fit_steps.h"
#include "apps/terminal_control.h"
#include "config/hardware_file.h"
#include "config/profile_folder.h"
#include "core/files/output_file.h"
#include "core/input_error.h"

namespace twin::apps {
namespace {

const char* NameOf(run::StepUse use) {
  return run::kStepUseNames[static_cast<std::size_t>(use)].data();
}

void PrintTerms(const std::vector<run::FittedTerm>& terms) {
  std::printf("%-20s %12s %12s %8s %11s  %s\n", "term", "documented", "fitted", "+-", "identified",
              "trades off with");
  for (const run::FittedTerm& term : terms) {
    std::printf("%-20s %12.5g %12.5g %6.1f %% %9.0f %%  %s (%+.2f)\n", term.name.c_str(),
                term.prior.value, term.fitted.value, 100 * term.fitted.log_sd,
                100 * term.identified, term.partner.c_str(), term.correlation);
  }
}

void PrintErrors(const std::vector<run::StepErrorRow>& errors) {
  std::printf("\n%-36s %-6s %-18s %8s %9s %9s %9s\n", "set", "use", "steps", "number", "median",
              "p90", "bias");
  for (const run::StepErrorRow& row : errors) {
    std::printf("%-36s %-6s %-18s %8lld %7.2f %% %7.2f %% %+7.2f %%\n", row.set.c_str(),
                NameOf(row.use), row.kind.c_str(), static_cast<long long>(row.steps),
                100 * row.median, 100 * row.p90, 100 * row.bias);
  }
}

// Comment lines that name the recordings to which the file was fitted.
std::string Provenance(const run::StepFit& fit) {
  std::string text =
      "# Fitted by `twinserve fit --steps`: use of each recording (fit: terms, and ratios of its "
      "model;\n"
      "# ratios: those alone; judge: neither), median / p90 of the errors of its steps.\n";
  for (const run::StepErrorRow& row : fit.errors) {
    if (row.kind != "all") continue;
    text +=
        fmt::format("#   {} ({}): {} steps, {:.2f} / {:.2f} %, bias {:+.2f} %\n", row.set,
                    NameOf(row.use), row.steps, 100 * row.median, 100 * row.p90, 100 * row.bias);
  }
  return text;
}

}  // namespace

void FitSteps(const FitStepsArguments& arguments) {
  if (arguments.hardware.empty()) {
    throw InputError(InputError::Kind::kUsage, "--hardware", "is required with --steps");
  }
  TerminalReports control;
  OutputFile out(arguments.out);
  const HardwareSpec hardware = HardwareFromNameOrFile(arguments.hardware);
  sim::DeviceProfile device = arguments.profile.empty() ? ProfilePreset(hardware.name)
                                                        : ReadProfileFolder(arguments.profile);
  const run::StepFit fit = run::FitSteps(run::ReadStepSets(arguments.sets, arguments.data),
                                         hardware, arguments.engine, device, control);
  device.steps = fit.profile;
  out.Write(Provenance(fit));
  out.Write(WriteProfilePart(device, ProfilePart::kSteps));
  out.Commit();
  PrintTerms(fit.terms);
  PrintErrors(fit.errors);
  control.OnNote(fmt::format("wrote {}", arguments.out));
}

}  // namespace twin::apps
