#include <cmath>

#include "core/check.h"
#include "kernels/rope.h"
#include "kernels/row_ranges.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {

RopeTable::RopeTable(std::span<const double> inverse_frequencies, std::int64_t positions,
                     double amplitude)
    : pairs_(static_cast<std::int64_t>(inverse_frequencies.size())), positions_(positions) {
  CHECK(positions >= 0);
  table_.reserve(static_cast<std::size_t>(positions * 2 * pairs_));
  for (std::int64_t position = 0; position < positions; ++position) {
    const auto place = static_cast<double>(position);
    for (const double frequency : inverse_frequencies) {
      table_.push_back(static_cast<float>(amplitude * std::cos(place * frequency)));
    }
    for (const double frequency : inverse_frequencies) {
      table_.push_back(static_cast<float>(amplitude * std::sin(place * frequency)));
    }
  }
}

void ApplyRope(ThreadPool& pool, const RopeTable& table, std::span<const std::int32_t> positions,
               const RotatedHeads& heads, MatrixView<float> x) {
  CHECK(static_cast<std::int64_t>(positions.size()) == x.rows);
  CHECK(heads.first + 2 * table.pairs() <= heads.head_dim && x.columns % heads.head_dim == 0);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  const auto rotate = heads.neighbours ? kernels.rotate_neighbours : kernels.rotate;
  ForEachRow(pool, x.rows, x.columns, [&](std::int64_t t) {
    const std::int64_t position = positions[static_cast<std::size_t>(t)];
    CHECK(position >= 0 && position < table.positions());
    const float* cosines = table.At(position);
    for (std::int64_t head = 0; head < x.columns; head += heads.head_dim) {
      rotate(cosines, cosines + table.pairs(), table.pairs(), x.Row(t) + head + heads.first);
    }
  });
}

}  // namespace twin::kernels
