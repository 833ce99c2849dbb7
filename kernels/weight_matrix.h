// Weights of a linear layer, packed once at loading into the layout that Gemm streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

// Rows of weights that are stored in 4 bits: w = (q - zero) * scale, with a scale and a zero point
// for each group of columns of a row.
class Int4Source {
 public:
  virtual ~Int4Source() = default;
  [[nodiscard]] virtual std::int64_t rows() const = 0;
  // Sets q[k * WeightView::kPanelRows + i] to the q of row first + i and column k, 0 to 15, for i <
  // count and all columns. REQUIRES: 1 <= count <= WeightView::kPanelRows; the rows exist.
  virtual void CopyWeights(std::int64_t first, std::int64_t count, std::uint8_t* q) const = 0;
  // Copies the scales and zero points of the groups in the layout of CopyWeights(): scales have at
  // most 19 significant bits, zeros are 0 to 16.
  virtual void CopyGroups(std::int64_t first, std::int64_t count, float* scales,
                          std::uint8_t* zeros) const = 0;
};

// Receives the rows of a matrix; implementations choose how to store them.
class WeightSink {
 public:
  virtual ~WeightSink() = default;
  // Sets the rows from first_row on to the rows of `source`, which need not outlive the call.
  virtual void Fill(ThreadPool& pool, std::int64_t first_row, const WeightSource& source) = 0;
};

// A borrowed matrix W[rows = outputs, columns = inputs], stored in panels of kPanelRows rows. The
// layout within a panel, where r is the row in the panel and k the column:
//
//   kFp32  [k][r]
//   kBf16  [k / 2][r][k % 2]                        columns padded with zeros to an even number
//   kInt8  [k][r], scale [k / kGroup][r] in bf16    w = q * scale, |q| <= 127
//   kInt4  [k / 2][r], even k in the low four bits; scale and zero [k / group][r]:
//          w = (q - zero) * scale, which fp32 holds exactly
//
// The last panel is padded with rows of zeros. With kInt4, column k holds the weights of input
// order[k].
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
  // kInt4 only.
  const float* group_scales = nullptr;
  const std::uint8_t* group_zeros = nullptr;
  std::int64_t group = 0;               // columns, a multiple of kGroup
  const std::int32_t* order = nullptr;  // null if columns are in the order of inputs

  // Size of all panels, with their scales and zero points.
  [[nodiscard]] std::int64_t Bytes() const;
  [[nodiscard]] std::int64_t groups() const { return (columns + group - 1) / group; }

  // Copies row `row` in fp32: exactly the weights that Gemm multiplies by. Cost: one cache line per
  // element. REQUIRES: 0 <= row < rows; `out` holds `columns` floats.
  void CopyRow(std::int64_t row, float* out) const;
};

// Owns packed weights; zero until filled.
class WeightMatrix final : public WeightSink {
 public:
  WeightMatrix() = default;
  // REQUIRES: format is kFp32, kBf16, kInt8 or kInt4, in groups of kInt4Group; rows, columns >= 1.
  // Throws std::bad_alloc.
  WeightMatrix(DType format, std::int64_t rows, std::int64_t columns);
  // A matrix with 4 bits. `order` is a permutation of the columns; empty = the order of inputs.
  // REQUIRES: group is a multiple of WeightView::kGroup.
  static WeightMatrix Int4(std::int64_t rows, std::int64_t columns, std::int64_t group,
                           std::vector<std::int32_t> order);

  // Packs the rows of `source` as the rows from first_row on. Conversion to fp32, and from bf16 to
  // bf16, is exact; other conversions to bf16 round to nearest even. For int8, each group of kGroup
  // weights of a row has a scale, max|w| / 127 rounded up to bf16; weights are divided by it and
  // rounded to nearest. For int4, a group's scale is (max - min) / 15 rounded up to bf16, with min
  // <= 0 <= max; its zero point is -min / scale, rounded, and weights are rounded to nearest, which
  // moves them by up to one scale. Fused layers are filled by one call per source.
  // REQUIRES: the rows lie within the matrix.
  void Fill(ThreadPool& pool, std::int64_t first_row, const WeightSource& source) override;

  // Takes the numbers as they are stored. REQUIRES: format kInt4; the source has this matrix's
  // columns, in its order, and groups; the rows lie within the matrix.
  void FillInt4(ThreadPool& pool, std::int64_t first_row, const Int4Source& source);

  // The view's data is valid until its owner is destroyed or assigned to. Moving the matrix keeps
  // the data valid.
  [[nodiscard]] const WeightView& view() const { return view_; }
  [[nodiscard]] std::int64_t bytes() const { return view_.rows == 0 ? 0 : view_.Bytes(); }

 private:
  void SetRow(std::int64_t row, const float* values);
  void SetInt8Row(std::int64_t row, const float* values);
  void SetInt4Row(std::int64_t row, const float* values);
  void MakeInt4(std::int64_t group);
  [[nodiscard]] std::uint8_t* Int4Panel(std::int64_t row);
  [[nodiscard]] float* GroupScales(std::int64_t row);
  [[nodiscard]] std::uint8_t* GroupZeros(std::int64_t row);

  AlignedBuffer panels_;
  AlignedBuffer scales_;
  AlignedBuffer zeros_;  // kInt4 only
  std::vector<std::int32_t> order_;
  WeightView view_;
};

}  // namespace twin::kernels
