#include "run/record/shapley.h"

#include <bit>
#include <cstddef>

#include "core/check.h"

namespace twin {

std::vector<double> ShapleyShares(std::span<const double> values) {
  const std::size_t subsets = values.size();
  CHECK(std::has_single_bit(subsets) && subsets <= (std::size_t{1} << 16));
  const auto causes = static_cast<std::size_t>(std::countr_zero(subsets));
  // Share of the orders of n causes in which a given set of s causes comes before a given cause:
  // s! (n - 1 - s)! / n!.
  std::vector<double> weight(causes);
  for (std::size_t size = 0; size < causes; ++size) {
    double ways = 1;  // (n - 1 choose s)
    for (std::size_t i = 0; i < size; ++i) {
      ways *= static_cast<double>(causes - 1 - i) / static_cast<double>(i + 1);
    }
    weight[size] = 1 / (ways * static_cast<double>(causes));
  }
  std::vector<double> shares(causes, 0);
  for (std::size_t subset = 0; subset < subsets; ++subset) {
    for (std::size_t cause = 0; cause < causes; ++cause) {
      const std::size_t bit = std::size_t{1} << cause;
      if ((subset & bit) != 0) continue;
      shares[cause] += weight[static_cast<std::size_t>(std::popcount(subset))] *
                       (values[subset | bit] - values[subset]);
    }
  }
  return shares;
}

}  // namespace twin
