#include "apps/experiment_options/asked_experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "apps/experiment_names.h"
#include "config/experiment_text.h"
#include "config/policy_file.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin::apps {
namespace {

// The options of an experiment take six million instructions to declare, a quarter of a short run:
// a command line with the most common other options alone does without them.
bool MayNameOptions(const std::vector<std::string>& line) {
  constexpr std::array<std::string_view, 6> kOthers = {"--set",    "--unset", "--out",
                                                       "--format", "--jobs",  "--draws"};
  return std::ranges::any_of(line, [&](const std::string& word) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    return name.starts_with('-') && std::ranges::find(kOthers, name) == kOthers.end();
  });
}

}  // namespace

void RefuseBoth(const std::string& verb, const GivenOption& option) {
  const std::string_view field = FieldOfOption(option.name);
  throw InputError(
      InputError::Kind::kUsage, fmt::format("{}: {}", verb, option.name),
      fmt::format("two ways to name an experiment; allowed: the file with --set {}={}, or options "
                  "alone",
                  field.empty() ? "FIELD" : field,
                  field.empty() ? "VALUE" : Printable(option.value, kMessageBytesMax)));
}

void AskedExperiment::AddTo(CommandParser command, const std::string& verb,
                            const std::vector<std::string>& line) {
  verb_ = verb;
  command.AddOption(
      "EXPERIMENT", file_,
      "Experiment file (.textproto), or a name such as quickstart/vllm_v1; or options "
      "from --model on in its place");
  if (MayNameOptions(line)) AddExperimentOptions(command, line, options_);
  AddOverrideOptions(command, changes_);
}

ExperimentConfig AskedExperiment::ReadFile(const std::vector<std::string>& more) const {
  GivenOptions others = options_;
  others.given.erase(ExperimentOption::kPolicy);
  others.given.erase(ExperimentOption::kEngine);
  if (const std::optional<GivenOption> first = others.FirstGiven()) RefuseBoth(verb_, *first);
  std::vector<std::string> changes = changes_;
  if (const GivenOption* const engine = options_.Find(ExperimentOption::kEngine)) {
    const bool beside_policy = options_.Find(ExperimentOption::kPolicy) != nullptr;
    changes.insert(changes.begin(), EngineChange(engine->value, beside_policy));
  }
  if (const GivenOption* const policy = options_.Find(ExperimentOption::kPolicy)) {
    changes.insert(changes.begin(), PolicyChange(policy->value));
  }
  changes.insert(changes.end(), more.begin(), more.end());
  return ReadExperiment(ExperimentFile(file_), changes);
}

ExperimentConfig AskedExperiment::With(const std::vector<std::string>& more) const {
  if (!file_.empty()) return ReadFile(more);
  std::vector<std::string> changes = changes_;
  changes.insert(changes.end(), more.begin(), more.end());
  return ReadOptions(made_, changes, options_, verb_);
}

ExperimentConfig AskedExperiment::Read() {
  if (!file_.empty()) return ReadFile({});
  const std::optional<GivenOption> first = options_.FirstGiven();
  if (!first) {
    throw InputError(InputError::Kind::kUsage, verb_,
                     fmt::format("no experiment; allowed: EXPERIMENT, a file, or options: --model "
                                 "M --hardware HW and --rate R, --concurrency N or --trace FILE; "
                                 "see twinserve {} --help",
                                 verb_));
  }
  made_ = ExperimentOf(options_, verb_);
  return With({});
}

std::string AskedExperiment::Text(const ExperimentConfig& config) const {
  std::vector<FieldLine> lines = LinesOf(WriteAsked(config));
  const auto reason = [&](std::string_view path) {
    const bool changed = std::ranges::any_of(changes_, [&](const std::string& change) {
      return change.starts_with(path) || change.starts_with(fmt::format("!{}", path));
    });
    const auto found = made_.reasons.find(std::string(path));
    return found == made_.reasons.end() || changed ? std::string() : found->second;
  };
  AddComments(reason, lines);
  return TextOf(lines);
}

}  // namespace twin::apps
