#include "core/nearest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/letter_case.h"

namespace twin {
namespace {

// Levenshtein distance, one row at a time.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (LowerCase(a[i]) == LowerCase(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestNames(std::string_view name, std::span<const std::string_view> names) {
  constexpr std::size_t kShown = 3;
  std::vector<std::pair<std::size_t, std::string_view>> ranked;
  ranked.reserve(names.size());
  for (const std::string_view candidate : names) {
    const bool begins = GoesOnBehind(candidate, name);
    ranked.emplace_back(begins ? 0 : Distance(name, candidate), candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, ranked.size()); ++i) {
    if (i > 0) text += ", ";
    text += ranked[i].second;
  }
  return text;
}

}  // namespace twin
