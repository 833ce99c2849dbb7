#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/check.h"
#include "core/hash.h"
#include "kernels/gumbel.h"
#include "kernels/sampling.h"
#include "kernels/top_logits.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

// Candidates are sorted only as far as they are needed, because a nucleus is usually far smaller
// than the vocabulary. The first sort covers at least this many.
constexpr std::size_t kFirstSorted = 64;
constexpr std::size_t kTokensMax = std::size_t{1} << 23;

struct Candidate {
  std::uint32_t order;  // OrderedBits of the logit
  float logit;
  std::int32_t token;
};

bool MoreLikely(const Candidate& a, const Candidate& b) {
  return a.order != b.order ? a.order > b.order : a.token < b.token;
}

// Sorts candidates lazily. The first `sorted_` are in descending order and rank above all further
// candidates.
class Ranking {
 public:
  // Ranks the logits whose OrderedBits are at least `lowest`.
  explicit Ranking(std::span<const float> logits, std::uint32_t lowest = 0) {
    if (lowest == 0) candidates_.reserve(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const std::uint32_t order = OrderedBits(logits[i]);
      if (order < lowest) continue;
      candidates_.push_back({order, logits[i], static_cast<std::int32_t>(i)});
    }
  }

  // Removes all but the `count` most likely candidates.
  void Keep(std::size_t count) {
    if (count >= candidates_.size()) return;
    SortFirst(count);
    candidates_.resize(count);
  }

  [[nodiscard]] std::size_t size() const { return candidates_.size(); }
  // Ordered by token until the first call of Keep or At, which may reorder them.
  [[nodiscard]] const std::vector<Candidate>& candidates() const { return candidates_; }

  const Candidate& At(std::size_t rank) {
    if (rank >= sorted_) SortFirst(std::max({rank + 1, kFirstSorted, sorted_ * 4}));
    return candidates_[rank];
  }

 private:
  void SortFirst(std::size_t count) {
    count = std::min(count, candidates_.size());
    if (count <= sorted_) return;
    const auto from = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto to = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(from, to - 1, candidates_.end(), MoreLikely);
    std::sort(from, to, MoreLikely);
    sorted_ = count;
  }

  std::vector<Candidate> candidates_;
  std::size_t sorted_ = 0;
};

// Log-probabilities of a row whose weights add up to `weights`.
class LogprobScale {
 public:
  LogprobScale(std::uint64_t weights, float largest)
      : largest_(largest),
        log_sum_(std::log(static_cast<double>(weights) / static_cast<double>(kLargestWeight))) {}

  [[nodiscard]] float Of(float logit) const {
    if (std::isnan(logit)) return -std::numeric_limits<float>::infinity();
    // The difference of equal infinities would be NaN.
    const double below =
        logit == largest_ ? 0 : static_cast<double>(logit) - static_cast<double>(largest_);
    return static_cast<float>(below - log_sum_);
  }

 private:
  float largest_;
  double log_sum_;
};

const VectorKernels& Kernels() {
  static const VectorKernels& kernels = KernelsFor(BestInstructionSet());
  return kernels;
}

struct KeptCandidates {
  std::vector<float> logits;
  std::vector<std::int32_t> tokens;

  void Add(const Candidate& candidate) {
    logits.push_back(candidate.logit);
    tokens.push_back(candidate.token);
  }
};

// The nucleus: the fewest candidates whose weights reach top_p of the total.
void KeepNucleus(const VectorKernels& kernels, Ranking& ranking, float largest, float sharpness,
                 float top_p, KeptCandidates& kept) {
  std::vector<float> all;
  all.reserve(ranking.size());
  for (const Candidate& candidate : ranking.candidates()) all.push_back(candidate.logit);
  const std::uint64_t total =
      kernels.sum_of_weights(all.data(), static_cast<std::int64_t>(all.size()), largest, sharpness);
  const std::uint64_t enough = CeilShare(top_p, total);
  std::uint64_t reached = 0;
  for (std::size_t rank = 0; rank < ranking.size() && reached < enough; ++rank) {
    reached += WeightOf(ranking.At(rank).logit, largest, sharpness);
    kept.Add(ranking.At(rank));
  }
}

// The logits, but NaN for masked tokens.
std::vector<float> WithoutMasked(std::span<const float> logits,
                                 const SamplingParameters& parameters) {
  std::vector<float> rest(logits.begin(), logits.end());
  for (const std::int32_t token :
       std::span(parameters.masked).first(static_cast<std::size_t>(parameters.masked_count))) {
    rest.at(static_cast<std::size_t>(token)) = std::numeric_limits<float>::quiet_NaN();
  }
  return rest;
}

}  // namespace

