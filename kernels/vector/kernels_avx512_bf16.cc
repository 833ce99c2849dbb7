#define TWIN_LANES 16
#include "kernels/vector/bf16_pair_tiles.h"
#include "kernels/vector/kernel_table.h"

namespace twin::kernels {
namespace {

constexpr VectorKernels WithPairs() {
  VectorKernels table = kTable;
  table.bf16_pairs_tile = MultiplyBf16Pairs;
  return table;
}

}  // namespace

constinit const VectorKernels kAvx512Bf16Kernels = WithPairs();

}  // namespace twin::kernels
