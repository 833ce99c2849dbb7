// The choice of the next token from logits.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

struct SamplingParameters {
  float temperature = 0;       // logits are divided by it; 0: the most likely token
  std::int32_t top_k = 0;      // only the k most likely; 0: all
  float top_p = 1;             // of those, the fewest whose probability reaches p; at least one
  std::uint64_t seed = 0;      // of the request
  std::uint64_t position = 0;  // of the token in its sequence: the counter of the random number
};

// The index of the largest logit; the lowest of equal ones. NaN never wins over a number.
// REQUIRES: not empty.
std::int32_t Argmax(std::span<const float> logits);

// Natural logarithm of the softmax probability of `token`, summed in double.
double LogProbability(std::span<const float> logits, std::int32_t token);

// Uniform in [0, 1): a function of its arguments alone.
double UniformAt(std::uint64_t seed, std::uint64_t position);

// Temperature, then top_k, then top_p among what is left; the token where the cumulative
// probability, from the most likely (of equal logits the lowest id first) downwards, exceeds
// UniformAt(seed, position). So a token depends on its logits and parameters alone.
// REQUIRES: temperature >= 0; top_k >= 0; 0 < top_p <= 1.
std::int32_t SampleToken(std::span<const float> logits, const SamplingParameters& parameters);

// tokens[i] = SampleToken(logits[i], parameters[i]), rows in parallel.
void SampleTokens(ThreadPool& pool, MatrixView<const float> logits,
                  std::span<const SamplingParameters> parameters, std::span<std::int32_t> tokens);

}  // namespace twin::kernels
