// twinserve resolve: an experiment with all defaults, and where each value comes from.
#include <fmt/format.h>

#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/commands.h"
#include "apps/experiment_options/asked_experiment.h"
#include "apps/options.h"
#include "config/experiment_config.h"
#include "config/experiment_text.h"
#include "core/input_error.h"
#include "run/deployment.h"
#include "run/server_differences.h"

namespace twin::apps {
namespace {

struct ResolveArguments {
  AskedExperiment experiment;
  bool changed = false;
};

// Says where each value of the text of a deployment comes from.
class OriginText {
 public:
  OriginText(const ExperimentConfig& config, const AskedExperiment& asked)
      : config_(config), asked_(asked), origins_(config) {
    for (const FieldLine& line : LinesOf(WriteResolved(config))) before_[line.path] = line.text;
  }

  // Whether the run's profile set or changed the field.
  [[nodiscard]] bool FromProfile(const FieldLine& line) const {
    const auto before = before_.find(line.path);
    return line.kind == FieldLine::Kind::kValue &&
           (before == before_.end() || before->second != line.text);
  }

  [[nodiscard]] std::string Describe(const FieldLine& line) const {
    if (FromProfile(line)) return "device profile";
    switch (origins_.Find(line.path)) {
      case FieldOrigin::kAsked:
        return Asked(line.path);
      case FieldOrigin::kServer:
        return fmt::format("server {}", *config_.system.server);
      case FieldOrigin::kModel:
        return fmt::format("model {}", config_.system.model_spec.name);
      case FieldOrigin::kHardware:
        return fmt::format("hardware {}", config_.system.hardware_spec.name);
      case FieldOrigin::kDefault:
        return "default";
    }
    return "";
  }

  // False for what follows from other fields anyway.
  [[nodiscard]] bool IsChange(const std::string& origin) const {
    return origin != "default" && !origin.starts_with("model ") && !origin.starts_with("hardware ");
  }

 private:
  [[nodiscard]] std::string Asked(const std::string& path) const {
    if (!asked_.from_options()) return "file";
    const auto reason = asked_.made().reasons.find(path);
    return reason == asked_.made().reasons.end() ? "option" : "chosen: " + reason->second;
  }

  const ExperimentConfig& config_;
  const AskedExperiment& asked_;
  FieldOrigins origins_;
  std::map<std::string, std::string> before_;
};

void Resolve(ResolveArguments& arguments) {
  const ExperimentConfig config = arguments.experiment.Read();
  for (const std::string& note : arguments.experiment.SortedOptions()) std::cerr << note << "\n";
  if (!config.system.groups.empty()) {  // paths do not tell the groups apart
    std::cout << WriteResolved(config);
    return;
  }
  const run::Deployment deployment = run::Resolve(config);
  for (const std::string& line : run::ServerDifferences(config)) {
    std::cerr << "warning: " << line << "\n";
  }
  std::vector<FieldLine> lines = LinesOf(WriteResolved(deployment.config));
  const OriginText origins(config, arguments.experiment);
  std::map<std::string, std::string> texts;
  for (const FieldLine& line : lines) texts[line.path] = origins.Describe(line);
  const auto text = [&](std::string_view path) { return texts.find(std::string(path))->second; };
  if (arguments.changed) {
    KeepFields([&](std::string_view path) { return origins.IsChange(text(path)); }, lines);
  }
  AddComments(text, lines);
  std::cout << TextOf(lines);
}

}  // namespace

void AddResolveCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<ResolveArguments>();
  CommandParser command = app.AddCommand(
      "resolve", "Print an experiment with all its values, and where each of them comes from");
  arguments->experiment.AddTo(command, "resolve", context.command_line);
  command.AddFlag("--changed", arguments->changed,
                  "Leave out defaults, and what follows from the names of model and hardware");
  command.OnCall([arguments] { Resolve(*arguments); });
}

}  // namespace twin::apps
