// A borrowed row-major matrix with a row stride.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace twin::kernels {

// Element (i, j) is data[i * stride + j]. A MatrixView<float> converts to a MatrixView<const
// float>.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // elements between the starts of two rows; at least `columns`

  [[nodiscard]] T* Row(std::int64_t i) const { return data + i * stride; }

  // Columns first..first + count - 1 of every row.
  [[nodiscard]] MatrixView Columns(std::int64_t first, std::int64_t count) const {
    return {data + first, rows, count, stride};
  }

  // Rows first..first + count - 1.
  [[nodiscard]] MatrixView Rows(std::int64_t first, std::int64_t count) const {
    return {Row(first), count, columns, stride};
  }

  // NOLINTNEXTLINE(google-explicit-constructor): writable memory may always be read.
  operator MatrixView<const T>() const requires(!std::is_const_v<T>) {
    return {data, rows, columns, stride};
  }
};

// A matrix whose rows are contiguous.
template <class T>
MatrixView<T> DenseMatrix(T* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns, columns};
}

}  // namespace twin::kernels
