// Linear layers of the experts of a mixture on a device: each expert's matrix with the rows that
// are routed to it. CPU twin: Gemm, once for each expert.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/routing.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

enum class ExpertInput : std::uint8_t {
  kRows,    // x has the rows that were routed
  kPlaces,  // x has a row for each place
};

// y[p, n] = sum_k x[r, k] * w[e * outputs + n, k], where e is the expert of place p, and r the row
// of its pair or p itself. One launch for all experts; a block finds its rows on the device, so
// that the call can be captured into a graph and replayed for another choice of experts.
//
// Shapes    x: [rows or pairs, k]; w: [experts * outputs, k], the experts one below the other; y:
//           [pairs, outputs]; all bf16.
// Order     Accumulates in fp32. The order of the sum over k depends on the shapes alone.
// Cost      Reads the weights of the experts that have rows: once for up to 4, 16, 32 or 64 rows of
//           each, more for more rows on average, and the operands again for every 128 outputs. With
//           more than kSkinnyPlaces on average, on tensor cores, if the rows of all operands are
//           aligned to 16 bytes and have a multiple of kTensorCoreStep columns.
void ExpertGemm(StreamView stream, DeviceMatrix x, DeviceMatrix w, const RoutedPairs& routed,
                ExpertInput input, DeviceMatrix y);

// Places of an expert, on average, up to which products are computed on CUDA cores.
constexpr std::int64_t kSkinnyPlaces = 2;
constexpr std::int64_t kTensorCoreStep = 8;

}  // namespace twin::kernels::cuda
