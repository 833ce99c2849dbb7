// What the tests of the kernels share: every usable instruction set, and random arrays.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

inline std::vector<InstructionSet> AllSets() { return UsableInstructionSets(DetectCpu()); }

inline std::string SetName(const testing::TestParamInfo<InstructionSet>& info) {
  return std::string(Name(info.param));
}

// `count` floats with mean 0 and the given standard deviation.
inline std::vector<float> RandomFloats(std::string_view stream, std::int64_t count,
                                       double deviation = 1) {
  Random random(7, stream);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(deviation * random.Normal());
  return values;
}

// An owned matrix whose rows lie `gap` elements apart; the gaps hold a mark that must survive.
struct TestMatrix {
  static constexpr float kMark = 12345;

  TestMatrix(std::int64_t rows, std::int64_t columns, std::int64_t gap = 3)
      : values(static_cast<std::size_t>(rows * (columns + gap)), kMark),
        view{values.data(), rows, columns, columns + gap} {}

  TestMatrix(const TestMatrix&) = delete;
  TestMatrix& operator=(const TestMatrix&) = delete;

  void FillRandom(std::string_view stream, double deviation = 1) {
    const std::vector<float> drawn = RandomFloats(stream, view.rows * view.columns, deviation);
    for (std::int64_t i = 0; i < view.rows * view.columns; ++i) {
      view.Row(i / view.columns)[i % view.columns] = drawn[static_cast<std::size_t>(i)];
    }
  }

  [[nodiscard]] bool GapsAreUntouched() const {
    for (std::int64_t i = 0; i < view.rows; ++i) {
      for (std::int64_t j = view.columns; j < view.stride; ++j) {
        if (view.Row(i)[j] != kMark) return false;
      }
    }
    return true;
  }

  std::vector<float> values;
  MatrixView<float> view;
};

}  // namespace twin::kernels
