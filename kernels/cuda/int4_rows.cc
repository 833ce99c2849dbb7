// Converts weights of 4 bits from the CPU's panels to the rows of a device.
#include "kernels/cuda/int4_rows.h"

#include "core/check.h"

namespace twin::kernels::cuda {

Int4Rows RowsOfInt4(ThreadPool& pool, const WeightView& weights) {
  CHECK(weights.format == DType::kInt4 && weights.order == nullptr);
  CHECK(weights.group % kInt4Pack == 0);
  constexpr std::int64_t kPanel = WeightView::kPanelRows;
  constexpr std::int64_t kGrain = 64;
  const std::int64_t groups = weights.groups();
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  Int4Rows rows;
  rows.stride = (weights.columns + kInt4Pack - 1) / kInt4Pack * kInt4Pack;
  rows.q.resize(size(weights.rows * rows.stride / 2));
  rows.scales.resize(size(weights.rows * groups));
  rows.zeros.resize(size(weights.rows * groups));
  pool.ParallelFor(weights.rows, kGrain, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t panel = row / kPanel;
      const std::int64_t lane = row % kPanel;
      const auto* const from =
          reinterpret_cast<const std::uint8_t*>(weights.panels + panel * weights.panel_bytes);
      std::uint8_t* const to = rows.q.data() + row * rows.stride / 2;
      for (std::int64_t pair = 0; pair < (weights.columns + 1) / 2; ++pair) {
        to[pair] = from[pair * kPanel + lane];
      }
      for (std::int64_t group = 0; group < groups; ++group) {
        const std::int64_t place = panel * weights.panel_scales + group * kPanel + lane;
        rows.scales[size(row * groups + group)] = weights.group_scales[place];
        rows.zeros[size(row * groups + group)] = weights.group_zeros[place];
      }
    }
  });
  return rows;
}

}  // namespace twin::kernels::cuda
