// The table of kernels for one instruction set. Each source that includes this header compiles its
// own copies of the loops, with its own instructions.
#pragma once

#include "kernels/vector/attention_loops.h"
#include "kernels/vector/ceiling_loops.h"
#include "kernels/vector/delta_loops.h"
#include "kernels/vector/gemm_tiles.h"
#include "kernels/vector/gumbel_loops.h"
#include "kernels/vector/int4_tiles.h"
#include "kernels/vector/row_loops.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

inline constexpr VectorKernels kTable = {
    .tile_rows = kTileRows,
    .fp32_tile = MultiplyFp32,
    .bf16_tile = MultiplyBf16,
    .int8_tile = MultiplyInt8,
    .int4_tile = MultiplyInt4,
    .bf16_pairs_tile = nullptr,
    .widen_bf16_panel = WidenBf16Panel,
    .widen_int8_panel = WidenInt8Panel,
    .widen_int4_panel = WidenInt4Panel,
    .rms_norm = RmsNormRow,
    .layer_norm = LayerNormRow,
    .add = AddRow,
    .scale = ScaleRow,
    .soft_cap = SoftCapRow,
    .rotate = RotateHead,
    .rotate_neighbours = RotateNeighbours,
    .activate = ActivateRow,
    .sum_of_squares = SumOfSquares,
    .scale_by_gain = ScaleByGain,
    .gate_by_sigmoid = GateBySigmoid,
    .clamped_gate = ClampedGate,
    .convolve = ConvolveRow,
    .delta_step = StepDeltaRule,
    .narrow_to_bf16 = NarrowToBf16,
    .pack_keys = PackKeys,
    .pack_values = PackValues,
    .softmax_chunk = SoftmaxOfChunk,
    .gumbel_choice = GumbelChoice,
    .sum_of_weights = SumOfWeights,
    .lowest_of_weight = LowestOfWeight,
    .multiply_adds = MultiplyAdds,
    .read_through = ReadThrough,
};

}  // namespace
}  // namespace twin::kernels
