#include "kernels/weight_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "kernels/float_formats.h"

namespace twin::kernels {
namespace {

constexpr std::int64_t kPanel = WeightView::kPanelRows;
constexpr std::int64_t kGroup = WeightView::kGroup;

template <class T>
T LoadAs(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

// The smallest bf16 that is not less than `value`, which is not negative.
std::uint16_t Bf16AtLeast(float value) {
  const std::uint16_t rounded = FloatToBf16(value);
  return Bf16ToFloat(rounded) < value ? static_cast<std::uint16_t>(rounded + 1) : rounded;
}

// Bytes that `columns` columns of a panel occupy.
std::int64_t PanelBytes(DType format, std::int64_t columns) {
  if (format == DType::kInt4) return (columns + 1) / 2 * kPanel;
  const std::int64_t padded = format == DType::kBf16 ? (columns + 1) / 2 * 2 : columns;
  return padded * kPanel * ByteSize(format);
}

}  // namespace

void WeightSource::CopyRow(std::int64_t row, std::int64_t columns, float* out) const {
  const std::int64_t size = ByteSize(dtype);
  const std::byte* place = data + row * row_stride * size;
  const std::int64_t step = column_stride * size;
  switch (dtype) {
    case DType::kFp32:
      for (std::int64_t k = 0; k < columns; ++k) out[k] = LoadAs<float>(place + k * step);
      return;
    case DType::kBf16:
      for (std::int64_t k = 0; k < columns; ++k) {
        out[k] = Bf16ToFloat(LoadAs<std::uint16_t>(place + k * step));
      }
      return;
    case DType::kFp16:
      for (std::int64_t k = 0; k < columns; ++k) {
        out[k] = Fp16ToFloat(LoadAs<std::uint16_t>(place + k * step));
      }
      return;
    default:
      CHECK(false);
  }
}

WeightMatrix::WeightMatrix(DType format, std::int64_t rows, std::int64_t columns) {
  CHECK(format == DType::kFp32 || format == DType::kBf16 || format == DType::kInt8 ||
        format == DType::kInt4);
  CHECK(rows >= 1 && columns >= 1);
  const std::int64_t panels = (rows + kPanel - 1) / kPanel;
  view_ = {.format = format,
           .rows = rows,
           .columns = columns,
           .panel_bytes = PanelBytes(format, columns)};
  panels_ = AlignedBuffer(static_cast<std::size_t>(panels * view_.panel_bytes));
  view_.panels = panels_.data();
  if (format == DType::kInt8) {
    view_.panel_scales = (columns + kGroup - 1) / kGroup * kPanel;
    scales_ = AlignedBuffer(static_cast<std::size_t>(panels * view_.panel_scales) *
                            sizeof(std::uint16_t));
    view_.scales = reinterpret_cast<const std::uint16_t*>(scales_.data());
  }
  if (format == DType::kInt4) MakeInt4(kInt4Group);
}

void WeightMatrix::MakeInt4(std::int64_t group) {
  CHECK(group >= kGroup && group % kGroup == 0);
  view_.group = group;
  const std::int64_t panels = (view_.rows + kPanel - 1) / kPanel;
  view_.panel_scales = view_.groups() * kPanel;
  const auto scales = static_cast<std::size_t>(panels * view_.panel_scales);
  scales_ = AlignedBuffer(scales * sizeof(float));
  zeros_ = AlignedBuffer(scales);
  view_.group_scales = reinterpret_cast<const float*>(scales_.data());
  view_.group_zeros = reinterpret_cast<const std::uint8_t*>(zeros_.data());
}

WeightMatrix WeightMatrix::Int4(std::int64_t rows, std::int64_t columns, std::int64_t group,
                                std::vector<std::int32_t> order) {
  CHECK(order.empty() || static_cast<std::int64_t>(order.size()) == columns);
  WeightMatrix matrix(DType::kInt4, rows, columns);
  if (group != kInt4Group) matrix.MakeInt4(group);
  matrix.order_ = std::move(order);
  if (!matrix.order_.empty()) matrix.view_.order = matrix.order_.data();
  return matrix;
}

void WeightMatrix::Fill(ThreadPool& pool, std::int64_t first_row, const WeightSource& source) {
  CHECK(first_row >= 0 && source.rows >= 0 && first_row + source.rows <= view_.rows);
  CHECK(order_.empty());
  pool.ParallelFor(source.rows, kPanel,
                   [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
                     float* values = pool.scratch(thread).Reserve<float>(view_.columns);
                     for (std::int64_t row = begin; row < end; ++row) {
                       source.CopyRow(row, view_.columns, values);
                       SetRow(first_row + row, values);
                     }
                   });
}

void WeightMatrix::SetRow(std::int64_t row, const float* values) {
  std::byte* panel = panels_.data() + row / kPanel * view_.panel_bytes;
  const std::int64_t lane = row % kPanel;
  if (view_.format == DType::kInt8) return SetInt8Row(row, values);
  if (view_.format == DType::kInt4) return SetInt4Row(row, values);
  if (view_.format == DType::kFp32) {
    auto* out = reinterpret_cast<float*>(panel) + lane;
    for (std::int64_t k = 0; k < view_.columns; ++k) out[k * kPanel] = values[k];
    return;
  }
  auto* out = reinterpret_cast<std::uint16_t*>(panel) + 2 * lane;
  for (std::int64_t k = 0; k < view_.columns; ++k) {
    out[k / 2 * 2 * kPanel + k % 2] = FloatToBf16(values[k]);
  }
}

void WeightMatrix::SetInt8Row(std::int64_t row, const float* values) {
  const std::int64_t lane = row % kPanel;
  auto* out =
      reinterpret_cast<std::int8_t*>(panels_.data() + row / kPanel * view_.panel_bytes) + lane;
  auto* scales =
      reinterpret_cast<std::uint16_t*>(scales_.data()) + row / kPanel * view_.panel_scales + lane;
  for (std::int64_t start = 0; start < view_.columns; start += kGroup) {
    const std::int64_t end = std::min(view_.columns, start + kGroup);
    float largest = 0;
    for (std::int64_t k = start; k < end; ++k) largest = std::max(largest, std::abs(values[k]));
    const std::uint16_t scale_bits = Bf16AtLeast(largest / 127);
    const float scale = Bf16ToFloat(scale_bits);
    scales[start / kGroup * kPanel] = scale_bits;
    for (std::int64_t k = start; k < end; ++k) {
      const float quotient = scale > 0 ? values[k] / scale : 0;
      out[k * kPanel] = static_cast<std::int8_t>(std::lrint(std::clamp(quotient, -127.0F, 127.0F)));
    }
  }
}

std::uint8_t* WeightMatrix::Int4Panel(std::int64_t row) {
  return reinterpret_cast<std::uint8_t*>(panels_.data() + row / kPanel * view_.panel_bytes);
}

float* WeightMatrix::GroupScales(std::int64_t row) {
  return reinterpret_cast<float*>(scales_.data()) + row / kPanel * view_.panel_scales;
}

std::uint8_t* WeightMatrix::GroupZeros(std::int64_t row) {
  return reinterpret_cast<std::uint8_t*>(zeros_.data()) + row / kPanel * view_.panel_scales;
}

void WeightMatrix::SetInt4Row(std::int64_t row, const float* values) {
  const std::int64_t lane = row % kPanel;
  std::uint8_t* const out = Int4Panel(row) + lane;
  for (std::int64_t group = 0; group < view_.groups(); ++group) {
    const std::int64_t start = group * view_.group;
    const std::int64_t end = std::min(view_.columns, start + view_.group);
    const float lowest = std::min(0.0F, *std::min_element(values + start, values + end));
    const float highest = std::max(0.0F, *std::max_element(values + start, values + end));
    const float scale = Bf16ToFloat(Bf16AtLeast((highest - lowest) / 15));
    const auto nearest = [&](float value) {
      return scale > 0 ? static_cast<std::int64_t>(std::lrint(value / scale)) : 0;
    };
    const std::int64_t zero = std::clamp<std::int64_t>(nearest(-lowest), 0, 15);
    GroupScales(row)[group * kPanel + lane] = scale;
    GroupZeros(row)[group * kPanel + lane] = static_cast<std::uint8_t>(zero);
    for (std::int64_t k = start; k < end; ++k) {
      const auto q = std::clamp<std::int64_t>(nearest(values[k]) + zero, 0, 15);
      std::uint8_t& pair = out[k / 2 * kPanel];
      pair = static_cast<std::uint8_t>(k % 2 == 0 ? (pair & 0xF0) | q : (pair & 0x0F) | q << 4);
    }
  }
}

void WeightMatrix::FillInt4(ThreadPool& pool, std::int64_t first_row, const Int4Source& source) {
  CHECK(view_.format == DType::kInt4);
  CHECK(first_row >= 0 && source.rows() >= 1 && first_row + source.rows() <= view_.rows);
  const std::int64_t end_row = first_row + source.rows();
  const std::int64_t first_panel = first_row / kPanel;
  const std::int64_t panels = (end_row + kPanel - 1) / kPanel - first_panel;
  pool.ParallelFor(panels, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
    std::vector<std::uint8_t> q(static_cast<std::size_t>(view_.columns * kPanel));
    std::vector<float> scales(static_cast<std::size_t>(view_.groups() * kPanel));
    std::vector<std::uint8_t> zeros(scales.size());
    for (std::int64_t panel = first_panel + begin; panel < first_panel + end; ++panel) {
      const std::int64_t first = std::max(first_row, panel * kPanel);
      const std::int64_t count = std::min(end_row, (panel + 1) * kPanel) - first;
      source.CopyWeights(first - first_row, count, q.data());
      source.CopyGroups(first - first_row, count, scales.data(), zeros.data());
      const std::int64_t lane = first % kPanel;
      for (std::int64_t group = 0; group < view_.groups(); ++group) {
        std::copy_n(scales.data() + group * kPanel, count,
                    GroupScales(first) + group * kPanel + lane);
        std::copy_n(zeros.data() + group * kPanel, count,
                    GroupZeros(first) + group * kPanel + lane);
      }
      for (std::int64_t k = 0; k < view_.columns; k += 2) {
        const std::uint8_t* const low = q.data() + k * kPanel;
        const std::uint8_t* const high = k + 1 < view_.columns ? low + kPanel : nullptr;
        std::uint8_t* const out = Int4Panel(first) + k / 2 * kPanel + lane;
        for (std::int64_t i = 0; i < count; ++i) {
          out[i] = static_cast<std::uint8_t>(low[i] | (high == nullptr ? 0 : high[i] << 4));
        }
      }
    }
  });
}

std::int64_t WeightView::Bytes() const {
  const std::int64_t count = (rows + kPanelRows - 1) / kPanelRows;
  std::int64_t of_scale = 0;
  if (format == DType::kInt8) of_scale = sizeof(*scales);
  if (format == DType::kInt4) of_scale = sizeof(*group_scales) + sizeof(*group_zeros);
  return count * (panel_bytes + panel_scales * of_scale);
}

void WeightView::CopyRow(std::int64_t row, float* out) const {
  CHECK(row >= 0 && row < rows);
  const std::byte* panel = panels + row / kPanelRows * panel_bytes;
  const std::int64_t lane = row % kPanelRows;
  if (format == DType::kFp32) {
    const auto* weights = reinterpret_cast<const float*>(panel) + lane;
    for (std::int64_t k = 0; k < columns; ++k) out[k] = weights[k * kPanelRows];
  } else if (format == DType::kBf16) {
    const auto* weights = reinterpret_cast<const std::uint16_t*>(panel) + 2 * lane;
    for (std::int64_t k = 0; k < columns; ++k) {
      out[k] = Bf16ToFloat(weights[k / 2 * 2 * kPanelRows + k % 2]);
    }
  } else if (format == DType::kInt4) {
    const auto* weights = reinterpret_cast<const std::uint8_t*>(panel) + lane;
    const std::int64_t at = row / kPanelRows * panel_scales + lane;
    for (std::int64_t k = 0; k < columns; ++k) {
      const std::int32_t pair = weights[k / 2 * kPanelRows];
      const std::int32_t q = k % 2 == 0 ? pair & 0xF : pair >> 4;
      const std::int64_t of_group = at + k / group * kPanelRows;
      const float w = static_cast<float>(q - group_zeros[of_group]) * group_scales[of_group];
      out[order == nullptr ? k : order[k]] = w;
    }
  } else {
    const auto* weights = reinterpret_cast<const std::int8_t*>(panel) + lane;
    const std::uint16_t* row_scales = scales + row / kPanelRows * panel_scales + lane;
    for (std::int64_t k = 0; k < columns; ++k) {
      const float scale = Bf16ToFloat(row_scales[k / kGroup * kPanelRows]);
      out[k] = static_cast<float>(weights[k * kPanelRows]) * scale;
    }
  }
}

}  // namespace twin::kernels
