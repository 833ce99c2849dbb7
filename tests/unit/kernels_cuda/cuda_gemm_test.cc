// Runs on a device and on the emulated one.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/random.h"
#include "kernels/cuda/gemm.h"
#include "kernels/float_formats.h"
#include "kernels/gemm.h"
#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::uint16_t kGap = 0x7FC0;  // NaN: between rows

// Random numbers between 0.5 and 1 or -0.5 and -1, in rows of `stride` with gaps behind them.
std::vector<std::uint16_t> RandomMatrix(Random& random, std::int64_t rows, std::int64_t columns,
                                        std::int64_t stride) {
  constexpr unsigned kExponent = 126U << 7;
  constexpr unsigned kFraction = 0x7FU;
  std::vector<std::uint16_t> values(static_cast<std::size_t>(rows * stride), kGap);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto bits = static_cast<unsigned>(random.Next() >> 48);
      values[static_cast<std::size_t>(i * stride + j)] =
          static_cast<std::uint16_t>((bits & 0x8000U) | kExponent | (bits & kFraction));
    }
  }
  return values;
}

struct Case {
  DeviceGemmShape shape;
  std::int64_t x_gap = 0;  // elements behind each row
  std::int64_t y_gap = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& each) {
  return out << Name(each.shape.input_dtype) << "_" << Name(each.shape.output_dtype) << "_"
             << each.shape.tokens << "x" << each.shape.outputs << "x" << each.shape.inputs << "_"
             << each.x_gap << "_" << each.y_gap;
}

// Operands of a product on the device, and on the host.
class Operands {
 public:
  explicit Operands(const Case& each, std::uint64_t seed = 1)
      : case_(each),
        random_(seed, "cuda_gemm_test"),
        x_stride_(each.shape.inputs + each.x_gap),
        y_stride_(each.shape.outputs + each.y_gap),
        x_(RandomMatrix(random_, each.shape.tokens, each.shape.inputs, x_stride_)),
        w_(RandomMatrix(random_, each.shape.outputs, each.shape.inputs, each.shape.inputs)),
        device_x_(x_),
        device_w_(w_),
        device_y_(static_cast<std::size_t>(each.shape.tokens * y_stride_ *
                                           ByteSize(each.shape.output_dtype))) {}

  [[nodiscard]] DeviceMatrix X() const {
    return {reinterpret_cast<std::byte*>(device_x_.data()), case_.shape.input_dtype,
            case_.shape.tokens, case_.shape.inputs, x_stride_};
  }
  [[nodiscard]] DeviceMatrix W() const {
    return DenseDeviceMatrix(device_w_.data(), case_.shape.input_dtype, case_.shape.outputs,
                             case_.shape.inputs);
  }
  [[nodiscard]] DeviceMatrix Y() const {
    return {device_y_.data(), case_.shape.output_dtype, case_.shape.tokens, case_.shape.outputs,
            y_stride_};
  }
  void DrawX() {
    x_ = RandomMatrix(random_, case_.shape.tokens, case_.shape.inputs, x_stride_);
    device_x_.Set(x_);
  }

  // Every result within its format's rounding, and the error of sums in fp32; nothing else written.
  void ExpectProduct() const {
    const DeviceGemmShape& shape = case_.shape;
    const std::vector<std::byte> bytes = device_y_.Get();
    const double rounding = shape.output_dtype == DType::kFp32 ? 0 : 0x1p-8;
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      for (std::int64_t n = 0; n < shape.outputs; ++n) {
        double sum = 0;
        double magnitude = 0;
        for (std::int64_t k = 0; k < shape.inputs; ++k) {
          const double product = double{Bf16ToFloat(x_[Place(t, x_stride_, k)])} *
                                 double{Bf16ToFloat(w_[Place(n, shape.inputs, k)])};
          sum += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(Result(bytes, t, n), sum, rounding * std::abs(sum) + 1e-5 * magnitude)
            << "row " << t << ", column " << n;
      }
      for (std::int64_t n = shape.outputs; n < y_stride_; ++n) {
        ASSERT_TRUE(std::isnan(Result(bytes, t, n))) << "behind row " << t;
      }
    }
  }

 private:
  static std::size_t Place(std::int64_t row, std::int64_t stride, std::int64_t column) {
    return static_cast<std::size_t>(row * stride + column);
  }
  [[nodiscard]] float Result(const std::vector<std::byte>& bytes, std::int64_t row,
                             std::int64_t column) const {
    const DType dtype = case_.shape.output_dtype;
    const auto size = static_cast<std::size_t>(ByteSize(dtype));
    const std::byte* const at = bytes.data() + Place(row, y_stride_, column) * size;
    float wide = 0;
    std::uint16_t bits = 0;
    std::memcpy(&wide, at, dtype == DType::kFp32 ? sizeof(wide) : 0);
    std::memcpy(&bits, at, sizeof(bits));
    return dtype == DType::kFp32 ? wide : Bf16ToFloat(bits);
  }

  Case case_;
  Random random_;
  std::int64_t x_stride_;
  std::int64_t y_stride_;
  std::vector<std::uint16_t> x_;
  std::vector<std::uint16_t> w_;
  OnDevice<std::uint16_t> device_x_;
  OnDevice<std::uint16_t> device_w_;
  OnDevice<std::byte> device_y_;
};

