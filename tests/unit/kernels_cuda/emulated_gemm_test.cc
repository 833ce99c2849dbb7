// What Gemm asks of cuBLASLt, and keeps: only the emulated library counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/input_error.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_algorithms.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::kernels::cuda {
namespace {

using cuda_emulation::EmulatedCublasLtCalls;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Too many tokens for SkinnyGemm.
constexpr DeviceGemmShape kShape{.tokens = 16, .outputs = 64, .inputs = 48};

std::filesystem::path FreshPath() {
  std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) / (name + ".txt");
  std::filesystem::remove(path);
  return path;
}

class EmulatedGemmTest : public testing::Test {
 protected:
  EmulatedGemmTest() { cuda_emulation::ResetDevice(); }
  ~EmulatedGemmTest() override { cuda_emulation::FailCublasLtAlgorithms({}); }

  // Zeros: what comes out does not matter here.
  static void Multiply(Gemm& gemm, const DeviceGemmShape& shape) {
    const TestStream stream;
    const OnDevice<std::uint16_t> x(
        std::vector<std::uint16_t>(static_cast<std::size_t>(shape.tokens * shape.inputs)));
    const OnDevice<std::uint16_t> w(
        std::vector<std::uint16_t>(static_cast<std::size_t>(shape.outputs * shape.inputs)));
    const OnDevice<std::uint16_t> y(static_cast<std::size_t>(shape.tokens * shape.outputs));
    gemm.Multiply(stream.view(),
                  DenseDeviceMatrix(x.data(), shape.input_dtype, shape.tokens, shape.inputs),
                  DenseDeviceMatrix(w.data(), shape.input_dtype, shape.outputs, shape.inputs),
                  DenseDeviceMatrix(y.data(), shape.output_dtype, shape.tokens, shape.outputs));
    stream.Wait();
  }
};

TEST_F(EmulatedGemmTest, AsksForAnAlgorithmOncePerShape) {
  Gemm gemm(TestCublasLt(), "");
  const auto before = EmulatedCublasLtCalls();
  for (int i = 0; i < 3; ++i) Multiply(gemm, kShape);
  const auto after = EmulatedCublasLtCalls();
  EXPECT_EQ(after.heuristics - before.heuristics, 1);
  EXPECT_EQ(after.products - before.products, 3);
}

TEST_F(EmulatedGemmTest, TakesThirtyTwoMebibytesAndGivesThemBack) {
  {
    const Gemm gemm(TestCublasLt(), "");
    EXPECT_EQ(gemm.workspace_bytes(), 32 << 20);
    EXPECT_EQ(cuda_emulation::DeviceBytesInUse(), std::size_t{32} << 20);
  }
  EXPECT_EQ(cuda_emulation::LiveAllocations(), 0);
}

TEST_F(EmulatedGemmTest, WithoutMemoryIsADeviceErrorAndLeavesNothing) {
  cuda_emulation::FailCall("cudaMalloc", 1, cudaErrorMemoryAllocation);
  EXPECT_THAT([] { Gemm(TestCublasLt(), ""); }, ThrowsMessage<DeviceError>(HasSubstr("workspace")));
  EXPECT_EQ(cuda_emulation::LiveAllocations(), 0);
}

TEST_F(EmulatedGemmTest, WithoutALibraryIsADeviceErrorThatSaysWhy) {
  const CublasLtLibrary library("libcublasLt.so.0");
  ASSERT_FALSE(library.usable());
  EXPECT_THAT(library.why(), HasSubstr("libcublasLt.so.0"));
  EXPECT_THAT([&] { Gemm(library, ""); }, ThrowsMessage<DeviceError>(HasSubstr(library.why())));
}

TEST_F(EmulatedGemmTest, ALibraryThatLacksAFunctionIsNotUsable) {
  const CublasLtLibrary library("libm.so.6");
  EXPECT_THAT(library.why(), testing::EndsWith("libm.so.6 lacks cublasLtGetVersion"));
}

