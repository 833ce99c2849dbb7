#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/hash.h"
#include "exec/model/tensor_source.h"

namespace twin::exec {
namespace {

constexpr std::int64_t kBandElements = 1 << 20;  // generated before they are packed

// A number uniform in (0, 1], from 24 bits.
float UnitReal(std::uint64_t bits) {
  return static_cast<float>((bits & 0xFFFFFF) + 1) * 0x1.0p-24F;
}

}  // namespace

// Box and Muller, 1958: two elements share a pair of uniform numbers.
float DummySource::Element(std::uint64_t tensor_hash, std::uint64_t index) const {
  const std::uint64_t bits = MixWords(MixWords(seed_, tensor_hash), index / 2);
  const float radius = kDeviation * std::sqrt(-2 * std::log(UnitReal(bits)));
  const float angle = 2 * std::numbers::pi_v<float> * UnitReal(bits >> 32);
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

void DummySource::Fill(const MatrixRequest& request, kernels::ThreadPool& pool,
                       kernels::WeightSink& matrix) {
  const std::uint64_t tensor = HashText(request.name);
  const std::int64_t row_step = request.RowStep();
  const std::int64_t column_step = request.ColumnStep();
  const std::int64_t width = request.taken_columns.count;
  const std::int64_t band =
      std::min(std::max(kBandElements / width, std::int64_t{1}), request.taken_rows.count);
  std::vector<float> values(static_cast<std::size_t>(band * width));
  for (std::int64_t first = 0; first < request.taken_rows.count; first += band) {
    const std::int64_t rows = std::min(band, request.taken_rows.count - first);
    const auto fill_rows = [&](std::int64_t begin, std::int64_t end, std::int32_t /*thread*/) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* const row = values.data() + i * width;
        for (std::int64_t j = 0; j < width; ++j) {
          const std::int64_t index = request.First() +
                                     (request.taken_rows.first + first + i) * row_step +
                                     (request.taken_columns.first + j) * column_step;
          row[j] = Element(tensor, static_cast<std::uint64_t>(index));
        }
      }
    };
    pool.ParallelFor(rows, 1, fill_rows);
    matrix.Fill(pool, request.first_row + first,
                {.data = reinterpret_cast<const std::byte*>(values.data()),
                 .rows = rows,
                 .row_stride = width});
  }
}

std::vector<float> DummySource::ReadVector(const VectorRequest& request, VectorKind kind) {
  const std::uint64_t tensor = HashText(request.name);
  std::vector<float> values;
  for (const IndexRange& range : RangesOf(request)) {
    for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
      values.push_back(kind == VectorKind::kGain ? 1
                                                 : Element(tensor, static_cast<std::uint64_t>(i)));
    }
  }
  return values;
}

}  // namespace twin::exec
