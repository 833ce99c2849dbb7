#include "kernels/weight_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

// The smallest bf16 that is at least `value` >= 0.
std::uint16_t Bf16AtLeast(float value) {
  const std::uint16_t rounded = FloatToBf16(value);
  return Bf16ToFloat(rounded) < value ? static_cast<std::uint16_t>(rounded + 1) : rounded;
}

// Bytes that `columns` columns of a panel occupy.
std::int64_t PanelBytes(DType format, std::int64_t columns) {
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
  CHECK(format == DType::kFp32 || format == DType::kBf16 || format == DType::kInt8);
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
}

void WeightMatrix::Fill(ThreadPool& pool, std::int64_t first_row, const WeightSource& source) {
  CHECK(first_row >= 0 && source.rows >= 0 && first_row + source.rows <= view_.rows);
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
