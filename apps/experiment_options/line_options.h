// The options of another program's command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twin::apps {

// How many of the words after an option are its values.
enum class ValueCount : std::uint8_t {
  kNone,
  kSwitch,  // true or false, or none
  kOne,
  kMany,  // all up to the next option
};

struct LineOption {
  std::string name;  // as it was written, with its dashes
  std::vector<std::string> values;

  // The values, with spaces between them.
  [[nodiscard]] std::string value() const;
};

struct LineOptions {
  std::vector<LineOption> options;
  std::vector<std::string> positionals;
};

// Reads "--name value", "--name=value" and "-O3", in their order. `values_of` says how many values
// an option of this name has.
LineOptions OptionsOfLine(std::span<const std::string> words,
                          const std::function<ValueCount(std::string_view)>& values_of);

// Index of the word after `program`, whose words are separated by spaces and of which the first may
// have a folder: 3 for "vllm serve" in "nohup /usr/bin/vllm serve MODEL". kNoProgram if the line
// does not start it.
inline constexpr std::size_t kNoProgram = static_cast<std::size_t>(-1);
std::size_t AfterProgram(std::span<const std::string> words, std::string_view program);

}  // namespace twin::apps
