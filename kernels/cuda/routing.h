// Routes rows to the experts of a mixture on a device, and sums the results of the experts. CPU
// twin: kernels/routing.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

constexpr std::int32_t kExpertsPerRowMax = 32;

// The number of rows, and the number of experts that they choose among.
struct RoutingShape {
  std::int64_t rows = 0;
  std::int32_t experts = 0;
  std::int32_t experts_per_row = 0;

  // The number of pairs of a row and one of its experts.
  [[nodiscard]] constexpr std::int64_t pairs() const { return rows * experts_per_row; }
};

// The pairs of a batch, in device memory. Pair t * experts_per_row + i belongs to row t and its
// i-th expert; a row's experts ascend. The place of a pair is its index in the order by expert,
// then by row: the pairs of one expert have neighbouring places.
struct RoutedPairs {
  RoutingShape shape;
  std::int32_t* experts = nullptr;  // [pairs], by pair
  float* weights = nullptr;         // [pairs], by pair
  std::int32_t* places = nullptr;   // [pairs], by pair
  std::int32_t* rows = nullptr;     // [pairs], by place
  std::int32_t* first = nullptr;    // [experts + 1]: an expert's first place, and number of pairs
};

// Bytes of the arrays, and the arrays in memory of this size at `base`, which is aligned to 16
// bytes.
std::int64_t RoutingBytes(const RoutingShape& shape);
RoutedPairs RoutedPairsAt(std::byte* base, const RoutingShape& shape);

// Fills the arrays. Chooses for each row the experts with the largest logits, the first ones among
// equals. Their weights are softmax values over all experts; with `normalised`, divided by the sum
// of the chosen experts' values. A row's experts and weights depend on its logits alone. Needs
// nothing from the host, so that the call can be captured into a graph.
//
// Shapes    logits: [rows, experts], fp32; overwritten. REQUIRES: 1 <= experts_per_row <= experts
//           and <= kExpertsPerRowMax.
// Error     1e-5 relative to each weight, against double precision, for logits up to 30.
void RouteRows(StreamView stream, DeviceMatrix logits, bool normalised, const RoutedPairs& routed);

// An expert that every row passes, weighted by sigmoid(gate . x). `output` has no rows if there is
// none.
struct SharedExpert {
  DeviceMatrix x;       // [rows, columns]
  DeviceMatrix gate;    // [1, columns]
  DeviceMatrix output;  // [rows, columns]
};

// y[t] = sum over the pairs i of row t of weights[i] * outputs[places[i]]
//        + sigmoid(shared.gate . shared.x[t]) * shared.output[t]
//
// Shapes    outputs: [pairs, columns], by place; y: [rows, columns]; all bf16.
// Order     In fp32, in the ascending order of the experts, the shared one last; rounded once.
// Aliasing  y may be shared.x.
void SumExperts(StreamView stream, DeviceMatrix outputs, const RoutedPairs& routed,
                const SharedExpert& shared, DeviceMatrix y);

}  // namespace twin::kernels::cuda