constexpr DType kBf16 = DType::kBf16;
constexpr DType kFp32 = DType::kFp32;

class CudaGemmTest : public testing::TestWithParam<Case> {};

TEST_P(CudaGemmTest, MatchesSumsInDouble) {
  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  const Operands operands(GetParam());
  gemm.Multiply(stream.view(), operands.X(), operands.W(), operands.Y());
  operands.ExpectProduct();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaGemmTest,
    testing::Values(Case{{1, 8, 8, kBf16, kBf16}}, Case{{1, 96, 64, kBf16, kBf16}},
                    Case{{3, 200, 72, kBf16, kFp32}, 8, 4}, Case{{5, 40, 136, kBf16, kFp32}, 16, 8},
                    Case{{17, 64, 256, kBf16, kBf16}, 0, 8},
                    Case{{33, 104, 40, kBf16, kBf16}, 24, 0}, Case{{70, 136, 520, kBf16, kBf16}}),
    testing::PrintToStringParamName());

TEST(CudaGemmShapesTest, TakesShapeAfterShapeInOneWorkspace) {
  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  for (int turn = 0; turn < 2; ++turn) {
    for (const std::int64_t tokens : {1, 2, 9}) {
      const Operands operands(Case{{tokens, 48, 64, kBf16, kBf16}},
                              static_cast<std::uint64_t>(tokens));
      gemm.Multiply(stream.view(), operands.X(), operands.W(), operands.Y());
      operands.ExpectProduct();
    }
  }
}

TEST(CudaGemmShapesTest, OfNoTokensDoesNothing) {
  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  const OnDevice<std::uint16_t> w(std::vector<std::uint16_t>(64, 0));
  gemm.Multiply(stream.view(), DenseDeviceMatrix(nullptr, kBf16, 0, 8),
                DenseDeviceMatrix(w.data(), kBf16, 8, 8), DenseDeviceMatrix(nullptr, kBf16, 0, 8));
  stream.Wait();
}

// The CPU's product of equal weights and activations.
TEST(CudaGemmShapesTest, AgreesWithTheCpu) {
  const std::int64_t tokens = 6, outputs = 32, inputs = 128;
  Random random(7, "cuda_gemm_test");
  const auto x = RandomMatrix(random, tokens, inputs, inputs);
  const auto w = RandomMatrix(random, outputs, inputs, inputs);
  ThreadPool pool(1, InstructionSet::kPortable);
  WeightMatrix weights(kBf16, outputs, inputs);
  std::vector<float> wide_w(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) wide_w[i] = Bf16ToFloat(w[i]);
  weights.Fill(pool, 0,
               {.data = reinterpret_cast<const std::byte*>(wide_w.data()),
                .rows = outputs,
                .row_stride = inputs});
  std::vector<float> wide_x(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) wide_x[i] = Bf16ToFloat(x[i]);
  std::vector<float> expected(static_cast<std::size_t>(tokens * outputs));
  kernels::Gemm(pool, DenseMatrix<const float>(wide_x.data(), tokens, inputs), weights.view(), {},
                DenseMatrix(expected.data(), tokens, outputs));

  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  const OnDevice<std::uint16_t> device_x(x);
  const OnDevice<std::uint16_t> device_w(w);
  const OnDevice<float> y(expected.size());
  gemm.Multiply(stream.view(), DenseDeviceMatrix(device_x.data(), kBf16, tokens, inputs),
                DenseDeviceMatrix(device_w.data(), kBf16, outputs, inputs),
                DenseDeviceMatrix(y.data(), kFp32, tokens, outputs));
  const std::vector<float> found = y.Get();
  // Sums of 128 products below 1, in two orders of addition.
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
}

TEST(CudaGemmShapesTest, AreReplayedFromAGraphOncePrepared) {
  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  const Case each{{8, 64, 72, kBf16, kBf16}, 8, 0};
  gemm.Prepare(each.shape);
  Operands operands(each);
  const TestGraph graph(stream.view(), [&] {
    gemm.Multiply(stream.view(), operands.X(), operands.W(), operands.Y());
  });
  for (int replay = 0; replay < 2; ++replay) {
    operands.DrawX();
    graph.Launch(stream.view());
    operands.ExpectProduct();
  }
}

TEST(CudaGemmDeathTest, AnUnpreparedShapeIsNotCaptured) {
  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  const Operands operands(Case{{8, 64, 72, kBf16, kBf16}});
  EXPECT_DEATH(
      TestGraph(stream.view(),
                [&] { gemm.Multiply(stream.view(), operands.X(), operands.W(), operands.Y()); }),
      "check failed: prepared");
}

TEST(CudaGemmDeathTest, RowsMustBeAligned) {
  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  const Operands operands(Case{{8, 64, 72, kBf16, kBf16}, 4, 0});
  EXPECT_DEATH(gemm.Multiply(stream.view(), operands.X(), operands.W(), operands.Y()), "Aligned");
}

}  // namespace
}  // namespace twin::kernels::cuda
