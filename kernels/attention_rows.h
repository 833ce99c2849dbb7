// Attention for a few query rows that share their keys and values. Private to this layer.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/paged_attention.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {

// A stretch: positions per partial state. A chunk: positions whose scores are computed at once.
constexpr std::int64_t kStretch = 1024;
constexpr std::int64_t kChunk = 64;
constexpr std::int64_t kDepthPiece = 256;

// Consecutive queries of one sequence, in all query heads that share one KV head. It has `queries`
// * group rows, ordered by query and, within a query, by head.
struct AttentionPiece {
  const std::int32_t* blocks = nullptr;
  std::int64_t kv_head = 0;
  std::int64_t first_row = 0;  // of q and out
  std::int64_t queries = 0;
  std::int64_t first_position = 0;  // of the first query
};

// Computes attention by online softmax over partial states.
//
// A state holds, for each row of a piece, the weighted sum of values (padded to whole panels), the
// running maximum of the scores, and the sum of the weights: StateFloats() floats. States of
// different positions can be merged. Dimensions of keys are multiplied in pieces of kDepthPiece.
class AttentionRows {
 public:
  AttentionRows(const VectorKernels& kernels, MatrixView<const float> q, const KvCacheView& cache,
                std::int64_t layer, const AttentionOptions& options, MatrixView<float> out);

  [[nodiscard]] std::int64_t group() const { return group_; }
  [[nodiscard]] std::int64_t StateFloats(std::int64_t queries) const {
    return queries * group_ * (padded_values_ + 2);
  }
  // The size of the scratch memory that Attend needs.
  [[nodiscard]] std::int64_t WorkFloats(std::int64_t queries) const;

  // Sets `state` to the state that covers no positions.
  void Clear(const AttentionPiece& piece, float* state) const;
  // Sets `state` to the state that covers the positions from stretch * kStretch to stretch *
  // kStretch + kStretch - 1, as far as they are visible to each row. `memory`: scratch of
  // WorkFloats() floats.
  void Attend(const AttentionPiece& piece, std::int64_t stretch, float* state, float* memory) const;
  // Merges `state` into `total`.
  void Merge(const AttentionPiece& piece, const float* state, float* total) const;
  // Divides by the sums of weights, with the sinks', and writes the rows of out. A row without
  // visible positions becomes zero.
  void Finish(const AttentionPiece& piece, const float* state) const;

 private:
  struct Span {
    std::int64_t begin, end;
  };
  struct Work;
  struct Places {
    std::array<const void*, kChunk> keys, values;
  };

  [[nodiscard]] std::int64_t Rows(const AttentionPiece& piece) const {
    return piece.queries * group_;
  }
  // The positions that are visible to a row.
  [[nodiscard]] Span Visible(const AttentionPiece& piece, std::int64_t row) const;
  void PackQueries(const AttentionPiece& piece, float* queries) const;
  // Addresses of the chunk's keys and values in the cache. Positions before the first one that any
  // query sees (their blocks may have been freed) and positions after the chunk's end get the
  // address of zeros.
  [[nodiscard]] Places PlacesOf(const AttentionPiece& piece, Span chunk) const;
  void AttendTile(const AttentionPiece& piece, Span chunk, std::int64_t first_row,
                  std::int64_t rows, const Work& work, float* state) const;

  const VectorKernels& kernels_;
  const MatrixView<const float> q_;
  const KvCacheView cache_;
  const std::int64_t layer_;
  const AttentionOptions options_;
  const MatrixView<float> out_;
  const std::int64_t dim_;           // of queries and keys
  const std::int64_t depth_pieces_;  // of dim_
  const std::int64_t value_dim_;
  const std::int64_t padded_values_;  // value_dim_ in whole panels
  const std::int64_t group_;
};

}  // namespace twin::kernels
