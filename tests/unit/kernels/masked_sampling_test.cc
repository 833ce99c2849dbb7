// Tokens that may not be chosen yet.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/sampling.h"

namespace twin::kernels {
namespace {

// Until its position the choice is that of logits in which masked tokens are NaN.
TEST(MaskedSamplingTest, MaskedTokensAreNotChosenBeforeTheirPosition) {
  const std::vector<float> logits = {4, 9, 1, 8, 2};
  SamplingParameters parameters{.masked_count = 2, .unmasked_from = 3, .masked = {1, 3}};
  const std::array<std::int32_t, 5> greedy = {0, 0, 0, 1, 1};
  for (std::uint64_t position = 0; position < greedy.size(); ++position) {
    parameters.position = position;
    EXPECT_EQ(SampleToken(logits, parameters), greedy[position]) << position;
  }
  std::vector<float> rest = logits;
  rest[1] = rest[3] = std::numeric_limits<float>::quiet_NaN();
  for (const SamplingParameters& drawn : {SamplingParameters{.temperature = 3},
                                          {.temperature = 3, .top_k = 2},
                                          {.temperature = 3, .top_p = 0.9F},
                                          {.temperature = 3, .min_p = 0.1F}}) {
    for (std::uint64_t position = 0; position < 40; ++position) {
      SamplingParameters masked = drawn;
      masked.position = position;
      const SamplingParameters unmasked = masked;
      masked.masked_count = 2;
      masked.unmasked_from = 20;
      masked.masked[0] = 3;
      masked.masked[1] = 1;
      EXPECT_EQ(SampleToken(logits, masked), SampleToken(position < 20 ? rest : logits, unmasked));
    }
  }
}

}  // namespace
}  // namespace twin::kernels
