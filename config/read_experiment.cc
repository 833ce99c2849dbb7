// Reads experiments: the file, its bases, the changes of the command line, and a hash of all files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "config/content_hash.h"
#include "config/engine_settings.h"
#include "config/experiment.pb.h"
#include "config/experiment_config.h"
#include "config/fill_defaults.h"
#include "config/overlay.h"
#include "config/override.h"
#include "config/text_message.h"
#include "core/hash.h"

namespace twin {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void RefuseFile(const std::string& source, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, source, what);
}

// Whether `field` is the field that `path` names, or a part of it.
bool IsAtOrBelow(const std::string& field, const std::string& path) {
  if (!field.starts_with(path)) return false;
  return field.size() == path.size() || field[path.size()] == '.' || field[path.size()] == '[';
}

// Throws if a message that is no file has the fields `base` or `unset`.
void RequireNoBase(const proto::Experiment& message, const std::string& source) {
  if (message.has_base()) RefuseFile(source, "base: can only stand in a file");
  if (message.unset_size() > 0) {
    RefuseFile(source, "unset: says what does not hold of a base; allowed: in a file with a base");
  }
}

proto::Experiment LoadLaidOver(const fs::path& path, std::vector<fs::path> chain,
                               std::vector<InputFile>& files);

// The message, whose relative paths start at `folder`, laid over its bases. Errors name `source`.
proto::Experiment LayOver(proto::Experiment message, const std::string& source,
                          const fs::path& folder, std::vector<fs::path> chain,
                          std::vector<InputFile>& files) {
  if (message.has_base() && message.base().empty()) {
    RefuseFile(source, "base: is empty; allowed: the path of an experiment file");
  }
  ResolveFiles(folder, message);
  if (!message.has_base()) {
    RequireNoBase(message, source);
    return message;
  }
  proto::Experiment base = LoadLaidOver(message.base(), std::move(chain), files);
  ReadFrom(source, [&] {
    for (const std::string& path : message.unset()) ApplyOverride("!" + path, base);
    message.clear_base();
    message.clear_unset();
    Overlay(message, base, "unset with its path, which drops what the base says of it");
  });
  return base;
}

// The file laid over its bases. `chain` holds the files that led here; `files` gets every file
// read.
proto::Experiment LoadLaidOver(const fs::path& path, std::vector<fs::path> chain,
                               std::vector<InputFile>& files) {
  const fs::path file = fs::absolute(path).lexically_normal();
  if (std::find(chain.begin(), chain.end(), file) != chain.end()) {
    std::string circle;
    for (const fs::path& link : chain) circle += link.filename().string() + " -> ";
    RefuseFile(chain.back().string(), "base: a circle: " + circle + file.filename().string());
  }
  proto::Experiment message;
  ParseText(ReadTextFile(path), {path.string()}, message);
  files.push_back({chain.empty() ? "experiment" : "base", file.string()});
  chain.push_back(file);
  return LayOver(std::move(message), path.string(), file.parent_path(), std::move(chain), files);
}

// Applies the changes, `after_each` of them. An engine in the place of a policy gets its settings.
template <class AfterEach>
void ApplyChanges(std::span<const std::string> changes, proto::Experiment& message,
                  AfterEach after_each) {
  std::optional<proto::Policy> replaced;
  for (const std::string& change : changes) {
    const bool may_replace = change.starts_with("policy") && !message.policy().has_own();
    if (may_replace) replaced = message.policy();
    ApplyOverride(change, message);
    after_each();
  }
  if (!replaced || !message.policy().own().has_engine()) return;
  GiveSettings(*replaced, *message.mutable_policy()->mutable_own());
}

// Refuses a rate of 0 without a kind. A resolved experiment has both for arrivals without a rate.
void RequireRate(const proto::Experiment& message, const std::string& source) {
  const proto::Arrivals& arrivals = message.workload().arrivals();
  if (!arrivals.has_rate() || arrivals.rate() > 0 || arrivals.has_kind()) return;
  RefuseFile(source, "workload.arrivals.rate: is 0; allowed: above 0, with a kind of arrivals");
}

}  // namespace

