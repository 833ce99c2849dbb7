// Parts of a text.
#pragma once

#include <algorithm>
#include <string_view>

namespace twin {

// Calls `take` with each part of the text, a std::string_view, in order. An empty text has none.
template <class Take>
void ForEachPart(std::string_view text, char between, Take take) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(between));
    take(part);
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
}

}  // namespace twin
