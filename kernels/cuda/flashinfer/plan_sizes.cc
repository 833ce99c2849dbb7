// The sizes that FlashInfer's planners take of their workspaces, by its own formulas
// (attention/scheduler.cuh of 0.7.2) for the largest work. The planners refuse smaller workspaces
// only in part.
#include <algorithm>

#include "core/check.h"
#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::int64_t kSlack = 256;        // alignments of the parts, 16 bytes each
constexpr std::int64_t kCtasPerSmMax = 32;  // of any kernel
constexpr std::int64_t kWordBytes = 4;

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Partial outputs and their log-sum-exp.
std::int64_t PartialBytes(const AttentionShape& shape, std::int64_t rows) {
  return shape.heads * rows * (shape.head_dim + 1) * kWordBytes + kSlack;
}

// Sizes for tiles of 16, 64 or 128 (row, head of a group) pairs. Sequences are cut into pieces if
// there are fewer tiles than PiecesMax(), and always with graphs.
PlanSizes Fa2Sizes(const AttentionShape& shape, const PlanLimits& limits) {
  constexpr std::int64_t kTileMin = 16;
  constexpr std::int64_t kTileMax = 128;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const std::int64_t works_split = PiecesMax(0, 1, shape, limits.multiprocessors);
  const std::int64_t pieces = PiecesMax(limits.sequences, kWavesMax, shape, limits.multiprocessors);
  const std::int64_t tiles = CeilDiv(limits.rows * group, kTileMin) + limits.sequences;
  const std::int64_t works = std::max(pieces, tiles);
  const std::int64_t ints = works * (3 * kWordBytes + 1) + kWordBytes * (limits.sequences + 4) +
                            kWordBytes * (limits.rows + 1);
  // The decodes of a graph have one query each, so that a tile holds one group.
  const std::int64_t graph_tile = group <= 16 ? 16 : group <= 64 ? 64 : 128;
  const std::int64_t graph_works = std::max(pieces, limits.sequences * CeilDiv(group, graph_tile));
  const std::int64_t partial_rows =
      std::max(CeilDiv(works_split * kTileMax, group), CeilDiv(graph_works * graph_tile, group));
  return {.float_bytes = static_cast<std::size_t>(PartialBytes(shape, partial_rows)),
          .int_bytes = static_cast<std::size_t>(ints + kSlack)};
}

// Sizes for one block for each sequence and key head, or for as many as run at once.
PlanSizes CudaCoreSizes(const AttentionShape& shape, const PlanLimits& limits) {
  const std::int64_t works_split = kCtasPerSmMax * limits.multiprocessors / shape.kv_heads;
  const std::int64_t works = std::max(works_split, limits.sequences);
  return {.float_bytes = static_cast<std::size_t>(PartialBytes(shape, works_split)),
          .int_bytes = static_cast<std::size_t>(works * (3 * kWordBytes + 1) + kSlack)};
}

// Sizes for tiles of 128 rows (head_dim 64: 192) for each query head, with seven numbers each.
PlanSizes Fa3Sizes(const AttentionShape& shape, const PlanLimits& limits) {
  const std::int64_t tiles = CeilDiv(limits.rows, 128) + limits.sequences;
  const std::int64_t words = 7 * tiles * shape.heads + limits.multiprocessors + 1;
  return {.float_bytes = 0, .int_bytes = static_cast<std::size_t>(words * kWordBytes + kSlack)};
}

}  // namespace

std::int32_t FixedPiece(const AttentionPart& part, const AttentionShape& shape,
                        std::int64_t multiprocessors) {
  // FlashInfer counts a piece's tokens in 32 bits.
  constexpr std::int64_t kTokensMax = std::int64_t{1} << 30;
  const std::int64_t works_split = 2 * multiprocessors / shape.kv_heads;
  const bool few = 4 * part.sequences < 3 * works_split;
  if (!part.graph || part.waves.value_or(few ? 1 : 0) > 0) return -1;
  return static_cast<std::int32_t>(std::max<std::int64_t>(kTokensMax / shape.block_size, 1));
}

PlanSizes SizesOfPlan(AttentionKernel kernel, const AttentionShape& shape,
                      const PlanLimits& limits) {
  switch (kernel) {
    case AttentionKernel::kGeneric:
      return {};
    case AttentionKernel::kFa2:
      return Fa2Sizes(shape, limits);
    case AttentionKernel::kFa3:
      return Fa3Sizes(shape, limits);
    case AttentionKernel::kCudaCore:
      return CudaCoreSizes(shape, limits);
  }
  CHECK(false && "an attention kernel without sizes");
  return {};
}

}  // namespace twin::kernels::cuda
