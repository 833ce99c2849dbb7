// Attention of a few query rows that share their keys and values. Private to this layer.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/paged_attention.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {

// Positions that are merged into one state, and the ones that are scored at once.
constexpr std::int64_t kStretch = 1024;
constexpr std::int64_t kChunk = 64;

// Consecutive queries of one sequence in all heads of one kv head: `queries` * group rows, head
// after head within a query.
struct AttentionPiece {
  const std::int32_t* blocks = nullptr;
  std::int64_t kv_head = 0;
  std::int64_t first_row = 0;  // of q and out
  std::int64_t queries = 0;
  std::int64_t first_position = 0;  // of the first query
};

// A state is, for each row, the weighted sum of values (padded to whole panels), the running
// maximum of its scores and the sum of weights: StateFloats() floats.
class AttentionRows {
 public:
  AttentionRows(const VectorKernels& kernels, MatrixView<const float> q, const KvCacheView& cache,
                std::int64_t layer, const AttentionOptions& options, MatrixView<float> out);

  [[nodiscard]] std::int64_t group() const { return group_; }
  [[nodiscard]] std::int64_t StateFloats(std::int64_t queries) const {
    return queries * group_ * (padded_dim_ + 2);
  }
  // The scratch memory of Attend.
  [[nodiscard]] std::int64_t WorkFloats(std::int64_t queries) const;

  // The state of having seen nothing.
  void Clear(const AttentionPiece& piece, float* state) const;
  // The state of having seen positions stretch * kStretch .. + kStretch - 1, as far as each row
  // may.
  void Attend(const AttentionPiece& piece, std::int64_t stretch, float* state, float* memory) const;
  // total = what was seen by either.
  void Merge(const AttentionPiece& piece, const float* state, float* total) const;
  // Writes the rows of out; a row that saw nothing becomes zero.
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
  // The positions that a row sees.
  [[nodiscard]] Span Visible(const AttentionPiece& piece, std::int64_t row) const;
  void PackQueries(const AttentionPiece& piece, float* queries) const;
  // Where the rows of the chunk lie; rows before the first position that any query sees, whose
  // blocks may be gone, and rows behind the chunk's end are zero.
  [[nodiscard]] Places PlacesOf(const AttentionPiece& piece, Span chunk) const;
  void AttendTile(const AttentionPiece& piece, Span chunk, std::int64_t first_row,
                  std::int64_t rows, const Work& work, float* state) const;

  const VectorKernels& kernels_;
  const MatrixView<const float> q_;
  const KvCacheView cache_;
  const std::int64_t layer_;
  const AttentionOptions options_;
  const MatrixView<float> out_;
  const std::int64_t dim_;
  const std::int64_t padded_dim_;
  const std::int64_t group_;
};

}  // namespace twin::kernels
