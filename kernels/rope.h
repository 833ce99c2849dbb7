// Rotary position embedding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

// A table of cosines and sines of position * inverse_frequencies[i], computed in double and stored
// in fp32.
class RopeTable {
 public:
  // For positions 0..positions-1. `amplitude` multiplies every cosine and sine; it is 1 except for
  // models with scaled embeddings. Memory: positions * 2 * inverse_frequencies.size() floats.
  RopeTable(std::span<const double> inverse_frequencies, std::int64_t positions,
            double amplitude = 1);

  [[nodiscard]] std::int64_t pairs() const { return pairs_; }
  [[nodiscard]] std::int64_t positions() const { return positions_; }
  // pairs() cosines, followed by pairs() sines.
  [[nodiscard]] const float* At(std::int64_t position) const {
    return table_.data() + position * 2 * pairs_;
  }

 private:
  std::int64_t pairs_;
  std::int64_t positions_;
  std::vector<float> table_;
};

// The elements of a head that are rotated: 2 * pairs of them, beginning with `first`. Element i is
// paired with i + pairs (as GPT-NeoX), or with its neighbour: 2 i with 2 i + 1 (as GPT-J).
struct RotatedHeads {
  std::int64_t head_dim = 0;
  std::int64_t first = 0;
  bool neighbours = false;
};

// Rotates 2 * table.pairs() elements of each head, in place; a pair (a, b) becomes
//
//   a' = a * cos - b * sin
//   b' = b * cos + a * sin
//
// Shapes    x: [tokens, heads * head_dim]; positions: [tokens].
// Order     The result of a row depends only on that row and its position.
// REQUIRES  first + 2 * pairs <= head_dim; head_dim divides x.columns; 0 <= position <
//           table.positions().
// Source    Su et al., 2021, arXiv:2104.09864.
void ApplyRope(ThreadPool& pool, const RopeTable& table, std::span<const std::int32_t> positions,
               const RotatedHeads& heads, MatrixView<float> x);

}  // namespace twin::kernels
