#include "tests/cuda_emulation/emulated_product.h"

#include <library_types.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/float_formats.h"

namespace twin::cuda_emulation {
namespace {

using kernels::Bf16ToFloat;
using kernels::FloatToBf16;

// e4m3: a sign, four bits of exponent, three of fraction; no infinity, one NaN of each sign.
float Fp8ToFloat(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 0xF;
  const int fraction = bits & 0x7;
  const float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
  if (exponent == 0xF && fraction == 0x7) return std::numeric_limits<float>::quiet_NaN();
  return exponent == 0 ? sign * std::ldexp(static_cast<float>(fraction), -9)
                       : sign * std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
}

float Load(const void* data, std::uint64_t index, std::uint64_t type) {
  if (type == CUDA_R_8F_E4M3) return Fp8ToFloat(static_cast<const std::uint8_t*>(data)[index]);
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[index];
  return Bf16ToFloat(static_cast<const std::uint16_t*>(data)[index]);
}

void Store(float value, void* data, std::uint64_t index, std::uint64_t type) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<std::uint16_t*>(data)[index] = FloatToBf16(value);
  }
}

// The operand as fp32, element by element of what the product sees, k running fastest.
std::vector<float> Widen(const void* data, const Operand& operand, bool first) {
  const std::uint64_t outer = first ? operand.RowsSeen() : operand.ColumnsSeen();
  const std::uint64_t inner = first ? operand.ColumnsSeen() : operand.RowsSeen();
  std::vector<float> wide;
  wide.reserve(outer * inner);
  for (std::uint64_t i = 0; i < outer; ++i) {
    for (std::uint64_t k = 0; k < inner; ++k) {
      wide.push_back(Load(data, first ? operand.Index(i, k) : operand.Index(k, i), operand.type));
    }
  }
  return wide;
}

// Without the bits after the 13th behind the point, as tensor cores of compute capability 9.0 keep
// a sum of fp8 products.
float InTensorCore(float sum) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(sum) & ~((1U << (23 - 13)) - 1));
}

// `fast`: a sum is in a tensor core after each of its instructions, which take 32 values of k.
float Dot(const float* a, const float* b, std::uint64_t begin, std::uint64_t end, bool fast) {
  constexpr std::uint64_t kInstruction = 32;
  float sum = 0;
  for (std::uint64_t k = begin; k < end; ++k) {
    sum += a[k] * b[k];
    if (fast && (k + 1) % kInstruction == 0) sum = InTensorCore(sum);
  }
  return fast ? InTensorCore(sum) : sum;
}

}  // namespace

std::uint64_t TypeBytes(std::uint64_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2;
}

std::size_t Operand::Bytes() const {
  return rows == 0 || columns == 0 ? 0 : ((columns - 1) * leading + rows) * TypeBytes(type);
}

void Execution::operator()() const {
  const std::uint64_t depth = product.a.ColumnsSeen();
  const std::vector<float> wide_a = Widen(a_data, product.a, true);
  const std::vector<float> wide_b = Widen(b_data, product.b, false);
  const std::uint64_t half = two_halves ? depth / 2 : depth;
  // Whoever shares the workspace with something that runs meanwhile will see it.
  if (workspace_bytes > 0) std::memset(workspace, 0xFF, workspace_bytes);
  for (std::uint64_t column = 0; column < product.d.columns; ++column) {
    for (std::uint64_t row = 0; row < product.d.rows; ++row) {
      const float* const left = wide_a.data() + row * depth;
      const float* const right = wide_b.data() + column * depth;
      float sum =
          Dot(left, right, 0, half, product.fast) + Dot(left, right, half, depth, product.fast);
      if (a_scales != nullptr) sum *= a_scales[row] * b_scales[column];
      const std::uint64_t place = product.c.Index(row, column);
      const float added = beta != 0 ? beta * Load(c_data, place, product.c.type) : 0;
      Store(alpha * sum + added, d_data, product.d.Index(row, column), product.d.type);
    }
  }
}

}  // namespace twin::cuda_emulation
