// Options, flags and subcommands of the commands, declared without the headers of CLI11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace twin::apps {

// An option or a positional argument of a command. A copy stands for the same option. Each function
// that changes the option returns it, so that calls can be chained.
class CommandOption {
 public:
  explicit CommandOption(CLI::Option* option) : option_(option) {}

  CommandOption Required();
  // Limits the value; both ends are allowed.
  CommandOption InRange(int low, int high);
  CommandOption InRange(std::int64_t low, std::int64_t high);
  CommandOption InRange(double low, double high);
  CommandOption OneOf(std::initializer_list<const char*> words);
  CommandOption OneOf(std::initializer_list<int> numbers);
  // Splits each value at `delimiter` into elements of a list.
  CommandOption SplitAt(char delimiter);
  // The option also takes no value, which is read as an empty one.
  CommandOption ValueOptional();
  // Replaces the name of the value in help texts, such as TEXT.
  CommandOption ValueName(const std::string& name);
  // Help texts show the current value of the target as the default.
  CommandOption ShowDefault();
  // Help texts list the option under this heading.
  CommandOption Group(const std::string& heading);
  CommandOption Excludes(CommandOption excluded);
  CommandOption Needs(CommandOption needed);

  bool operator==(const CommandOption&) const = default;

 private:
  CLI::Option* option_;
};

// Variables that an option can set.
using OptionTarget =
    std::variant<std::string*, std::filesystem::path*, std::int32_t*, std::int64_t*, std::uint16_t*,
                 std::uint32_t*, std::uint64_t*, float*, double*, std::optional<std::int32_t>*,
                 std::optional<double>*, std::vector<std::string>*, std::vector<std::int32_t>*,
                 std::vector<std::filesystem::path>*>;

template <class E>
using EnumWords = std::vector<std::pair<std::string, E>>;

// Declares what one command, or the whole program, accepts. A copy stands for the same command.
// Targets must outlive the parsing.
class CommandParser {
 public:
  explicit CommandParser(CLI::App& app) : app_(&app) {}

  // Adds a subcommand. `help` describes it in one line.
  CommandParser AddCommand(const std::string& name, const std::string& help);
  // Makes the user name one of the subcommands.
  void RequireCommand();
  // Accepts any options and arguments.
  void AllowAny();
  // Shows `text` below the help on the options.
  void Footer(const std::string& text);
  // `call` runs after the command line was parsed, if the user named this command.
  void OnCall(std::function<void()> call);

  // Adds an option "--name", or a positional argument "NAME".
  template <class T>
  CommandOption AddOption(const std::string& name, T& target, const std::string& help) {
    return AddTarget(name, &target, help);
  }
  void AddFlag(const std::string& name, bool& target, const std::string& help);
  // Calls `note` at each occurrence of a flag.
  CommandOption AddFlag(const std::string& name, std::function<void()> note,
                        const std::string& help);
  // Sets `target`, an E or a std::optional<E>, to the value of the word given; help and errors list
  // the words.
  template <class E, class Target>
  CommandOption AddEnumOption(const std::string& name, Target& target, const EnumWords<E>& words,
                              const std::string& help) {
    std::vector<std::string> names;
    std::vector<E> values;
    for (const auto& [word, value] : words) {
      names.push_back(word);
      values.push_back(value);
    }
    return AddWordOption(
        name, std::move(names),
        [&target, values = std::move(values)](std::size_t index) { target = values[index]; }, help);
  }
  // Calls `append` at each occurrence of a repeatable option, in the order of the command line.
  CommandOption AddRepeatable(const std::string& name, const std::string& value_name,
                              const std::function<void(const std::string&)>& append,
                              const std::string& help);

  // As AddRepeatable, but `take` is called once, with the last value, after all repeatable options
  // of the command line.
  CommandOption AddLate(const std::string& name, const std::string& value_name,
                        const std::function<void(const std::string&)>& take,
                        const std::string& help);

  // As AddRepeatable, for an option of one or more values, which `append` gets separated by spaces.
  CommandOption AddList(const std::string& name, const std::string& value_name,
                        const std::function<void(const std::string&)>& append,
                        const std::string& help);

  // Whether there is an option "--name".
  [[nodiscard]] bool Has(const std::string& name) const;
  // All options but the help flag and positional arguments.
  [[nodiscard]] std::vector<CommandOption> NamedOptions() const;

 private:
  CommandOption AddTarget(const std::string& name, OptionTarget target, const std::string& help);
  CommandOption AddWordOption(const std::string& name, std::vector<std::string> words,
                              std::function<void(std::size_t index)> set, const std::string& help);

  CLI::App* app_;
};

struct OverrideOptions {
  CommandOption set;
  CommandOption unset;
};

// Adds --set and --unset, which every command that reads an experiment has. They append the changes
// to `changes` in the order of the command line, in the form of config/override.h.
OverrideOptions AddOverrideOptions(CommandParser command, std::vector<std::string>& changes);

// Adds --policy and --engine, which append their changes to `changes` as they do: a name of the
// registry, a file with a policy, or a class of a release (PolicyChange() of
// config/policy_file.h).
void AddPolicyOption(CommandParser command, std::vector<std::string>& changes);

}  // namespace twin::apps
