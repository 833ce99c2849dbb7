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
  std::uint64_t position = 0;  // of the token in its sequence: the counter of the random numbers
};

// The index of the largest logit; the lowest of equal ones. NaN never wins over a number.
// REQUIRES: not empty.
std::int32_t Argmax(std::span<const float> logits);

// Natural logarithm of the softmax probability of `token`, summed in double.
double LogProbability(std::span<const float> logits, std::int32_t token);

// Temperature, then top_k, then top_p among what is left (the most likely first; of equal logits
// the lowest token). Of the tokens that are kept, the one with the largest GumbelScore of (seed,
// position, token): a sample of their softmax that depends on logits and parameters alone, bit for
// bit whatever the processor or device. NaN is a logit below all others.
//
// Error     probabilities as in exact arithmetic up to 1e-4 of each and 2^-31 of all; where top_p
//           cuts, up to 1e-5 of the total.
// Cost      temperature alone: one pass, about 1 ns a token; top_k and top_p: a partial sort.
// REQUIRES  temperature >= 0; top_k >= 0; 0 < top_p <= 1; not empty, at most 2^23 tokens.
std::int32_t SampleToken(std::span<const float> logits, const SamplingParameters& parameters);

// tokens[i] = SampleToken(logits[i], parameters[i]), rows in parallel.
void SampleTokens(ThreadPool& pool, MatrixView<const float> logits,
                  std::span<const SamplingParameters> parameters, std::span<std::int32_t> tokens);

}  // namespace twin::kernels
