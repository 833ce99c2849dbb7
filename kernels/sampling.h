// Chooses the next token from logits: greedy or random sampling.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

// The most tokens that a request can mask.
inline constexpr std::int32_t kMaskedTokensMax = 8;

struct SamplingParameters {
  float temperature = 0;   // logits are divided by it; 0 = always the most likely token
  std::int32_t top_k = 0;  // keep only the k most likely tokens; 0 = all
  float top_p = 1;         // keep the fewest tokens whose total probability reaches p; at least one
  float min_p = 0;  // keep tokens with at least this share of the largest probability; 0 = all
  std::uint64_t seed = 0;      // seed of the request
  std::uint64_t position = 0;  // the token's position in its sequence: counter of random numbers
  // The number of most likely tokens to report beside the chosen one, with their log-probabilities;
  // -1: do not report the chosen one's either. Does not affect the choice.
  std::int32_t logprobs = -1;
  // Before position `unmasked_from`, none of the first `masked_count` entries of `masked` is
  // chosen: the output must not end yet. The entries are different tokens of the vocabulary.
  std::int32_t masked_count = 0;
  std::uint64_t unmasked_from = 0;
  std::int32_t masked[kMaskedTokensMax] = {};
};

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;  // natural logarithm of the softmax probability, before temperature and cuts
};

// The index of the largest logit; the lowest index among equals. A number always beats NaN.
// REQUIRES: `logits` is not empty.
std::int32_t Argmax(std::span<const float> logits);

// Appends the log-probability of `token`, then the log-probabilities of the `alternatives` most
// likely tokens, or of all tokens if there are fewer, in descending order (the lowest token first
// among equal logits). Depends only on the logits, on every processor and device. Error: 2e-6.
// REQUIRES: 0 <= token < logits.size() <= 2^23; alternatives >= 0.
void AppendLogprobs(std::span<const float> logits, std::int32_t token, std::int32_t alternatives,
                    std::vector<TokenLogprob>& out);

// Samples a token. Applies temperature, then min_p and top_k, then top_p to the remaining tokens,
// ranked from the most likely on (the lowest token first among equal logits). Of the tokens kept,
// returns the one with the largest GumbelScore of (seed, position, token), which is a sample of
// their softmax. The result depends only on logits and parameters: it is the same on every
// processor and device. NaN counts as a logit below all numbers, and masked tokens have NaN.
//
// Error     probabilities differ from exact arithmetic by at most 1e-4 of each and 2^-31 of the
//           total. The cut of top_p differs by at most 1e-5 of the total, the cut of min_p by 1e-5
//           of the largest probability.
// Cost      temperature alone: one pass, about 1 ns per token; top_k and top_p: a partial sort;
//           min_p: one more pass, and it makes the sort smaller.
//           Masked tokens: a copy of the logits.
// REQUIRES  temperature >= 0; top_k >= 0; 0 < top_p <= 1; 0 <= min_p <= 1; 1 to 2^23 logits;
//           masked tokens as SamplingParameters says.
std::int32_t SampleToken(std::span<const float> logits, const SamplingParameters& parameters);

// tokens[i] = SampleToken(logits[i], parameters[i]); rows run in parallel.
void SampleTokens(ThreadPool& pool, MatrixView<const float> logits,
                  std::span<const SamplingParameters> parameters, std::span<std::int32_t> tokens);

}  // namespace twin::kernels