std::int32_t Argmax(std::span<const float> logits) {
  CHECK(!logits.empty());
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  }
  return static_cast<std::int32_t>(best);
}

void AppendLogprobs(std::span<const float> logits, std::int32_t token, std::int32_t alternatives,
                    std::vector<TokenLogprob>& out) {
  CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size() && alternatives >= 0);
  CHECK(logits.size() <= kTokensMax);
  const float largest = logits[static_cast<std::size_t>(Argmax(logits))];
  const LogprobScale scale(
      Kernels().sum_of_weights(logits.data(), static_cast<std::int64_t>(logits.size()), largest, 1),
      largest);
  out.push_back({token, scale.Of(logits[static_cast<std::size_t>(token)])});
  if (alternatives == 0) return;
  Ranking ranking(logits);
  ranking.Keep(static_cast<std::size_t>(alternatives));
  for (std::size_t rank = 0; rank < ranking.size(); ++rank) {
    out.push_back({ranking.At(rank).token, scale.Of(ranking.At(rank).logit)});
  }
}

void AppendLogprobs(const TopLogits& logits, std::int32_t token, std::vector<TokenLogprob>& out) {
  const LogprobScale scale(logits.weights, logits.largest);
  out.push_back({token, scale.Of(logits.chosen)});
  for (std::int32_t i = 0; i < logits.count; ++i) {
    out.push_back({logits.top[i].token, scale.Of(logits.top[i].logit)});
  }
}

std::int32_t SampleToken(std::span<const float> logits, const SamplingParameters& parameters) {
  CHECK(parameters.temperature >= 0 && parameters.top_k >= 0);
  CHECK(parameters.top_p > 0 && parameters.top_p <= 1);
  CHECK(parameters.min_p >= 0 && parameters.min_p <= 1);
  CHECK(!logits.empty() && logits.size() <= kTokensMax);
  if (parameters.masked_count > 0 && parameters.position < parameters.unmasked_from) {
    CHECK(parameters.masked_count <= kMaskedTokensMax);
    SamplingParameters unmasked = parameters;
    unmasked.masked_count = 0;
    return SampleToken(WithoutMasked(logits, parameters), unmasked);
  }
  if (parameters.temperature == 0 || parameters.top_k == 1) return Argmax(logits);
  const VectorKernels& kernels = Kernels();
  const GumbelRow row =
      GumbelRowOf(MixWords(parameters.seed, parameters.position), parameters.temperature);
  const auto size = static_cast<std::int64_t>(logits.size());
  const auto top_k = static_cast<std::size_t>(parameters.top_k);
  const bool cuts_k = top_k > 0 && top_k < logits.size();
  if (!cuts_k && parameters.top_p == 1 && parameters.min_p == 0) {
    return static_cast<std::int32_t>(kernels.gumbel_choice(row, logits.data(), nullptr, size));
  }

  const float largest = logits[static_cast<std::size_t>(Argmax(logits))];
  std::uint32_t lowest = 0;
  if (parameters.min_p > 0 && !std::isnan(largest)) {
    lowest = OrderedBits(kernels.lowest_of_weight(logits.data(), size, largest, row.sharpness,
                                                  CeilShare(parameters.min_p, kLargestWeight)));
  }
  Ranking ranking(logits, lowest);
  if (cuts_k) ranking.Keep(top_k);
  KeptCandidates kept;
  if (parameters.top_p < 1) {
    KeepNucleus(kernels, ranking, largest, row.sharpness, parameters.top_p, kept);
  } else {
    for (const Candidate& candidate : ranking.candidates()) kept.Add(candidate);
  }
  const std::int64_t best = kernels.gumbel_choice(row, kept.logits.data(), kept.tokens.data(),
                                                  static_cast<std::int64_t>(kept.tokens.size()));
  return kept.tokens[static_cast<std::size_t>(best)];
}

void SampleTokens(ThreadPool& pool, MatrixView<const float> logits,
                  std::span<const SamplingParameters> parameters, std::span<std::int32_t> tokens) {
  CHECK(static_cast<std::int64_t>(parameters.size()) == logits.rows);
  CHECK(parameters.size() == tokens.size());
  pool.ParallelFor(logits.rows, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto i = static_cast<std::size_t>(row);
      tokens[i] =
          SampleToken({logits.Row(row), static_cast<std::size_t>(logits.columns)}, parameters[i]);
    }
  });
}

}  // namespace twin::kernels
