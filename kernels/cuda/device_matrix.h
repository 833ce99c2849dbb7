// Views of row-major matrices in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace twin::kernels::cuda {

// A borrowed matrix: element (i, j) is at data + (i * stride + j) * ByteSize(dtype). Copies are
// views of the same memory. The type does not distinguish inputs from outputs; each operation
// documents what it writes.
struct DeviceMatrix {
  std::byte* data = nullptr;
  DType dtype = DType::kBf16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // elements from one row to the next; at least `columns`

  [[nodiscard]] std::byte* Row(std::int64_t i) const { return data + i * stride * ByteSize(dtype); }
  template <class T>
  [[nodiscard]] T* As() const {
    return reinterpret_cast<T*>(data);
  }
  // View of the columns first..first + count - 1.
  [[nodiscard]] DeviceMatrix Columns(std::int64_t first, std::int64_t count) const {
    return {data + first * ByteSize(dtype), dtype, rows, count, stride};
  }
  // View of the rows first..first + count - 1.
  [[nodiscard]] DeviceMatrix Rows(std::int64_t first, std::int64_t count) const {
    return {Row(first), dtype, count, columns, stride};
  }
};

// A quantized matrix: its row i represents scales[i] * values.Row(i).
struct ScaledMatrix {
  DeviceMatrix values;
  float* scales = nullptr;  // [rows]
};

// A matrix without gaps between rows.
inline DeviceMatrix DenseDeviceMatrix(void* data, DType dtype, std::int64_t rows,
                                      std::int64_t columns) {
  return {static_cast<std::byte*>(data), dtype, rows, columns, columns};
}

}  // namespace twin::kernels::cuda
