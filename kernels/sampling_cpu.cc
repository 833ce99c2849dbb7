#include <algorithm>
#include <cmath>
#include <vector>

#include "core/check.h"
#include "core/hash.h"
#include "kernels/gumbel.h"
#include "kernels/sampling.h"
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

// Sorts candidates lazily. The first `sorted_` are in descending order and rank above all others.
class Ranking {
 public:
  explicit Ranking(std::span<const float> logits) {
    candidates_.reserve(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      candidates_.push_back({OrderedBits(logits[i]), logits[i], static_cast<std::int32_t>(i)});
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

}  // namespace

std::int32_t Argmax(std::span<const float> logits) {
  CHECK(!logits.empty());
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  }
  return static_cast<std::int32_t>(best);
}

double LogProbability(std::span<const float> logits, std::int32_t token) {
  CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size());
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) - largest - std::log(sum);
}

std::int32_t SampleToken(std::span<const float> logits, const SamplingParameters& parameters) {
  CHECK(parameters.temperature >= 0 && parameters.top_k >= 0);
  CHECK(parameters.top_p > 0 && parameters.top_p <= 1);
  CHECK(!logits.empty() && logits.size() <= kTokensMax);
  if (parameters.temperature == 0 || parameters.top_k == 1) return Argmax(logits);
  static const VectorKernels& kernels = KernelsFor(BestInstructionSet());
  const GumbelRow row =
      GumbelRowOf(MixWords(parameters.seed, parameters.position), parameters.temperature);
  const auto top_k = static_cast<std::size_t>(parameters.top_k);
  const bool keeps_all = (top_k == 0 || top_k >= logits.size()) && parameters.top_p == 1;
  if (keeps_all) {
    return static_cast<std::int32_t>(kernels.gumbel_choice(
        row, logits.data(), nullptr, static_cast<std::int64_t>(logits.size())));
  }

  Ranking ranking(logits);
  if (top_k > 0) ranking.Keep(top_k);
  std::vector<float> kept_logits;
  std::vector<std::int32_t> kept_tokens;
  const auto keep = [&](const Candidate& candidate) {
    kept_logits.push_back(candidate.logit);
    kept_tokens.push_back(candidate.token);
  };
  if (parameters.top_p < 1) {
    const float largest = logits[static_cast<std::size_t>(Argmax(logits))];
    for (const Candidate& candidate : ranking.candidates()) kept_logits.push_back(candidate.logit);
    const std::uint64_t total = kernels.sum_of_weights(
        kept_logits.data(), static_cast<std::int64_t>(kept_logits.size()), largest, row.sharpness);
    kept_logits.clear();
    // The nucleus: the fewest candidates whose weights reach top_p of the total.
    const std::uint64_t enough = EnoughOf(parameters.top_p, total);
    std::uint64_t reached = 0;
    for (std::size_t rank = 0; rank < ranking.size() && reached < enough; ++rank) {
      reached += WeightOf(ranking.At(rank).logit, largest, row.sharpness);
      keep(ranking.At(rank));
    }
  } else {
    for (const Candidate& candidate : ranking.candidates()) keep(candidate);
  }
  const std::int64_t best = kernels.gumbel_choice(row, kept_logits.data(), kept_tokens.data(),
                                                  static_cast<std::int64_t>(kept_tokens.size()));
  return kept_tokens[static_cast<std::size_t>(best)];
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
