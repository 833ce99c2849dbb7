// Samples of a unit cube for studies whose grid would be too large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace twin::run {

// By dimension, then point; values in [0, 1).
using UnitSample = std::vector<std::vector<double>>;

// Latin hypercube: in each dimension every interval [k/points, (k+1)/points) holds one point, at a
// random place in it; the dimensions are paired at random (McKay, Beckman, Conover, Technometrics
// 21(2), 1979).
UnitSample LatinHypercube(std::size_t dimensions, std::size_t points, std::uint64_t seed);

// The first points of the Sobol sequence without its zero point (Boost.Random, direction numbers of
// Joe and Kuo). Most even for 2^k - 1 points. REQUIRES: dimensions <= 3667.
UnitSample SobolSequence(std::size_t dimensions, std::size_t points);

}  // namespace twin::run
