// Products of very few rows on a device, against double.
#include <gtest/gtest.h>

#include "kernels/cuda/gemv.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

using CudaSkinnyGemmTest = DeviceRowsTest;

struct Size {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
};

// Fewer rows than a block takes, one pack alone, several turns of all threads, an incomplete turn.
constexpr Size kSizes[] = {{1, 8}, {3, 8}, {4, 72}, {9, 1024}, {5, 1032}, {2, 3080}, {70, 264}};

TEST_F(CudaSkinnyGemmTest, AgreesWithDouble) {
  for (const Size& size : kSizes) {
    for (std::int64_t tokens = 1; tokens <= kSkinnyRows; ++tokens) {
      for (const DType out : {DType::kBf16, DType::kFp32}) {
        TestRows x(DType::kBf16, tokens, size.inputs, 8);
        TestRows w(DType::kBf16, size.outputs, size.inputs, 16);
        TestRows y(out, tokens, size.outputs, 1);
        x.Draw(random_);
        w.Draw(random_);
        ASSERT_TRUE(TakesSkinnyGemm(x.matrix(), w.matrix(), y.matrix()));
        SkinnyGemm(stream_.view(), x.matrix(), w.matrix(), y.matrix());
        y.Expect(
            [&](auto t, auto n) {
              double sum = 0;
              for (std::int64_t k = 0; k < size.inputs; ++k) {
                sum += double{x.At(t, k)} * double{w.At(n, k)};
              }
              return sum;
            },
            0.51, 1e-5 * static_cast<double>(size.inputs));
      }
    }
  }
}

TEST_F(CudaSkinnyGemmTest, ARowIsTheSameAloneAndWithOthers) {
  TestRows x(DType::kBf16, kSkinnyRows, 2056);
  TestRows w(DType::kBf16, 33, 2056);
  TestRows together(DType::kFp32, kSkinnyRows, 33);
  x.Draw(random_);
  w.Draw(random_);
  SkinnyGemm(stream_.view(), x.matrix(), w.matrix(), together.matrix());
  together.Fetch();
  for (std::int64_t t = 0; t < kSkinnyRows; ++t) {
    for (std::int64_t count = 1; t + count <= kSkinnyRows; ++count) {
      TestRows some(DType::kFp32, count, 33);
      SkinnyGemm(stream_.view(), x.matrix().Rows(t, count), w.matrix(), some.matrix());
      some.Fetch();
      for (std::int64_t n = 0; n < 33; ++n) EXPECT_EQ(some.At(0, n), together.At(t, n));
    }
  }
}

TEST_F(CudaSkinnyGemmTest, RefusesWhatItCannotLoadInPacks) {
  const auto takes = [&](std::int64_t tokens, std::int64_t inputs, std::int64_t gap) {
    const TestRows x(DType::kBf16, tokens, inputs, gap);
    const TestRows w(DType::kBf16, 4, inputs);
    const TestRows y(DType::kBf16, tokens, 4);
    return TakesSkinnyGemm(x.matrix(), w.matrix(), y.matrix());
  };
  EXPECT_TRUE(takes(1, 16, 0));
  EXPECT_TRUE(takes(kSkinnyRows, 16, 0));
  EXPECT_FALSE(takes(kSkinnyRows + 1, 16, 0));
  EXPECT_FALSE(takes(1, 12, 4));
  EXPECT_FALSE(takes(2, 16, 3));
}

}  // namespace
}  // namespace twin::kernels::cuda
