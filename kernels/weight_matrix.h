// Weights of a linear layer, packed once at loading into the layout that Gemm streams.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "kernels/aligned_buffer.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

// Borrowed rows of weights as a checkpoint stores them. Element (i, j) is at
// data + (i * row_stride + j * column_stride) * ByteSize(dtype), at any alignment, little-endian.
// A transposed source ([in, out]) has row_stride 1.
struct WeightSource {
  const std::byte* data = nullptr;
  DType dtype = DType::kFp32;  // kFp32, kBf16 or kFp16
  std::int64_t rows = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  // Copies the first `columns` elements of a row, converted to fp32 exactly.
  // REQUIRES: 0 <= row < rows.
  void CopyRow(std::int64_t row, std::int64_t columns, float* out) const;
};

// Receives the rows of a matrix; implementations choose how to store them.
class WeightSink {
 public:
  virtual ~WeightSink() = default;
  // Sets the rows from first_row on to those of `source`, which need not outlive the call.
  virtual void Fill(ThreadPool& pool, std::int64_t first_row, const WeightSource& source) = 0;
};

// A borrowed matrix W[rows = outputs, columns = inputs], stored in panels of kPanelRows rows. The
// layout within a panel, where r is the row in the panel and k the column:
//
//   kFp32  [k][r]
//   kBf16  [k / 2][r][k % 2]                        columns padded with zeros to an even number
//   kInt8  [k][r], scale [k / kGroup][r] in bf16    w = q * scale, |q| <= 127
//
// The last panel is padded with rows of zeros.
struct WeightView {
  static constexpr std::int64_t kPanelRows = 32;
  static constexpr std::int64_t kGroup = 32;

  DType format = DType::kFp32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const std::byte* panels = nullptr;
  const std::uint16_t* scales = nullptr;  // kInt8 only
  std::int64_t panel_bytes = 0;
  std::int64_t panel_scales = 0;  // scales per panel

  // Copies row `row` in fp32: exactly the weights that Gemm multiplies by. Cost: one cache line per
  // element. REQUIRES: 0 <= row < rows; `out` holds `columns` floats.
  void CopyRow(std::int64_t row, float* out) const;
};

// Owns packed weights; zero until filled.
class WeightMatrix final : public WeightSink {
 public:
  WeightMatrix() = default;
  // REQUIRES: format is kFp32, kBf16 or kInt8; rows, columns >= 1. Throws std::bad_alloc.
  WeightMatrix(DType format, std::int64_t rows, std::int64_t columns);

  // Packs the rows of `source` as the rows from first_row on. Conversion to fp32, and from bf16 to
  // bf16, is exact; other conversions to bf16 round to nearest even. For int8, each group of kGroup
  // weights of a row has a scale, max|w| / 127 rounded up to bf16; weights are divided by it and
  // rounded to nearest. Fused layers are filled by one call per source.
  // REQUIRES: the rows lie within the matrix.
  void Fill(ThreadPool& pool, std::int64_t first_row, const WeightSource& source) override;

  // The view's data is valid until its owner is destroyed or assigned to. Moving the matrix keeps
  // the data valid.
  [[nodiscard]] const WeightView& view() const { return view_; }
  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(panels_.size() + scales_.size());
  }

 private:
  void SetRow(std::int64_t row, const float* values);
  void SetInt8Row(std::int64_t row, const float* values);

  AlignedBuffer panels_;
  AlignedBuffer scales_;
  WeightView view_;
};

}  // namespace twin::kernels
