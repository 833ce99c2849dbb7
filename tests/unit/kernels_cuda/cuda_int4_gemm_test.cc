// Products with weights of 4 bits on a device, against the CPU's packed product and against double.
#include <gtest/gtest.h>

#include <optional>

#include "kernels/cuda/widening_gemm.h"
#include "kernels/gemm.h"
#include "tests/unit/kernels/random_int4.h"
#include "tests/unit/kernels_cuda/test_rows.h"
#include "tests/unit/kernels_cuda/widening_products.h"

namespace twin::kernels::cuda {
namespace {

using CudaInt4GemmTest = DeviceRowsTest;

// Random weights on host and device.
class TestInt4 {
 public:
  TestInt4(std::int64_t outputs, std::int64_t inputs, std::int64_t group)
      : source(outputs, inputs, group), packed(WeightMatrix::Int4(outputs, inputs, group, {})) {
    packed.FillInt4(pool_, 0, source);
    const Int4Rows rows = RowsOfInt4(pool_, packed.view());
    stride_ = rows.stride;
    q_.emplace(rows.q);
    scales_.emplace(rows.scales);
    zeros_.emplace(rows.zeros);
  }

  [[nodiscard]] Int4Matrix matrix() const {
    const WeightView& view = packed.view();
    return {.q = q_->data(),
            .scales = scales_->data(),
            .zeros = zeros_->data(),
            .rows = view.rows,
            .columns = view.columns,
            .stride = stride_,
            .group = view.group};
  }

  RandomInt4 source;
  WeightMatrix packed;

 private:
  ThreadPool pool_{1};
  std::int64_t stride_ = 0;
  std::optional<OnDevice<std::uint8_t>> q_;
  std::optional<OnDevice<float>> scales_;
  std::optional<OnDevice<std::uint8_t>> zeros_;
};

struct Size {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::int64_t group = 0;
};

// Fewer rows than a block takes, a part of a pack, several turns of all threads, a last group that
// is not whole, one group a row.
constexpr Size kSizes[] = {{1, 8, 32},    {3, 40, 32},   {33, 128, 128},
                           {5, 4136, 32}, {9, 360, 128}, {4, 4224, 4224}};

TEST_F(CudaInt4GemmTest, GivesTheCpusPackedProduct) {
  for (const Size& size : kSizes) {
    const TestInt4 w(size.outputs, size.inputs, size.group);
    for (const std::int64_t tokens : {1, 2, 3, 5, 8, 9, 16}) {
      TestRows x(DType::kBf16, tokens, size.inputs, 8);
      TestRows y(DType::kFp32, tokens, size.outputs, 1);
      x.Draw(random_);
      ASSERT_TRUE(TakesWideningGemm(x.matrix(), w.matrix(), y.matrix()));
      WideningGemm(stream_.view(), x.matrix(), w.matrix(), y.matrix());
      HostRows inputs(x);
      HostRows expected(tokens, size.outputs);
      Gemm(pool_, inputs.view(), w.packed.view(), {}, expected.view());
      // Both are within 2e-5 of the sum of |x| |w|; |w| is at most 16 * 4.
      const double scale = 64 * static_cast<double>(size.inputs);
      y.Expect([&](auto t, auto n) { return expected.At(t, n); }, 0, 4e-5 * scale);
    }
  }
}

TEST_F(CudaInt4GemmTest, AgreesWithDouble) {
  for (const Size& size : kSizes) {
    const TestInt4 w(size.outputs, size.inputs, size.group);
    TestRows x(DType::kBf16, 3, size.inputs);
    TestRows y(DType::kBf16, 3, size.outputs);
    x.Draw(random_, 0.01);
    WideningGemm(stream_.view(), x.matrix(), w.matrix(), y.matrix());
    y.Expect(
        [&](auto t, auto n) {
          double sum = 0;
          for (std::int64_t k = 0; k < size.inputs; ++k) {
            sum += double{x.At(t, k)} * w.source.Weight(n, k);
          }
          return sum;
        },
        0.51, 1e-5 * static_cast<double>(size.inputs));
  }
}

TEST_F(CudaInt4GemmTest, ARowIsTheSameAloneAndWithOthers) {
  const TestInt4 w(33, 4136, 32);
  ExpectTheSameRowsAloneAndTogether(w.matrix(), 33, 4136, DType::kBf16, random_);
}

TEST_F(CudaInt4GemmTest, WidensEveryWeightToTheNearest) {
  for (const Size& size : kSizes) {
    for (const std::int64_t gap : {0, 1, 8}) {
      const TestInt4 w(size.outputs, size.inputs, size.group);
      TestRows wide(DType::kBf16, size.outputs, size.inputs, gap);
      Widen(stream_.view(), w.matrix(), wide.matrix());
      wide.Expect([&](auto n, auto k) { return w.source.Weight(n, k); }, 0.51, 0);
    }
  }
}

TEST_F(CudaInt4GemmTest, RefusesWhatItCannotLoadInPacks) {
  ExpectPackedInputs(TestInt4(4, 16, 32).matrix(), 4, DType::kBf16);
}

}  // namespace
}  // namespace twin::kernels::cuda
