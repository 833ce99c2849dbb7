#include <algorithm>
#include <cmath>
#include <vector>

#include "core/check.h"
#include "core/hash.h"
#include "core/random.h"
#include "kernels/sampling.h"

namespace twin::kernels {
namespace {

// Candidates are put in order as far as they are needed: a nucleus is usually far smaller than the
// vocabulary.
constexpr std::size_t kFirstSorted = 64;

struct Candidate {
  float logit;
  std::int32_t token;
};

bool MoreLikely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Candidates whose first `sorted` are in descending order and above all others.
class Ranking {
 public:
  explicit Ranking(std::span<const float> logits) {
    candidates_.reserve(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const float logit = std::isnan(logits[i]) ? -INFINITY : logits[i];
      candidates_.push_back({logit, static_cast<std::int32_t>(i)});
    }
  }

  // Leaves the `count` most likely.
  void Keep(std::size_t count) {
    if (count >= candidates_.size()) return;
    SortFirst(count);
    candidates_.resize(count);
  }

  [[nodiscard]] std::size_t size() const { return candidates_.size(); }
  // By token until Keep or At is called, then no longer.
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

double UniformAt(std::uint64_t seed, std::uint64_t position) {
  std::uint64_t state = MixWords(seed, position);
  return static_cast<double>(NextSplitMix64(state) >> 11) * 0x1.0p-53;
}

std::int32_t SampleToken(std::span<const float> logits, const SamplingParameters& parameters) {
  CHECK(parameters.temperature >= 0 && parameters.top_k >= 0);
  CHECK(parameters.top_p > 0 && parameters.top_p <= 1);
  if (parameters.temperature == 0 || parameters.top_k == 1) return Argmax(logits);
  Ranking ranking(logits);
  if (parameters.top_k > 0) ranking.Keep(static_cast<std::size_t>(parameters.top_k));

  const double temperature = parameters.temperature;
  const double largest = logits[static_cast<std::size_t>(Argmax(logits))];
  const auto weight = [&](const Candidate& candidate) {
    return std::exp((static_cast<double>(candidate.logit) - largest) / temperature);
  };
  double total = 0;
  for (const Candidate& candidate : ranking.candidates()) total += weight(candidate);

  // The nucleus: the fewest candidates whose weight reaches top_p of the total.
  std::size_t kept = ranking.size();
  if (parameters.top_p < 1) {
    const double enough = static_cast<double>(parameters.top_p) * total;
    double reached = 0;
    for (kept = 0; kept < ranking.size() && reached < enough;) {
      reached += weight(ranking.At(kept++));
    }
    total = reached;
  }
  const double target = UniformAt(parameters.seed, parameters.position) * total;
  double reached = 0;
  for (std::size_t rank = 0; rank < kept; ++rank) {
    reached += weight(ranking.At(rank));
    if (reached > target) return ranking.At(rank).token;
  }
  return ranking.At(kept - 1).token;  // rounding left the sum below the total
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
