#include "apps/options.h"

#include <fmt/format.h>

#include <memory>
#include <string_view>

#include <CLI/CLI.hpp>

#include "config/policy_file.h"
#include "core/nearest_names.h"
#include "core/printable.h"

namespace twin::apps {

CommandOption CommandOption::Required() { return CommandOption(option_->required()); }

CommandOption CommandOption::InRange(int low, int high) {
  return CommandOption(option_->check(CLI::Range(low, high)));
}

CommandOption CommandOption::InRange(std::int64_t low, std::int64_t high) {
  return CommandOption(option_->check(CLI::Range(low, high)));
}

CommandOption CommandOption::InRange(double low, double high) {
  return CommandOption(option_->check(CLI::Range(low, high)));
}

CommandOption CommandOption::OneOf(std::initializer_list<const char*> words) {
  return CommandOption(
      option_->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end()))));
}

CommandOption CommandOption::OneOf(std::initializer_list<int> numbers) {
  return CommandOption(option_->check(CLI::IsMember(std::vector<int>(numbers))));
}

CommandOption CommandOption::SplitAt(char delimiter) {
  return CommandOption(option_->delimiter(delimiter));
}

CommandOption CommandOption::ValueOptional() { return CommandOption(option_->expected(0, 1)); }

CommandOption CommandOption::ValueName(const std::string& name) {
  return CommandOption(option_->type_name(name));
}

CommandOption CommandOption::ShowDefault() { return CommandOption(option_->capture_default_str()); }

CommandOption CommandOption::Group(const std::string& heading) {
  return CommandOption(option_->group(heading));
}

CommandOption CommandOption::Excludes(CommandOption excluded) {
  return CommandOption(option_->excludes(excluded.option_));
}

CommandOption CommandOption::Needs(CommandOption needed) {
  return CommandOption(option_->needs(needed.option_));
}

CommandParser CommandParser::AddCommand(const std::string& name, const std::string& help) {
  return CommandParser(*app_->add_subcommand(name, help));
}

void CommandParser::RequireCommand() { app_->require_subcommand(1); }

void CommandParser::AllowAny() { app_->allow_extras(); }

void CommandParser::Footer(const std::string& text) { app_->footer(text); }

void CommandParser::OnCall(std::function<void()> call) { app_->callback(std::move(call)); }

CommandOption CommandParser::AddTarget(const std::string& name, OptionTarget target,
                                       const std::string& help) {
  return std::visit(
      [&](auto* variable) { return CommandOption(app_->add_option(name, *variable, help)); },
      target);
}

void CommandParser::AddFlag(const std::string& name, bool& target, const std::string& help) {
  app_->add_flag(name, target, help);
}

CommandOption CommandParser::AddFlag(const std::string& name, std::function<void()> note,
                                     const std::string& help) {
  return CommandOption(app_->add_flag_callback(name, std::move(note), help)->trigger_on_parse());
}

CommandOption CommandParser::AddWordOption(const std::string& name, std::vector<std::string> words,
                                           std::function<void(std::size_t index)> set,
                                           const std::string& help) {
  const std::string list = fmt::format("{}", fmt::join(words, "|"));
  const auto find = [name, words = std::move(words),
                     set = std::move(set)](const std::string& text) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] != text) continue;
      set(i);
      return;
    }
    const std::vector<std::string_view> names(words.begin(), words.end());
    const std::string nearest = NearestNames(text, names);
    throw CLI::ValidationError(
        name, fmt::format("no value \"{}\"; nearest \"{}\"; allowed: {}", Printable(text),
                          nearest.substr(0, nearest.find(',')), fmt::join(names, ", ")));
  };
  return CommandOption(app_->add_option_function<std::string>(name, find, help)->type_name(list));
}

CommandOption CommandParser::AddRepeatable(const std::string& name, const std::string& value_name,
                                           const std::function<void(const std::string&)>& append,
                                           const std::string& help) {
  return CommandOption(app_->add_option_function<std::string>(name, append, help)
                           ->type_name(value_name)
                           // Called at each occurrence, so that the order of all repeatable options
                           // is kept.
                           ->trigger_on_parse()
                           ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast));
}

CommandOption CommandParser::AddLate(const std::string& name, const std::string& value_name,
                                     const std::function<void(const std::string&)>& take,
                                     const std::string& help) {
  return CommandOption(app_->add_option_function<std::string>(name, take, help)
                           ->type_name(value_name)
                           ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast));
}

CommandOption CommandParser::AddList(const std::string& name, const std::string& value_name,
                                     const std::function<void(const std::string&)>& append,
                                     const std::string& help) {
  const auto join = [append](const std::vector<std::string>& values) {
    append(fmt::format("{}", fmt::join(values, " ")));
  };
  return CommandOption(app_->add_option_function<std::vector<std::string>>(name, join, help)
                           ->type_name(value_name)
                           ->trigger_on_parse());
}

bool CommandParser::Has(const std::string& name) const {
  return app_->get_option_no_throw(name) != nullptr;
}

std::vector<CommandOption> CommandParser::NamedOptions() const {
  std::vector<CommandOption> options;
  for (CLI::Option* const option : app_->get_options()) {
    if (option->nonpositional() && option != app_->get_help_ptr()) options.emplace_back(option);
  }
  return options;
}

OverrideOptions AddOverrideOptions(CommandParser command, std::vector<std::string>& changes) {
  const auto add = [&](const char* name, const char* prefix, const char* value, const char* help) {
    return command.AddRepeatable(
        name, value,
        [&changes, prefix](const std::string& text) {
          changes.push_back(fmt::format("{}{}", prefix, text));
        },
        help);
  };
  return {.set = add("--set", "", "PATH=VALUE",
                     "Change a field of the experiment; repeatable, applied in order"),
          .unset = add("--unset", "!", "PATH",
                       "Clear a field of the experiment, so that its default applies; repeatable, "
                       "applied in order with --set")};
}

void AddPolicyOption(CommandParser command, std::vector<std::string>& changes) {
  // Values of --policy and --engine, which come in either order.
  const auto policy = std::make_shared<std::string>();
  const auto engine = std::make_shared<std::string>();
  const auto change = [&changes, policy, engine](const std::shared_ptr<std::string>& asked,
                                                 const std::string& text) {
    *asked = text;
    if (asked == policy) changes.push_back(PolicyChange(*policy));
    if (!engine->empty()) changes.push_back(EngineChange(*engine, !policy->empty()));
  };
  command.AddRepeatable(
      "--policy", "POLICY", [change, policy](const std::string& text) { change(policy, text); },
      "Policy in place of the experiment's: a name, a shared library (.so), or a file of Python "
      "(.py, or .py:CLASS); with --engine also MODULE:CLASS; applied in order with --set");
  command.AddRepeatable(
      "--engine", "RELEASE", [change, engine](const std::string& text) { change(engine, text); },
      "Release, such as vllm==0.33.0, whose scheduler the class of --policy is; without --policy, "
      "its own scheduler");
}

}  // namespace twin::apps
