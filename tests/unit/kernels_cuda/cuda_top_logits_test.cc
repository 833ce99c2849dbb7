// Log-probabilities from what a device tells of a row: the CPU's, to the last bit.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cuda/top_logits.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::int32_t kNotAsked = -1;

std::uint32_t Bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

class CudaTopLogitsTest : public testing::Test {
 protected:
  // Row i asks for asked[i] alternatives and has chosen token i, modulo the vocabulary.
  void ExpectCpusLogprobs(const TestRows& logits, const std::vector<std::int32_t>& asked) {
    std::vector<SamplingParameters> parameters;
    std::vector<std::int32_t> chosen = {-1, -1};
    for (std::size_t i = 0; i < asked.size(); ++i) {
      parameters.push_back({.logprobs = asked[i]});
      chosen.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) % logits.columns()));
    }
    const OnDevice<SamplingParameters> device_parameters(parameters);
    const OnDevice<std::int32_t> first(std::vector<std::int32_t>{2});
    const OnDevice<std::int32_t> tokens(chosen);
    const OnDevice<TopLogits> found(asked.size());
    FindTopLogits(stream_.view(), logits.matrix(), device_parameters.data(), first.data(),
                  tokens.data(), found.data());
    const std::vector<TopLogits> got = found.Get();
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (asked[i] == kNotAsked) {
        EXPECT_EQ(got[i].count, -1) << "row " << i << " was written";
        continue;
      }
      std::vector<float> row;
      for (std::int64_t j = 0; j < logits.columns(); ++j) {
        row.push_back(logits.At(static_cast<std::int64_t>(i), j));
      }
      std::vector<TokenLogprob> expected;
      AppendLogprobs(row, chosen[i + 2], asked[i], expected);
      std::vector<TokenLogprob> told;
      AppendLogprobs(got[i], chosen[i + 2], told);
      ASSERT_EQ(told.size(), expected.size());
      for (std::size_t k = 0; k < told.size(); ++k) {
        EXPECT_EQ(told[k].token, expected[k].token) << "row " << i << ", place " << k;
        EXPECT_EQ(Bits(told[k].logprob), Bits(expected[k].logprob)) << "row " << i << ", " << k;
      }
    }
  }

  Random random_{5, "top logits"};
  TestStream stream_;
};

const std::vector<std::int32_t> kAsked = {0, kNotAsked, 1, 5, kTopLogitsMax, kNotAsked};

// Rows whose logits lie in packs, and rows whose logits do not.
TEST_F(CudaTopLogitsTest, AreTheCpus) {
  for (const std::int64_t vocab : {1, 7, 31, 5003, 40'000}) {
    TestRows logits(DType::kFp32, static_cast<std::int64_t>(kAsked.size()), vocab, vocab % 4);
    logits.Draw(random_, 9);
    ExpectCpusLogprobs(logits, kAsked);
  }
}

TEST_F(CudaTopLogitsTest, OfEqualLogitsTheLowestTokenComesFirst) {
  TestRows logits(DType::kFp32, static_cast<std::int64_t>(kAsked.size()), 300);
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    for (std::int64_t j = 0; j < 300; ++j) {
      logits.Set(i, j, static_cast<float>(random_.UniformInt(-1, 1)) * (i % 3 == 0 ? -0.0F : 0.5F));
    }
  }
  logits.Send();
  ExpectCpusLogprobs(logits, kAsked);
}

TEST_F(CudaTopLogitsTest, OfInfiniteLogitsAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> rows = {{kNan, kInfinity, 1, kInfinity},
                                                {kNan, kNan, kNan, kNan},
                                                {-kInfinity, -kInfinity, kNan, -kInfinity},
                                                {-kInfinity, 3, 2.5F, kNan}};
  TestRows logits(DType::kFp32, 4, 4);
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      logits.Set(i, j, rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]);
    }
  }
  logits.Send();
  ExpectCpusLogprobs(logits, {4, 4, 4, 4});
}

}  // namespace
}  // namespace twin::kernels::cuda
