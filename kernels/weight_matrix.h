// Weights of a linear layer, packed once for streaming.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "kernels/aligned_buffer.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

// Rows of weights as a checkpoint stores them; element (i, j) lies at
// data + (i * row_stride + j * column_stride) * ByteSize(dtype), at any alignment, little-endian.
// A transposed source ([in, out]) has row_stride 1.
struct WeightSource {
  const std::byte* data = nullptr;
  DType dtype = DType::kFp32;  // kFp32, kBf16 or kFp16
  std::int64_t rows = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  // The first `columns` elements of a row in fp32: exact. REQUIRES: 0 <= row < rows.
  void CopyRow(std::int64_t row, std::int64_t columns, float* out) const;
};

// Takes in rows of a matrix, in whatever form it keeps them.
class WeightSink {
 public:
  virtual ~WeightSink() = default;
  // Rows first_row.. become those of `source`, which may be gone when this returns.
  virtual void Fill(ThreadPool& pool, std::int64_t first_row, const WeightSource& source) = 0;
};

// A borrowed matrix W[rows = outputs, columns = inputs] in panels of kPanelRows rows. Within a
// panel, with r the row in the panel and k the column:
//
//   kFp32  [k][r]
//   kBf16  [k / 2][r][k % 2]                        columns padded to an even number by zero
//   kInt8  [k][r], scale [k / kGroup][r] in bf16    w = q * scale, |q| <= 127
//
// Rows are padded to whole panels by zero weights.
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

  // Row `row` in fp32, exactly the weights that Gemm multiplies with. Cost: one cache line per
  // element. REQUIRES: 0 <= row < rows; `out` holds `columns` floats.
  void CopyRow(std::int64_t row, float* out) const;
};

// Owns packed weights; zero until filled.
class WeightMatrix final : public WeightSink {
 public:
  WeightMatrix() = default;
  // REQUIRES: format is kFp32, kBf16 or kInt8; rows, columns >= 1. Throws std::bad_alloc.
  WeightMatrix(DType format, std::int64_t rows, std::int64_t columns);

  // Rows first_row.. become those of `source`: exactly for fp32 from any format and for bf16 from
  // bf16; rounded to nearest even for bf16; for int8 each group of kGroup weights of a row is
  // divided by its scale max|w| / 127, rounded up to a bf16, and rounded to nearest.
  // Fused layers are filled source by source. REQUIRES: the rows lie within the matrix.
  void Fill(ThreadPool& pool, std::int64_t first_row, const WeightSource& source) override;

  // Valid while this matrix lives and is not assigned to; moving the matrix keeps it valid.
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
