#include "apps/recommend/request_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/experiment_options/option_experiment.h"
#include "config/servers/servers.h"
#include "core/input_error.h"

namespace twin::apps {
namespace {

constexpr int kReplications = 3;  // of one line, which people wait for
constexpr int kRequests = 1000;

// In the quotes of a text file.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// The value of the field in changes as --set takes them; nullopt if none sets it.
std::optional<std::string> ValueOf(const std::vector<std::string>& changes, std::string_view path) {
  for (const std::string& change : changes) {
    if (change.starts_with(path) && change.substr(path.size()).starts_with('=')) {
      return change.substr(path.size() + 1);
    }
  }
  return std::nullopt;
}

// The recommendation finds these itself.
void RefuseSettings(const GivenOptions& given) {
  const auto refuse = [](const GivenOption& option) {
    throw InputError(InputError::Kind::kUsage, "recommend: " + option.name,
                     "is what a recommendation chooses; allowed: without it, or a request file, "
                     "whose settings and set may fix it");
  };
  if (!given.server_flags.empty()) refuse(given.server_flags.front());
  for (const ExperimentOption option : {ExperimentOption::kRouter, ExperimentOption::kPolicy,
                                        ExperimentOption::kEngine, ExperimentOption::kSequences}) {
    if (const GivenOption* const found = given.Find(option)) refuse(*found);
  }
}

// Fields of the workload, as changes to the experiments.
std::string LoadLines(const std::vector<std::string>& changes) {
  std::string lines;
  for (const std::string& change : changes) {
    const bool is_size =
        change.starts_with("workload.requests=") || change.starts_with("workload.duration_s=");
    if (change.starts_with("workload.") && !is_size) {
      lines += fmt::format("set: {}\n", Quoted(change));
    }
  }
  return lines;
}

std::string BoundLines(const RequestOptions& request, const std::vector<std::string>& changes) {
  std::string bounds;
  for (const std::string_view field : {"ttft_s", "tpot_s", "e2el_s"}) {
    if (const auto value = ValueOf(changes, fmt::format("slo.{}", field))) {
      bounds += fmt::format(" {}: {}", field, *value);
    }
  }
  if (bounds.empty() && request.until.empty()) {
    throw InputError(InputError::Kind::kUsage, "recommend",
                     "no bounds; allowed: --until 'p99_ttft_ms<=500 && mean_tpot_ms<=20', or "
                     "--ttft MS and --tpot MS, which nine of ten requests keep");
  }
  std::string lines = bounds.empty() ? "" : fmt::format("slo {{{} }}\n", bounds);
  if (!request.until.empty()) lines += fmt::format("until: {}\n", Quoted(request.until));
  return lines;
}

// One server, and the settings that matter most, so that the answer takes seconds. A request
// file leaves all others open.
std::string SettingLines(const std::vector<std::string>& changes) {
  const std::string named = ValueOf(changes, "system.server").value();
  const std::string_view server = FindServer(named).value().preset->name;
  std::string settings = fmt::format(" server: {}", Quoted(server));
  for (const auto& [setting, values] :
       {std::pair(Setting::kTokenBudget, "[2048, 8192]"),
        std::pair(Setting::kMaxNumSeqs, "[256, 1024]"), std::pair(Setting::kMemoryShare, "0.9")}) {
    if (FieldOfServer(server, setting).empty()) continue;  // TGI 3 has no limit of sequences
    settings += fmt::format(" {}: {}", SettingWord(setting), values);
  }
  for (const std::string_view field : {"tensor_parallel", "pipeline_parallel", "replicas"}) {
    if (const auto value = ValueOf(changes, fmt::format("system.{}", field))) {
      settings += fmt::format(" {}: {}", field, *value);
    } else if (field == "pipeline_parallel") {
      settings += " pipeline_parallel: 1";
    }
  }
  return fmt::format("settings {{{} }}\n", settings);
}

}  // namespace

void AddRequestOptions(CommandParser command, const std::vector<std::string>& line,
                       RequestOptions& request) {
  AddExperimentOptions(command, line, request.given);
  command
      .AddOption("--devices,--total-gpus", request.devices,
                 "Devices that a deployment may use (default: 1)")
      .InRange(1, 1024);
  command.AddOption("--until", request.until,
                    "Bounds on metrics of a run: 'p99_ttft_ms<=500 && mean_tpot_ms<=20'");
  command
      .AddOption("--objective", request.objective,
                 "Objective of the request (default: goodput, the largest rate within the bounds)")
      .OneOf({"goodput", "cost", "latency", "users", "fleet", "energy"});
}

bool HasRequest(const RequestOptions& request) {
  return request.given.FirstGiven() || !request.until.empty() || !request.objective.empty();
}

std::string RequestText(const RequestOptions& request) {
  RefuseSettings(request.given);
  const OptionExperiment made = ExperimentOf(request.given, "recommend");
  const GivenOption* const model = request.given.Find(ExperimentOption::kModel);
  const std::string requests =
      request.given.Find(ExperimentOption::kRequests) != nullptr
          ? ValueOf(made.changes, "workload.requests").value_or(std::to_string(kRequests))
          : std::to_string(kRequests);
  std::string text = fmt::format(
      "schema_version: 1\nmodel {{ name: {} checkpoint: {} }}\nhardware {{ name: {} devices: {} "
      "}}\nworkload {{}}\n",
      Quoted(ValueOf(made.changes, "system.model").value()), Quoted(model->value),
      Quoted(ValueOf(made.changes, "system.hardware").value()), request.devices);
  text += BoundLines(request, made.changes);
  if (!request.objective.empty()) text += fmt::format("objective: {}\n", request.objective);
  text += SettingLines(made.changes);
  text += fmt::format("requests: {}\nreplications: {}\n", requests, kReplications);
  if (const auto seed = ValueOf(made.changes, "seed")) text += fmt::format("seed: {}\n", *seed);
  return text + LoadLines(made.changes);
}

}  // namespace twin::apps
