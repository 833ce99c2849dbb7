// What products with weights of every widened format have in common.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/cuda/widening_gemm.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {

// `w` is [outputs, inputs]: an Int4Matrix or a ScaledMatrix.
template <class Weights>
void ExpectTheSameRowsAloneAndTogether(const Weights& w, std::int64_t outputs, std::int64_t inputs,
                                       DType format, Random& random) {
  const TestStream stream;
  TestRows x(format, kWideningTokensMax, inputs);
  TestRows together(DType::kFp32, kWideningTokensMax, outputs);
  x.Draw(random);
  WideningGemm(stream.view(), x.matrix(), w, together.matrix());
  together.Fetch();
  for (const std::int64_t count : {1, 2, 4, 7}) {
    for (std::int64_t t = 0; t + count <= kWideningTokensMax; t += 5) {
      TestRows some(DType::kFp32, count, outputs);
      WideningGemm(stream.view(), x.matrix().Rows(t, count), w, some.matrix());
      some.Fetch();
      for (std::int64_t n = 0; n < outputs; ++n) EXPECT_EQ(some.At(0, n), together.At(t, n));
    }
  }
}

// Rows of inputs that are not whole packs of 16 bytes, or too many, are not taken.
template <class Weights>
void ExpectPackedInputs(const Weights& w, std::int64_t outputs, DType format) {
  const auto takes = [&](std::int64_t tokens, std::int64_t inputs, std::int64_t gap) {
    const TestRows x(format, tokens, inputs, gap);
    const TestRows y(format, tokens, outputs);
    return TakesWideningGemm(x.matrix(), w, y.matrix());
  };
  EXPECT_TRUE(takes(kWideningTokensMax, 16, 0));
  EXPECT_FALSE(takes(kWideningTokensMax + 1, 16, 0));
  EXPECT_FALSE(takes(1, 12, 4));
  EXPECT_FALSE(takes(2, 16, 3));
}

}  // namespace twin::kernels::cuda
