// Routed pairs on a device for tests.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/cuda/routing.h"
#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::kernels::cuda {

// The arrays of RoutedPairs.
struct HostPairs {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
  std::vector<std::int32_t> places;
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> first;
};

// RoutedPairs with memory, which is all ones at first.
class TestPairs {
 public:
  explicit TestPairs(const RoutingShape& shape)
      : shape_(shape), memory_(static_cast<std::size_t>(RoutingBytes(shape))) {}

  [[nodiscard]] RoutedPairs routed() const { return RoutedPairsAt(memory_.data(), shape_); }

  [[nodiscard]] HostPairs Fetch() const {
    std::vector<std::byte> bytes = memory_.Get();
    const RoutedPairs at = RoutedPairsAt(bytes.data(), shape_);
    const auto pairs = shape_.pairs();
    return {.experts = {at.experts, at.experts + pairs},
            .weights = {at.weights, at.weights + pairs},
            .places = {at.places, at.places + pairs},
            .rows = {at.rows, at.rows + pairs},
            .first = {at.first, at.first + shape_.experts + 1}};
  }

  void Set(const HostPairs& pairs) const {
    std::vector<std::byte> bytes = memory_.Get();
    const RoutedPairs at = RoutedPairsAt(bytes.data(), shape_);
    std::copy(pairs.experts.begin(), pairs.experts.end(), at.experts);
    std::copy(pairs.weights.begin(), pairs.weights.end(), at.weights);
    std::copy(pairs.places.begin(), pairs.places.end(), at.places);
    std::copy(pairs.rows.begin(), pairs.rows.end(), at.rows);
    std::copy(pairs.first.begin(), pairs.first.end(), at.first);
    memory_.Set(bytes);
  }

 private:
  RoutingShape shape_;
  mutable OnDevice<std::byte> memory_;
};

}  // namespace twin::kernels::cuda
