#include "apps/study/study_sample.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include <boost/random/sobol.hpp>

#include "core/random.h"

namespace twin::run {

UnitSample LatinHypercube(std::size_t dimensions, std::size_t points, std::uint64_t seed) {
  UnitSample sample(dimensions);
  for (std::size_t d = 0; d < dimensions; ++d) {
    Random random(seed, fmt::format("latin hypercube {}", d));
    std::vector<std::size_t> stratum(points);
    std::iota(stratum.begin(), stratum.end(), 0);
    for (std::size_t i = points; i > 1; --i) {
      const auto other = random.UniformInt(0, static_cast<std::int64_t>(i) - 1);
      std::swap(stratum[i - 1], stratum[static_cast<std::size_t>(other)]);
    }
    for (const std::size_t k : stratum) {
      sample[d].push_back((static_cast<double>(k) + random.UnitReal()) /
                          static_cast<double>(points));
    }
  }
  return sample;
}

UnitSample SobolSequence(std::size_t dimensions, std::size_t points) {
  boost::random::sobol_engine<std::uint64_t, 64> engine(dimensions);
  UnitSample sample(dimensions);
  for (std::size_t i = 0; i < points; ++i) {
    for (std::vector<double>& values : sample) {
      values.push_back(static_cast<double>(engine() >> 11) * 0x1.0p-53);
    }
  }
  return sample;
}

}  // namespace twin::run
