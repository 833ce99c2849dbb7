#include "core/layer_pattern.h"

#include <algorithm>
#include <cstdint>

#include "core/check.h"

namespace twin {
namespace {

class PatternReader {
 public:
  PatternReader(std::string_view pattern, std::span<const LayerSymbol> symbols)
      : rest_(pattern), symbols_(symbols) {}

  // Up to the end, or to the parenthesis that closes.
  std::vector<LayerGroup> Items() {
    std::vector<LayerGroup> groups;
    while (true) {
      while (rest_.starts_with(' ')) rest_.remove_prefix(1);
      if (rest_.empty() || rest_.front() == ')') return groups;
      const std::int32_t count = Count();
      const std::vector<LayerGroup> item = Item();
      for (std::int32_t i = 0; i < count; ++i) {
        for (const LayerGroup& group : item) AppendLayers(group, groups);
      }
    }
  }

 private:
  std::int32_t Count() {
    if (!IsDigit()) return 1;
    std::int32_t count = 0;
    while (IsDigit()) {
      count = count * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return count;
  }

  std::vector<LayerGroup> Item() {
    CHECK(!rest_.empty());
    if (rest_.front() == '(') {
      rest_.remove_prefix(1);
      std::vector<LayerGroup> groups = Items();
      CHECK(rest_.starts_with(')'));
      rest_.remove_prefix(1);
      return groups;
    }
    const std::string_view symbol = rest_.substr(0, rest_.find_first_of(" ()"));
    rest_.remove_prefix(symbol.size());
    const auto known = std::ranges::find(symbols_, symbol, &LayerSymbol::symbol);
    CHECK(known != symbols_.end());
    return {{1, known->layer}};
  }

  [[nodiscard]] bool IsDigit() const {
    return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9';
  }

  std::string_view rest_;
  std::span<const LayerSymbol> symbols_;
};

}  // namespace

std::vector<LayerGroup> ExpandLayerPattern(std::string_view pattern,
                                           std::span<const LayerSymbol> symbols) {
  return PatternReader(pattern, symbols).Items();
}

void AppendLayers(const LayerGroup& group, std::vector<LayerGroup>& groups) {
  if (!groups.empty() && groups.back().layer == group.layer) {
    groups.back().layers += group.layers;
  } else {
    groups.push_back(group);
  }
}

}  // namespace twin
