// A product of matrices as emulated cuBLASLt carries it out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twin::cuda_emulation {

// A column-major matrix as the product sees it. `type` is a cudaDataType_t.
struct Operand {
  std::uint64_t type = 0;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t leading = 0;
  bool transposed = false;

  [[nodiscard]] std::uint64_t RowsSeen() const { return transposed ? columns : rows; }
  [[nodiscard]] std::uint64_t ColumnsSeen() const { return transposed ? rows : columns; }
  [[nodiscard]] std::uint64_t Index(std::uint64_t row, std::uint64_t column) const {
    return transposed ? column + row * leading : row + column * leading;
  }
  // From the first element to behind the last one.
  [[nodiscard]] std::size_t Bytes() const;
};

std::uint64_t TypeBytes(std::uint64_t type);

// d = alpha * a * b + beta * c, in fp32.
struct Product {
  Operand a;
  Operand b;
  Operand c;
  Operand d;
  bool fast = false;  // sums keep fewer bits
};

struct Execution {
  Product product;
  bool two_halves = false;  // of k, summed apart
  float alpha = 1;
  float beta = 0;
  const void* a_data = nullptr;
  const void* b_data = nullptr;
  // Of rows of a and columns of b, with which each result is multiplied; null where there are none.
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
  const void* c_data = nullptr;
  void* d_data = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;  // what the algorithm uses of it

  void operator()() const;
};

}  // namespace twin::cuda_emulation
