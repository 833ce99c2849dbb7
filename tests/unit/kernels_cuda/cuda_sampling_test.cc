// Sampling on a device: the CPU's tokens, all of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cuda/sampling.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

class CudaSamplingTest : public testing::Test {
 protected:
  // Samples each row with its parameters on the device and on the CPU.
  void ExpectSameTokens(TestRows& logits, const std::vector<SamplingParameters>& parameters) {
    const OnDevice<SamplingParameters> device_parameters(parameters);
    const OnDevice<std::int32_t> first(std::vector<std::int32_t>{3});
    const OnDevice<std::int32_t> tokens(parameters.size() + 5);
    SampleTokens(stream_.view(), logits.matrix(), device_parameters.data(), first.data(),
                 tokens.data());
    const std::vector<std::int32_t> got = tokens.Get();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (i < 3 || i >= parameters.size() + 3) {
        EXPECT_EQ(got[i], -1);
        continue;
      }
      std::vector<float> row;
      for (std::int64_t j = 0; j < logits.columns(); ++j) {
        row.push_back(logits.At(static_cast<std::int64_t>(i) - 3, j));
      }
      const SamplingParameters& each = parameters[i - 3];
      EXPECT_EQ(got[i], SampleToken(row, each))
          << "row " << i - 3 << " of " << logits.columns() << ": temperature " << each.temperature
          << " top_k " << each.top_k << " top_p " << each.top_p << " min_p " << each.min_p;
    }
  }

  // Greedy, and every combination of temperature, top_k and top_p, every other one with min_p, with
  // seeds of their own.
  static std::vector<SamplingParameters> Combinations(std::int32_t vocab) {
    std::vector<SamplingParameters> all = {{}};
    for (const float temperature : {0.6F, 1.3F}) {
      for (const std::int32_t top_k : {0, 1, 7, vocab - 1, vocab + 5}) {
        for (const float top_p : {1.0F, 0.9F, 1e-6F}) {
          all.push_back({.temperature = temperature,
                         .top_k = top_k,
                         .top_p = top_p,
                         .min_p = all.size() % 2 == 0 ? 0 : 0.2F,
                         .seed = all.size() * 7919,
                         .position = all.size() % 5});
        }
      }
    }
    return all;
  }

  Random random_{9, "sampling"};
  TestStream stream_;
};

TEST_F(CudaSamplingTest, ChoosesTheCpusTokens) {
  for (const std::int32_t vocab : {1, 31, 5003}) {
    const std::vector<SamplingParameters> parameters = Combinations(vocab);
    TestRows logits(DType::kFp32, static_cast<std::int64_t>(parameters.size()), vocab, vocab % 4);
    logits.Draw(random_, 2);
    ExpectSameTokens(logits, parameters);
  }
}

// Few distinct logits: cuts fall between equal ones, of which the lowest tokens are kept.
TEST_F(CudaSamplingTest, CutsBetweenEqualLogitsWhereTheCpuDoes) {
  constexpr std::int32_t kVocab = 300;
  const std::vector<SamplingParameters> parameters = Combinations(kVocab);
  TestRows logits(DType::kFp32, static_cast<std::int64_t>(parameters.size()), kVocab);
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    for (std::int64_t j = 0; j < kVocab; ++j) {
      logits.Set(i, j, static_cast<float>(random_.UniformInt(-1, 1)) * (i % 3 == 0 ? -0.0F : 0.5F));
    }
  }
  logits.Send();
  ExpectSameTokens(logits, parameters);
}

TEST_F(CudaSamplingTest, TakesInfiniteLogitsAndNanAsTheCpuDoes) {
  constexpr std::int32_t kVocab = 40;
  const float infinity = std::numeric_limits<float>::infinity();
  const float odd[] = {std::numeric_limits<float>::quiet_NaN(), -infinity, 1, 2, infinity};
  const std::vector<SamplingParameters> parameters = Combinations(kVocab);
  TestRows logits(DType::kFp32, static_cast<std::int64_t>(parameters.size()), kVocab);
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    for (std::int64_t j = 0; j < kVocab; ++j) {
      // Rows of NaN alone, of -infinity and NaN, and so on.
      logits.Set(i, j, odd[random_.UniformInt(0, i % 5)]);
    }
  }
  logits.Send();
  ExpectSameTokens(logits, parameters);
}

// Every other row masks the tokens that it would choose first, and every fourth one no longer does.
TEST_F(CudaSamplingTest, MasksTokensAsTheCpuDoesAndLeavesTheirLogits) {
  for (const std::int32_t vocab : {9, 5003}) {
    std::vector<SamplingParameters> parameters = Combinations(vocab);
    TestRows logits(DType::kFp32, static_cast<std::int64_t>(parameters.size()), vocab, vocab % 4);
    logits.Draw(random_, 2);
    for (std::size_t i = 0; i < parameters.size(); i += 2) {
      SamplingParameters& each = parameters[i];
      each.unmasked_from = each.position + (i % 4 == 0 ? 1 : 0);
      each.masked_count = kMaskedTokensMax;
      for (std::int32_t token = 0; token < kMaskedTokensMax; ++token) {
        each.masked[token] = vocab - 1 - token;
        logits.Set(static_cast<std::int64_t>(i), vocab - 1 - token, 50.0F);
      }
    }
    logits.Send();
    const std::vector<float> before = logits.Values();
    ExpectSameTokens(logits, parameters);
    logits.Fetch();
    EXPECT_EQ(logits.Values(), before);
  }
}

// Thousands of candidates that differ in their last bits alone, and candidates of all magnitudes.
TEST_F(CudaSamplingTest, CutsAmongLogitsThatAreCloseOrFarApartWhereTheCpuDoes) {
  constexpr std::int32_t kVocab = 5003;
  const std::vector<SamplingParameters> parameters = Combinations(kVocab);
  for (const bool close : {true, false}) {
    TestRows logits(DType::kFp32, static_cast<std::int64_t>(parameters.size()), kVocab);
    for (std::int64_t i = 0; i < logits.rows(); ++i) {
      for (std::int64_t j = 0; j < kVocab; ++j) {
        const auto drawn = static_cast<int>(random_.UniformInt(-1000, 1000));
        const float far = std::ldexp(drawn < 0 ? -1.0F : 1.0F, std::abs(drawn) % 250 - 125);
        logits.Set(i, j, close ? 12.0F + static_cast<float>(drawn) * 0x1p-20F : far);
      }
    }
    logits.Send();
    ExpectSameTokens(logits, parameters);
  }
}

TEST_F(CudaSamplingTest, ALargeVocabularyOfRealSize) {
  const std::vector<SamplingParameters> parameters = {
      {},
      {.temperature = 1, .seed = 1},
      {.temperature = 0.8F, .top_p = 0.9F, .seed = 2},
      {.temperature = 0.8F, .top_k = 50, .top_p = 0.9F, .seed = 3},
      {.temperature = 1.5F, .min_p = 1e-3F, .seed = 4}};
  TestRows logits(DType::kFp32, 5, 128256);
  logits.Draw(random_, 3);
  ExpectSameTokens(logits, parameters);
}

}  // namespace
}  // namespace twin::kernels::cuda
