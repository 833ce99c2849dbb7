// Weights of 4 bits with random scales and zero points, and what they are.
#pragma once

#include <cstdint>

#include "core/hash.h"
#include "kernels/float_formats.h"
#include "kernels/weight_matrix.h"

namespace twin::kernels {

// Weight (row, column), by column as packed: a function of both.
class RandomInt4 final : public Int4Source {
 public:
  RandomInt4(std::int64_t rows, std::int64_t columns, std::int64_t group)
      : rows_(rows), columns_(columns), group_(group) {}

  [[nodiscard]] std::int64_t rows() const override { return rows_; }
  void CopyWeights(std::int64_t first, std::int64_t count, std::uint8_t* q) const override {
    for (std::int64_t k = 0; k < columns_; ++k) {
      for (std::int64_t i = 0; i < count; ++i) q[k * kPanel + i] = Q(first + i, k);
    }
  }
  void CopyGroups(std::int64_t first, std::int64_t count, float* scales,
                  std::uint8_t* zeros) const override {
    for (std::int64_t g = 0; g * group_ < columns_; ++g) {
      for (std::int64_t i = 0; i < count; ++i) {
        scales[g * kPanel + i] = Scale(first + i, g);
        zeros[g * kPanel + i] = Zero(first + i, g);
      }
    }
  }

  [[nodiscard]] double Weight(std::int64_t row, std::int64_t column) const {
    const std::int64_t g = column / group_;
    return (Q(row, column) - Zero(row, g)) * static_cast<double>(Scale(row, g));
  }

 private:
  static constexpr std::int64_t kPanel = WeightView::kPanelRows;

  static std::uint64_t Bits(std::int64_t row, std::int64_t column, std::uint64_t what) {
    return MixWords(MixWords(static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(column)),
                    what);
  }
  static std::uint8_t Q(std::int64_t row, std::int64_t column) {
    return static_cast<std::uint8_t>(Bits(row, column, 1) % 16);
  }
  static std::uint8_t Zero(std::int64_t row, std::int64_t group) {
    return static_cast<std::uint8_t>(Bits(row, group, 2) % 17);
  }
  // Any fp16 from 2^-14 to 4.
  static float Scale(std::int64_t row, std::int64_t group) {
    return Fp16ToFloat(static_cast<std::uint16_t>(0x0400 + Bits(row, group, 3) % 0x4000));
  }

  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t group_;
};

}  // namespace twin::kernels
