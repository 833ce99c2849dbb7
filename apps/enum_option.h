// Options whose value is one of a few words.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/nearest_names.h"
#include "core/printable.h"

namespace twin::apps {

template <class E>
using EnumWords = std::vector<std::pair<std::string, E>>;

// Sets `target`, an E or a std::optional<E>, to the value of the word given; help and errors list
// the words. `target` must outlive the parsing.
template <class E, class Target>
CLI::Option* AddEnumOption(CLI::App& command, const std::string& name, Target& target,
                           EnumWords<E> words, const std::string& help) {
  std::string list;
  for (const auto& [word, value] : words) list += (list.empty() ? "" : "|") + word;
  const auto set = [&target, name, list, words = std::move(words)](const std::string& text) {
    std::vector<std::string_view> names;
    for (const auto& [word, value] : words) {
      names.push_back(word);
      if (word != text) continue;
      target = value;
      return;
    }
    const std::string nearest = NearestNames(text, names);
    throw CLI::ValidationError(
        name, fmt::format("no value \"{}\"; nearest \"{}\"; allowed: {}", Printable(text),
                          nearest.substr(0, nearest.find(',')), fmt::join(names, ", ")));
  };
  return command.add_option_function<std::string>(name, set, help)->type_name(list);
}

}  // namespace twin::apps
