// Products of fp8 matrices, against sums in double. Runs on devices that have them, and on the
// emulated one.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/quantize.h"
#include "tests/unit/kernels_cuda/test_fp8.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

constexpr DType kBf16 = DType::kBf16;
constexpr DType kFp32 = DType::kFp32;

bool HasScaledProducts() {
  int device = 0;
  int major = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
            "cudaDeviceGetAttribute");
  return major == 9;
}

// Random rows of bf16, quantized.
class QuantizedRows {
 public:
  QuantizedRows(Random& random, std::int64_t rows, std::int64_t columns, std::int64_t gap)
      : source(kBf16, rows, columns),
        stride_(columns + gap),
        values_(static_cast<std::size_t>(rows * stride_)),
        scales_(static_cast<std::size_t>(rows)) {
    source.Draw(random);
    Quantize();
  }

  void Quantize() {
    const TestStream stream;
    QuantizeRows(stream.view(), source.matrix(), matrix());
    bytes_ = values_.Get();
    factors_ = scales_.Get();
  }
  [[nodiscard]] ScaledMatrix matrix() const {
    return {{reinterpret_cast<std::byte*>(values_.data()), DType::kFp8, source.rows(),
             source.columns(), stride_},
            scales_.data()};
  }
  [[nodiscard]] double At(std::int64_t row, std::int64_t column) const {
    const std::uint8_t bits = bytes_[static_cast<std::size_t>(row * stride_ + column)];
    return double{Fp8ToFloat(bits)} * double{factors_[static_cast<std::size_t>(row)]};
  }

  TestRows source;

 private:
  std::int64_t stride_;
  OnDevice<std::uint8_t> values_;
  OnDevice<float> scales_;
  std::vector<std::uint8_t> bytes_;
  std::vector<float> factors_;
};

struct Case {
  std::int64_t tokens = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  DType output_dtype = kBf16;
  std::int64_t x_gap = 0;
  std::int64_t y_gap = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& each) {
  return out << each.tokens << "x" << each.outputs << "x" << each.inputs << "_"
             << Name(each.output_dtype) << "_" << each.x_gap << "_" << each.y_gap;
}

// Sums on tensor cores keep fewer bits than fp32 does: 13 behind the point of the largest addend.
constexpr double kTensorCoreUlp = 0x1p-13;

// `loss`: what a sum may lose, as a share of the sum of its addends' magnitudes.
void ExpectProduct(const QuantizedRows& x, const QuantizedRows& w, TestRows& y,
                   double loss = 2 * kTensorCoreUlp) {
  y.Fetch();
  const double rounding = UlpOf(y.matrix().dtype);
  for (std::int64_t t = 0; t < y.rows(); ++t) {
    for (std::int64_t n = 0; n < y.columns(); ++n) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < x.source.columns(); ++k) {
        sum += x.At(t, k) * w.At(n, k);
        magnitude += std::abs(x.At(t, k) * w.At(n, k));
      }
      ASSERT_NEAR(y.At(t, n), sum, rounding * std::abs(sum) + loss * magnitude)
          << "row " << t << ", column " << n;
    }
  }
}

class CudaScaledGemmTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!HasScaledProducts()) GTEST_SKIP() << "needs a device of compute capability 9.0";
  }
  Random random_{11, "cuda_scaled_gemm_test"};
  TestStream stream_;
};

TEST_P(CudaScaledGemmTest, MatchesSumsInDouble) {
  const Case& each = GetParam();
  Gemm gemm(TestCublasLt(), "");
  const QuantizedRows x(random_, each.tokens, each.inputs, each.x_gap);
  const QuantizedRows w(random_, each.outputs, each.inputs, 0);
  TestRows y(each.output_dtype, each.tokens, each.outputs, each.y_gap);
  gemm.MultiplyScaled(stream_.view(), x.matrix(), w.matrix(), y.matrix());
  ExpectProduct(x, w, y);
}

