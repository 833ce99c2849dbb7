// Norms on a device against those of the CPU.
#include <gtest/gtest.h>

#include "kernels/cuda/norm.h"
#include "kernels/norm.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

using CudaNormTest = DeviceRowsTest;

constexpr float kEpsilon = 1e-5F;

struct Size {
  std::int64_t rows = 0;
  std::int64_t hidden = 0;
  std::int64_t gap = 0;
};

// Packs in one to four registers of a thread and in none, odd widths, rows apart.
constexpr Size kSizes[] = {{1, 8, 0},    {3, 7, 0},     {2, 1, 0},     {5, 64, 0},
                           {3, 64, 8},   {3, 64, 3},    {2, 4096, 0},  {1, 8192, 0},
                           {1, 9000, 0}, {1, 20000, 0}, {1, 40000, 0}, {2, 2051, 0}};

struct Weights {
  Weights(Random& random, std::int64_t hidden)
      : gain(RandomNumbersOf(random, hidden)),
        bias(RandomNumbersOf(random, hidden)),
        device_gain(gain),
        device_bias(bias) {}

  [[nodiscard]] DeviceNorm Norm(NormKind kind) const {
    return {kind, device_gain.data(), kind == NormKind::kLayerNorm ? device_bias.data() : nullptr,
            kEpsilon};
  }
  void OnHost(ThreadPool& pool, NormKind kind, MatrixView<const float> x,
              MatrixView<float> y) const {
    if (kind == NormKind::kRmsNorm) {
      RmsNorm(pool, x, gain, kEpsilon, y);
    } else {
      LayerNorm(pool, x, gain, bias, kEpsilon, y);
    }
  }

  std::vector<float> gain;
  std::vector<float> bias;
  OnDevice<float> device_gain;
  OnDevice<float> device_bias;
};

TEST_F(CudaNormTest, AgreesWithTheCpu) {
  for (const NormKind kind : {NormKind::kRmsNorm, NormKind::kLayerNorm}) {
    for (const Size& size : kSizes) {
      TestRows x(DType::kBf16, size.rows, size.hidden, size.gap);
      TestRows y(DType::kBf16, size.rows, size.hidden, size.gap);
      x.Draw(random_, 3, kind == NormKind::kLayerNorm ? 10 : 0);
      const Weights weights(random_, size.hidden);
      Normalize(stream_.view(), x.matrix(), weights.Norm(kind), y.matrix());
      HostRows expected(x);
      weights.OnHost(pool_, kind, expected.view(), expected.view());
      const auto at = [&](auto i, auto j) { return expected.At(i, j); };
      y.Expect(at, 0.51, 1e-4);
      Normalize(stream_.view(), x.matrix(), weights.Norm(kind), x.matrix());  // in place
      x.Expect(at, 0.51, 1e-4);
    }
  }
}

TEST_F(CudaNormTest, AddsWhatIsScaledAndNormalisesTheRoundedSum) {
  for (const NormKind kind : {NormKind::kRmsNorm, NormKind::kLayerNorm}) {
    for (const bool has_bias : {false, true}) {
      for (const Size& size : kSizes) {
        TestRows residual(DType::kBf16, size.rows, size.hidden, size.gap);
        TestRows delta(DType::kBf16, size.rows, size.hidden);
        residual.Draw(random_);
        delta.Draw(random_);
        const Weights weights(random_, size.hidden);
        const std::vector<float> bias = RandomNumbersOf(random_, size.hidden);
        const OnDevice<float> device_bias(bias);
        const DeviceSummand summand{delta.matrix(), has_bias ? device_bias.data() : nullptr, 0.5F};
        HostRows sum(residual);
        for (std::int64_t i = 0; i < size.rows; ++i) {
          for (std::int64_t j = 0; j < size.hidden; ++j) {
            const float added = has_bias ? bias[static_cast<std::size_t>(j)] : 0;
            sum.view().Row(i)[j] += 0.5F * (delta.At(i, j) + added);
          }
        }
        AddNormalize(stream_.view(), summand, weights.Norm(kind), residual.matrix(),
                     delta.matrix());
        residual.Expect([&](auto i, auto j) { return sum.At(i, j); }, 0.51, 1e-6);
        HostRows expected(residual);  // the rounded sums
        weights.OnHost(pool_, kind, expected.view(), expected.view());
        delta.Expect([&](auto i, auto j) { return expected.At(i, j); }, 0.51, 1e-4);
      }
    }
  }
}

TEST_F(CudaNormTest, AddIsTheSumAlone) {
  for (const Size& size : kSizes) {
    TestRows residual(DType::kBf16, size.rows, size.hidden, size.gap);
    TestRows delta(DType::kBf16, size.rows, size.hidden, 8);
    residual.Draw(random_);
    delta.Draw(random_);
    const std::vector<float> bias = RandomNumbersOf(random_, size.hidden);
    const OnDevice<float> device_bias(bias);
    const HostRows before(residual);
    Add(stream_.view(), {delta.matrix(), device_bias.data(), 2}, residual.matrix());
    residual.Expect(
        [&](auto i, auto j) {
          return before.At(i, j) + 2 * (delta.At(i, j) + bias[static_cast<std::size_t>(j)]);
        },
        0.51, 1e-6);
  }
}

TEST_F(CudaNormTest, NoRowsAreNoWork) {
  const Weights weights(random_, 8);
  const DeviceMatrix none = DenseDeviceMatrix(nullptr, DType::kBf16, 0, 8);
  Normalize(stream_.view(), none, weights.Norm(NormKind::kRmsNorm), none);
  Add(stream_.view(), {none, nullptr, 1}, none);
  stream_.Wait();
}

}  // namespace
}  // namespace twin::kernels::cuda
