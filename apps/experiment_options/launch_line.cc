#include "apps/experiment_options/launch_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/experiment_options/line_options.h"
#include "apps/experiment_options/shell_commands.h"
#include "config/servers/server_name.h"
#include "config/servers/servers.h"
#include "config/servers/settings.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "core/split_text.h"

namespace twin::apps {
namespace {

constexpr const char* kServe = "--serve";

// A command that starts a server.
struct Launch {
  const Server* server = nullptr;
  std::string image;  // of the container; empty without one
  std::span<const std::string> before;
  std::span<const std::string> arguments;
};

// The word that names the server's container, with or without a registry in front and a tag behind.
const std::string* FindImage(const Server& server, std::span<const std::string> words) {
  const std::string_view name = server.image.substr(0, server.image.find(':'));
  const auto found = std::ranges::find_if(words, [&](std::string_view word) {
    word = word.substr(0, word.rfind(':'));
    if (!word.ends_with(name)) return false;
    word.remove_suffix(name.size());
    return word.empty() || word.ends_with('/');
  });
  return found == words.end() ? nullptr : &*found;
}

std::optional<Launch> LaunchOf(const Server& server, std::span<const std::string> words) {
  const std::string* const image = FindImage(server, words);
  std::size_t begin = kNoProgram;
  ForEachPart(server.programs, '|', [&](std::string_view program) {
    if (begin == kNoProgram) begin = AfterProgram(words, program);
  });
  // The container itself starts the program.
  if (begin == kNoProgram && image != nullptr) {
    begin = static_cast<std::size_t>(image - words.data()) + 1;
  }
  if (begin == kNoProgram) return std::nullopt;
  return Launch{&server, image == nullptr ? "" : *image, words.first(begin), words.subspan(begin)};
}

std::optional<Launch> LaunchOf(std::span<const std::string> words) {
  for (const Server* const server : Servers()) {
    if (auto launch = LaunchOf(*server, words)) return launch;
  }
  return std::nullopt;
}

[[noreturn]] void RefuseLaunchLine(const std::string& line) {
  std::vector<std::string_view> programs;
  for (const Server* const server : Servers()) {
    ForEachPart(server->programs, '|',
                [&](std::string_view program) { programs.push_back(program); });
  }
  throw InputError(InputError::Kind::kUsage, kServe,
                   fmt::format("\"{}\" starts no server; allowed: a line with one of {}",
                               Printable(line, kMessageBytesMax), fmt::join(programs, ", ")));
}

// "--compilation-config.cudagraph_mode" sets a part of an object.
std::optional<FoundSetting> FindFlag(const Server& server, std::string_view name) {
  const auto whole = FindSetting(server.family, name);
  return whole ? whole : FindSetting(server.family, name.substr(0, name.find('.')));
}

ValueCount ValuesOfFlag(const Server& server, std::string_view name) {
  const auto setting = FindFlag(server, name);
  if (!setting) return ValueCount::kMany;
  if (setting->row->value == SettingValue::kSwitch) return ValueCount::kSwitch;
  return setting->row->value == SettingValue::kList ? ValueCount::kMany : ValueCount::kOne;
}

// Variables of the environment: NAME=VALUE words, also those that follow -e of a container.
void NoteVariables(std::span<const std::string> before, GivenOptions& asked) {
  constexpr std::string_view kWithoutEffect[] = {"HF_", "HUGGING_FACE_", "CUDA_VISIBLE_DEVICES"};
  for (const std::string& word : before) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, std::min(equals, word.size()));
    constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    if (equals == std::string::npos || name.empty()) continue;
    if (name.find_first_not_of(kLetters) != std::string::npos) continue;
    asked.launched.push_back(name);
    const bool without = std::ranges::any_of(
        kWithoutEffect, [&](std::string_view start) { return name.starts_with(start); });
    (without ? asked.ignored : asked.not_simulated).push_back(name);
  }
}

void TakeServer(const Launch& launch, GivenOptions& asked) {
  const std::string given = NamedServer(asked).value;
  if (!given.empty()) {
    const auto named = ParseServerName(given);
    if (named && named->family == launch.server->family) return;
    throw InputError(InputError::Kind::kUsage, kServe,
                     fmt::format("starts {}, but {} names {}; allowed: one of them",
                                 launch.server->title, NamedServer(asked).name, Printable(given)));
  }
  const auto tagged = ParseServerName(launch.image);
  const bool has_release = tagged && tagged->version && FindServer(launch.image);
  asked.given[ExperimentOption::kServer] = {
      kServe, has_release ? launch.image : std::string(launch.server->title)};
}

void TakeFlag(const Server& server, const LineOption& option, GivenOptions& asked,
              std::vector<GivenOption>& flags) {
  asked.launched.push_back(option.name);
  const auto setting = FindFlag(server, option.name);
  if (!setting) {
    asked.not_simulated.push_back(
        fmt::format("{} (no flag of {} that is known)", option.name, server.title));
  } else if (setting->row->field == "system.model") {
    asked.given.try_emplace(ExperimentOption::kModel, GivenOption{option.name, option.value()});
  } else {
    flags.push_back({option.name.substr(0, option.name.find('.')), option.value()});
  }
}

}  // namespace

void TakeLaunchLine(const std::string& line, GivenOptions& asked) {
  const auto commands = ShellCommands(kServe, line);
  std::optional<Launch> launch;
  for (const auto& words : commands) {
    if (!launch) launch = LaunchOf(words);
  }
  if (!launch) RefuseLaunchLine(line);
  const Server& server = *launch->server;
  TakeServer(*launch, asked);
  NoteVariables(launch->before, asked);
  const LineOptions options = OptionsOfLine(
      launch->arguments, [&](std::string_view name) { return ValuesOfFlag(server, name); });
  if (!options.positionals.empty()) {
    asked.given.try_emplace(ExperimentOption::kModel,
                            GivenOption{"--model", options.positionals.front()});
  }
  std::vector<GivenOption> flags;
  for (const LineOption& option : options.options) TakeFlag(server, option, asked, flags);
  asked.server_flags.insert(asked.server_flags.begin(), flags.begin(), flags.end());
  asked.has_launch_line = true;
}

}  // namespace twin::apps