ExperimentTemplate::ExperimentTemplate(const fs::path& path)
    : source_(path.string()),
      message_(std::make_shared<const proto::Experiment>(LoadLaidOver(path, {}, files_))) {}

ExperimentTemplate ExperimentTemplate::FromText(std::string_view text, const std::string& source) {
  ExperimentTemplate experiment;
  experiment.source_ = source;
  proto::Experiment message;
  ParseText(text, {source}, message);
  message = LayOver(std::move(message), source, fs::current_path(), {}, experiment.files_);
  experiment.message_ = std::make_shared<const proto::Experiment>(std::move(message));
  return experiment;
}

void ExperimentTemplate::Change(std::span<const std::string> changes, const fs::path& folder) {
  auto message = std::make_shared<proto::Experiment>(*message_);
  ApplyChanges(changes, *message, [&] { ResolveFiles(folder, *message); });
  RequireNoBase(*message, "--set");
  message_ = std::move(message);
}

ExperimentConfig ExperimentTemplate::With(std::span<const std::string> changes,
                                          const fs::path& folder) const {
  auto message = std::make_shared<proto::Experiment>(*message_);
  ApplyChanges(changes, *message, [] {});
  if (!changes.empty()) ResolveFiles(folder, *message);
  RequireRate(*message, source_);
  if (own_policy_ != nullptr && message->policy().has_own()) {
    RefuseFile(source_, "policy.own: a policy of the caller decides; allowed: one of the two");
  }
  ExperimentConfig config = ConfigOf(*message, source_, true, own_policy_);
  config.asked = std::move(message);
  config.input_files.insert(config.input_files.begin(), files_.begin(), files_.end());
  return config;
}

void ExperimentTemplate::CheckChange(std::string_view change) const {
  proto::Experiment message = *message_;
  ApplyOverride(change, message);
  RequireNoBase(message, "--set");
}

std::uint64_t ExperimentTemplate::seed() const { return message_->seed(); }

std::uint64_t ExperimentTemplate::Hash(std::span<const std::string> varied) const {
  proto::Experiment message = *message_;
  std::uint64_t hash = 0;
  for (const InputFile& file : InputsNamedIn(message)) {
    const bool replaced = std::ranges::any_of(
        varied, [&file](const std::string& path) { return IsAtOrBelow(file.field, path); });
    if (!replaced) hash = MixWords(hash, ContentHash(file));
    ApplyOverride("!" + file.field, message);
  }
  return MixWords(hash, HashText(PrintText(message)));
}

std::uint64_t ExperimentTemplate::HashOfFilesIn(const std::string& path, const std::string& value,
                                                const fs::path& folder) const {
  proto::Experiment message = *message_;
  ApplyOverride(fmt::format("{}={}", path, value), message);
  ResolveFiles(folder, message);
  std::uint64_t hash = 0;
  for (const InputFile& file : InputsNamedIn(message)) {
    if (IsAtOrBelow(file.field, path)) hash = MixWords(hash, ContentHash(file));
  }
  return hash;
}

ExperimentConfig ReadExperiment(const fs::path& path, std::span<const std::string> overrides) {
  ExperimentTemplate experiment(path);
  experiment.Change(overrides, fs::current_path());
  return experiment.With({}, {});
}

ExperimentConfig ParseExperiment(std::string_view text, const std::string& source,
                                 const fs::path& folder) {
  proto::Experiment message;
  ParseText(text, {source}, message);
  RequireNoBase(message, source);
  ResolveFiles(folder, message);
  return ConfigOf(message, source, false, nullptr);
}

bool TakesIntegers(std::string_view path) {
  return FieldTakesIntegers(path, *proto::Experiment::descriptor());
}

}  // namespace twin
