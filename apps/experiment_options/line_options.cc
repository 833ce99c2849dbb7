#include "apps/experiment_options/line_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace twin::apps {
namespace {

// "-1" and "-.5" are values.
bool IsOption(std::string_view word) {
  constexpr std::string_view kNumber = "0123456789.";
  return word.size() > 1 && word[0] == '-' && kNumber.find(word[1]) == std::string_view::npos;
}

bool IsTruth(std::string_view word) {
  constexpr std::string_view kWords[] = {"true", "false", "True", "False"};
  return std::ranges::find(kWords, word) != std::end(kWords);
}

// Splits "--name=value", and "-O3" with a name of one letter if an option has that name.
LineOption SplitOption(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals != std::string::npos) return {word.substr(0, equals), {word.substr(equals + 1)}};
  const bool is_short = word.size() > 2 && word[1] != '-' && word[2] >= '0' && word[2] <= '9';
  if (is_short) return {word.substr(0, 2), {word.substr(2)}};
  return {word, {}};
}

}  // namespace

std::string LineOption::value() const { return fmt::format("{}", fmt::join(values, " ")); }

LineOptions OptionsOfLine(std::span<const std::string> words,
                          const std::function<ValueCount(std::string_view)>& values_of) {
  LineOptions line;
  for (std::size_t i = 0; i < words.size();) {
    if (!IsOption(words[i])) {
      line.positionals.push_back(words[i++]);
      continue;
    }
    LineOption option = SplitOption(words[i++]);
    const ValueCount count = values_of(option.name);
    const auto takes_next = [&] {
      if (i == words.size() || IsOption(words[i])) return false;
      if (count == ValueCount::kSwitch) return option.values.empty() && IsTruth(words[i]);
      return count == ValueCount::kMany || (count == ValueCount::kOne && option.values.empty());
    };
    while (takes_next()) option.values.push_back(words[i++]);
    line.options.push_back(std::move(option));
  }
  return line;
}

std::size_t AfterProgram(std::span<const std::string> words, std::string_view program) {
  const auto is_word = [&](std::size_t at, std::string_view part, bool first) {
    const std::string& word = words[at];
    return word == part || (first && word.ends_with(std::string("/").append(part)));
  };
  for (std::size_t begin = 0; begin < words.size(); ++begin) {
    std::size_t at = begin;
    std::string_view rest = program;
    while (!rest.empty() && at < words.size()) {
      const std::string_view part = rest.substr(0, rest.find(' '));
      if (!is_word(at, part, at == begin)) break;
      ++at;
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    }
    if (rest.empty()) return at;
  }
  return kNoProgram;
}

}  // namespace twin::apps