TEST_P(CudaScaledGemmTest, FastAccumulationLosesBitsOnceForEachInstruction) {
  const Case& each = GetParam();
  Gemm gemm(TestCublasLt(), "");
  const QuantizedRows x(random_, each.tokens, each.inputs, each.x_gap);
  const QuantizedRows w(random_, each.outputs, each.inputs, 0);
  TestRows y(each.output_dtype, each.tokens, each.outputs, each.y_gap);
  gemm.MultiplyScaled(stream_.view(), x.matrix(), w.matrix(), y.matrix(), Fp8Accumulation::kFast);
  constexpr std::int64_t kInstruction = 32;  // of e4m3, inputs that it adds
  const auto instructions = static_cast<double>(each.inputs / kInstruction + 1);
  ExpectProduct(x, w, y, (1 + instructions) * kTensorCoreUlp);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaScaledGemmTest,
                         testing::Values(Case{1, 16, 16}, Case{1, 96, 64, kFp32},
                                         Case{3, 208, 80, kBf16, 16, 8},
                                         Case{17, 64, 256, kBf16, 0, 8}, Case{33, 112, 48, kFp32},
                                         Case{70, 144, 528}),
                         testing::PrintToStringParamName());

using CudaScaledGemmShapesTest = CudaScaledGemmTest;
INSTANTIATE_TEST_SUITE_P(One, CudaScaledGemmShapesTest, testing::Values(Case{8, 64, 80}),
                         testing::PrintToStringParamName());

TEST_P(CudaScaledGemmShapesTest, IsWithinSomePercentOfTheProductThatWasQuantized) {
  Gemm gemm(TestCublasLt(), "");
  const QuantizedRows x(random_, 8, 512, 0);
  const QuantizedRows w(random_, 64, 512, 0);
  TestRows y(kFp32, 8, 64);
  gemm.MultiplyScaled(stream_.view(), x.matrix(), w.matrix(), y.matrix());
  y.Fetch();
  double gap = 0;
  double norm = 0;
  for (std::int64_t t = 0; t < 8; ++t) {
    for (std::int64_t n = 0; n < 64; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < 512; ++k) sum += x.source.At(t, k) * w.source.At(n, k);
      gap += (y.At(t, n) - sum) * (y.At(t, n) - sum);
      norm += sum * sum;
    }
  }
  // A number of three bits of fraction is off by 2.6 percent (root mean square, its place in an
  // octave uniform), a product by sqrt(2) of that, and so is a sum of independent ones.
  const double distance = std::sqrt(gap / norm);
  EXPECT_GT(distance, 0.02);
  EXPECT_LT(distance, 0.05);
}

TEST_P(CudaScaledGemmShapesTest, AreReplayedFromAGraphWithTheScalesOfTheReplay) {
  Gemm gemm(TestCublasLt(), "");
  gemm.Prepare({.tokens = 8,
                .outputs = 64,
                .inputs = 80,
                .input_dtype = DType::kFp8,
                .output_dtype = kBf16});
  QuantizedRows x(random_, 8, 80, 0);
  const QuantizedRows w(random_, 64, 80, 0);
  TestRows y(kBf16, 8, 64);
  const TestGraph graph(stream_.view(), [&] {
    gemm.MultiplyScaled(stream_.view(), x.matrix(), w.matrix(), y.matrix());
  });
  for (const double deviation : {1.0, 100.0}) {
    x.source.Draw(random_, deviation);
    x.Quantize();
    graph.Launch(stream_.view());
    ExpectProduct(x, w, y);
  }
}

TEST_P(CudaScaledGemmShapesTest, ProductsOfOneShapeHaveTheirOwnScales) {
  Gemm gemm(TestCublasLt(), "");
  const QuantizedRows x(random_, 8, 80, 0);
  const QuantizedRows first(random_, 64, 80, 0);
  const QuantizedRows second(random_, 64, 80, 0);
  TestRows y(kBf16, 8, 64);
  TestRows z(kBf16, 8, 64);
  gemm.MultiplyScaled(stream_.view(), x.matrix(), first.matrix(), y.matrix());
  gemm.MultiplyScaled(stream_.view(), x.matrix(), second.matrix(), z.matrix());
  ExpectProduct(x, first, y);
  ExpectProduct(x, second, z);
}

}  // namespace
}  // namespace twin::kernels::cuda