TEST_F(EmulatedGemmTest, ATunedAlgorithmIsKeptInTheFileAndUsedWithoutAskingAgain) {
  const std::filesystem::path path = FreshPath();
  const TestStream stream;
  {
    Gemm gemm(TestCublasLt(), path);
    EXPECT_GE(gemm.Tune(stream.view(), kShape), 0);
    EXPECT_FALSE(std::filesystem::exists(path));
    gemm.Save();
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  Gemm gemm(TestCublasLt(), path);
  const auto before = EmulatedCublasLtCalls();
  Multiply(gemm, kShape);
  EXPECT_EQ(EmulatedCublasLtCalls().heuristics, before.heuristics);
  DeviceGemmShape other = kShape;
  other.tokens = 17;
  Multiply(gemm, other);
  EXPECT_EQ(EmulatedCublasLtCalls().heuristics, before.heuristics + 1);
}

TEST(RoundedTokensTest, StepsGrowWithTheNumber) {
  EXPECT_EQ(RoundedTokens(7), 7);
  EXPECT_EQ(RoundedTokens(9), 16);
  EXPECT_EQ(RoundedTokens(257), 288);
  EXPECT_EQ(RoundedTokens(1025), 1088);
  EXPECT_EQ(RoundedTokens(4097), 4224);
}

// The heuristic would take time in the middle of a run, and so would kernels that are not loaded.
TEST_F(EmulatedGemmTest, ASizeTakesTheAlgorithmOfItsRoundedSize) {
  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  DeviceGemmShape shape = kShape;
  shape.tokens = 64;
  gemm.Tune(stream.view(), shape);
  const auto heuristics = [&](std::int64_t tokens) {
    shape.tokens = tokens;
    const auto before = EmulatedCublasLtCalls();
    Multiply(gemm, shape);
    return EmulatedCublasLtCalls().heuristics - before.heuristics;
  };
  EXPECT_EQ(heuristics(63), 0);
  EXPECT_EQ(heuristics(57), 0);
  EXPECT_EQ(heuristics(56), 1);  // of a size of its own
  EXPECT_EQ(heuristics(53), 0);
}

TEST_F(EmulatedGemmTest, TuningMeasuresEverySuggestionAndFreesItsOperands) {
  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  const std::size_t used = cuda_emulation::DeviceBytesInUse();
  const auto before = EmulatedCublasLtCalls();
  gemm.Tune(stream.view(), kShape, 2);
  // Two suggestions, each once to load it, once to see how long it takes, and five turns.
  EXPECT_GE(EmulatedCublasLtCalls().products - before.products, 2 * (1 + 1 + 5));
  EXPECT_EQ(cuda_emulation::DeviceBytesInUse(), used);
}

TEST_F(EmulatedGemmTest, TuningLeavesOutASuggestionThatFailsAtRunTime) {
  const TestStream stream;
  Gemm gemm(TestCublasLt(), "");
  cuda_emulation::FailCublasLtAlgorithms({0});
  EXPECT_GE(gemm.Tune(stream.view(), kShape), 0);
  EXPECT_NO_THROW(Multiply(gemm, kShape));
  cuda_emulation::FailCublasLtAlgorithms({0, 1});
  EXPECT_THAT([&] { gemm.Tune(stream.view(), kShape); },
              ThrowsMessage<DeviceError>(HasSubstr("multiplying matrices: cuBLASLt")));
}

TEST_F(EmulatedGemmTest, AProductWhoseFirstSuggestionFailsTakesTheNextAndKeepsIt) {
  Gemm gemm(TestCublasLt(), "");
  gemm.Prepare(kShape);
  cuda_emulation::FailCublasLtAlgorithms({0});
  const auto before = EmulatedCublasLtCalls();
  for (int i = 0; i < 3; ++i) Multiply(gemm, kShape);
  const auto after = EmulatedCublasLtCalls();
  EXPECT_EQ(after.products - before.products, 3);
  EXPECT_EQ(after.heuristics - before.heuristics, 1);
  cuda_emulation::FailCublasLtAlgorithms({0, 1});
  EXPECT_THAT([&] { Multiply(gemm, kShape); },
              ThrowsMessage<DeviceError>(HasSubstr("CUBLAS_STATUS_INTERNAL_ERROR")));
}

TEST_F(EmulatedGemmTest, PartsOfASumAreAddedInFp32) {
  Gemm(TestCublasLt(), "").Prepare(kShape);
  EXPECT_EQ(EmulatedCublasLtCalls().reduction_mask, 2U);  // CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
}

TEST_F(EmulatedGemmTest, AlgorithmsOfAnotherDeviceAreNotUsed) {
  const std::filesystem::path path = FreshPath();
  {
    const TestStream stream;
    Gemm gemm(TestCublasLt(), path);
    gemm.Tune(stream.view(), kShape);
    gemm.Save();
  }
  cuda_emulation::ResetDevice({.name = "Another GPU"});
  Gemm gemm(TestCublasLt(), path);
  const auto before = EmulatedCublasLtCalls();
  Multiply(gemm, kShape);
  EXPECT_EQ(EmulatedCublasLtCalls().heuristics, before.heuristics + 1);
}

TEST_F(EmulatedGemmTest, AnAlgorithmThatTheLibraryRefusesIsBadData) {
  const std::filesystem::path path = FreshPath();
  GemmAlgorithmFile file(path, "Emulated GPU", TestCublasLt().version());
  file.Set(kShape, {.blob = {1, 2, 3}, .microseconds = 5});
  file.Save();
  Gemm gemm(TestCublasLt(), path);
  EXPECT_THAT([&] { gemm.Prepare(kShape); },
              ThrowsMessage<InputError>(HasSubstr("refuses the algorithm for 16 x 64 x 48")));
}

TEST_F(EmulatedGemmTest, ADamagedFileIsRefusedAtOnce) {
  const std::filesystem::path path = FreshPath();
  std::ofstream(path) << "# twinserve GEMM algorithms, format 2\nnonsense\n";
  EXPECT_THAT([&] { Gemm(TestCublasLt(), path); },
              ThrowsMessage<InputError>(HasSubstr(path.string() + ":2: ")));
}

TEST_F(EmulatedGemmTest, AlgorithmsOfFp8ProductsAreTunedAndKeptToo) {
  const std::filesystem::path path = FreshPath();
  const DeviceGemmShape shape{.tokens = 8, .outputs = 64, .inputs = 48, .input_dtype = DType::kFp8};
  const std::size_t used = [&] {
    const TestStream stream;
    Gemm gemm(TestCublasLt(), path);
    const std::size_t before = cuda_emulation::DeviceBytesInUse();
    gemm.Tune(stream.view(), shape);
    gemm.Save();
    return cuda_emulation::DeviceBytesInUse() - before;
  }();
  EXPECT_EQ(used, 0U);
  Gemm gemm(TestCublasLt(), path);
  EXPECT_TRUE(gemm.Measured(shape));
  EXPECT_FALSE(gemm.Measured(kShape));
  const auto before = EmulatedCublasLtCalls();
  gemm.Prepare(shape);
  EXPECT_EQ(EmulatedCublasLtCalls().heuristics, before.heuristics);
}

TEST_F(EmulatedGemmTest, AnAlgorithmOfOneFp8AccumulationNeverServesTheOther) {
  const std::filesystem::path path = FreshPath();
  const DeviceGemmShape accurate{
      .tokens = 8, .outputs = 64, .inputs = 48, .input_dtype = DType::kFp8};
  DeviceGemmShape fast = accurate;
  fast.accumulation = Fp8Accumulation::kFast;
  for (const auto& [measured, other] : {std::pair(accurate, fast), std::pair(fast, accurate)}) {
    std::filesystem::remove(path);
    const TestStream stream;
    {
      Gemm gemm(TestCublasLt(), path);
      gemm.Tune(stream.view(), measured);
      gemm.Save();
    }
    Gemm gemm(TestCublasLt(), path);
    EXPECT_TRUE(gemm.Measured(measured));
    EXPECT_FALSE(gemm.Measured(other));
    const auto before = EmulatedCublasLtCalls();
    gemm.Prepare(measured);
    EXPECT_EQ(EmulatedCublasLtCalls().heuristics, before.heuristics);
    gemm.Prepare(other);
    EXPECT_EQ(EmulatedCublasLtCalls().heuristics, before.heuristics + 1);
  }
}

TEST_F(EmulatedGemmTest, CublasLtIsToldOfFastAccumulationWhereItIsAskedFor) {
  constexpr std::int64_t kRows = 16;
  constexpr std::int64_t kInputs = 2048;
  Gemm gemm(TestCublasLt(), "");
  const TestStream stream;
  // Bytes 0x38 and 0x01 are 1 and 2^-9: the sum is 1 and 2047 addends of 2^-18.
  std::vector<std::uint8_t> bytes(kRows * kInputs, 0x01);
  for (std::size_t first = 0; first < bytes.size(); first += std::size_t{kInputs}) {
    bytes[first] = 0x38;
  }
  const OnDevice<std::uint8_t> values(bytes);
  const OnDevice<float> scales(std::vector<float>(kRows, 1.0F));
  const OnDevice<float> y(kRows * kRows);
  const ScaledMatrix rows{DenseDeviceMatrix(values.data(), DType::kFp8, kRows, kInputs),
                          scales.data()};
  const auto product = [&](Fp8Accumulation accumulation) {
    gemm.MultiplyScaled(stream.view(), rows, rows,
                        DenseDeviceMatrix(y.data(), DType::kFp32, kRows, kRows), accumulation);
    stream.Wait();
    return y.Get()[0];
  };
  const auto before = EmulatedCublasLtCalls();
  EXPECT_EQ(product(Fp8Accumulation::kAccurate), 1 + 2047 * 0x1p-18F);
  EXPECT_EQ(EmulatedCublasLtCalls().fast_products, before.fast_products);
  // The first instruction adds 31 of them to 1, which are lost, being less than 2^-13; each of the
  // other 63 adds 32.
  EXPECT_EQ(product(Fp8Accumulation::kFast), 1 + 63 * 0x1p-13F);
  EXPECT_EQ(EmulatedCublasLtCalls().fast_products, before.fast_products + 1);
}

TEST_F(EmulatedGemmTest, Fp8ProductsAreADeviceErrorWhereThereAreNone) {
  const DeviceGemmShape shape{.tokens = 8, .outputs = 64, .inputs = 48, .input_dtype = DType::kFp8};
  Gemm(TestCublasLt(), "").Prepare(shape);
  DeviceGemmShape odd = shape;
  odd.inputs = 40;
  EXPECT_THAT([&] { Gemm(TestCublasLt(), "").Prepare(odd); },
              ThrowsMessage<DeviceError>(HasSubstr("NOT_SUPPORTED")));
  cuda_emulation::ResetDevice({.compute_capability = 89});
  EXPECT_THAT([&] { Gemm(TestCublasLt(), "").Prepare(shape); },
              ThrowsMessage<DeviceError>(HasSubstr("choosing a GEMM algorithm")));
}

TEST_F(EmulatedGemmTest, AFailedProductNamesTheStatus) {
  Gemm gemm(TestCublasLt(), "");
  std::vector<std::uint16_t> host(4096);
  const TestStream stream;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return DenseDeviceMatrix(host.data(), DType::kBf16, rows, columns);
  };
  if (reinterpret_cast<std::uintptr_t>(host.data()) % 16 != 0) GTEST_SKIP() << "not aligned";
  EXPECT_THAT([&] { gemm.Multiply(stream.view(), matrix(8, 16), matrix(8, 16), matrix(8, 8)); },
              ThrowsMessage<DeviceError>(HasSubstr("CUBLAS_STATUS_EXECUTION_FAILED")));
}

}  // namespace
}  // namespace twin::kernels::cuda
