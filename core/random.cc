#include "core/random.h"

#include <algorithm>

#include "core/check.h"
#include "core/hash.h"

namespace twin {
namespace {

__extension__ using Wide = unsigned __int128;

// expm1(x)/x and log1p(x)/x, continuous at zero.
double ExpRatio(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1.0 + x / 2; }
double LogRatio(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1.0 - x / 2; }

}  // namespace

std::uint64_t NextSplitMix64(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

Random::Random(std::uint64_t seed, std::string_view stream) {
  std::uint64_t filler = MixWords(seed, HashText(stream));
  for (std::uint64_t& word : state_) word = NextSplitMix64(filler);
}

Random Random::FromState(const std::array<std::uint64_t, 4>& state) {
  CHECK(state != (std::array<std::uint64_t, 4>{}));
  Random random;
  random.state_ = state;
  return random;
}

std::int64_t Random::UniformInt(std::int64_t low, std::int64_t high) {
  CHECK(low <= high);
  const std::uint64_t range =
      static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;  // 0 means 2^64
  if (range == 0) return static_cast<std::int64_t>(Next());
  Wide product = static_cast<Wide>(Next()) * range;
  if (static_cast<std::uint64_t>(product) < range) {
    const std::uint64_t threshold = (0 - range) % range;
    while (static_cast<std::uint64_t>(product) < threshold) {
      product = static_cast<Wide>(Next()) * range;
    }
  }
  const auto offset = static_cast<std::uint64_t>(product >> 64);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

double Random::Normal() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  double u = 0;
  double v = 0;
  double square = 0;
  do {
    u = 2 * UnitReal() - 1;
    v = 2 * UnitReal() - 1;
    square = u * u + v * v;
  } while (square >= 1 || square == 0);
  const double factor = std::sqrt(-2 * std::log(square) / square);
  spare_normal_ = v * factor;
  has_spare_normal_ = true;
  return u * factor;
}

double Random::Gamma(double shape, double scale) {
  CHECK(shape > 0);
  double boost = 1;
  if (shape < 1) {
    boost = std::pow(1.0 - UnitReal(), 1.0 / shape);
    shape += 1;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = Normal();
    const double root = 1.0 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1.0 - UnitReal();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v * boost * scale;
  }
}

ZipfDistribution::ZipfDistribution(std::int64_t size, double exponent)
    : size_(size), exponent_(exponent) {
  CHECK(size >= 1);
  CHECK(exponent >= 0);
  integral_first_ = Integral(1.5) - 1.0;
  integral_last_ = Integral(static_cast<double>(size) + 0.5);
  threshold_ = 2.0 - IntegralInverse(Integral(2.5) - Density(2.0));
}

std::int64_t ZipfDistribution::Draw(Random& random) const {
  while (true) {
    const double u = integral_last_ + random.UnitReal() * (integral_first_ - integral_last_);
    const double x = IntegralInverse(u);
    const double rounded = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(size_));
    if (rounded - x <= threshold_ || u >= Integral(rounded + 0.5) - Density(rounded)) {
      return static_cast<std::int64_t>(rounded);
    }
  }
}

double ZipfDistribution::Integral(double x) const {
  const double log_x = std::log(x);
  return ExpRatio((1.0 - exponent_) * log_x) * log_x;
}

double ZipfDistribution::IntegralInverse(double x) const {
  const double t = std::max(x * (1.0 - exponent_), -1.0);
  return std::exp(LogRatio(t) * x);
}

double ZipfDistribution::Density(double x) const { return std::exp(-exponent_ * std::log(x)); }

QuantileDistribution::QuantileDistribution(std::span<const double> probabilities,
                                           std::span<const double> values)
    : probabilities_(probabilities.begin(), probabilities.end()),
      values_(values.begin(), values.end()) {
  CHECK(!probabilities_.empty());
  CHECK(probabilities_.size() == values_.size());
  CHECK(probabilities_.front() >= 0 && probabilities_.back() <= 1);
  CHECK(std::adjacent_find(probabilities_.begin(), probabilities_.end(), std::greater_equal<>()) ==
        probabilities_.end());
  CHECK(std::is_sorted(values_.begin(), values_.end()));
}

double QuantileDistribution::At(double u) const {
  const auto above = std::upper_bound(probabilities_.begin(), probabilities_.end(), u);
  if (above == probabilities_.begin()) return values_.front();
  if (above == probabilities_.end()) return values_.back();
  const auto i = static_cast<std::size_t>(above - probabilities_.begin());
  const double part = (u - probabilities_[i - 1]) / (probabilities_[i] - probabilities_[i - 1]);
  return values_[i - 1] + part * (values_[i] - values_[i - 1]);
}

WeightedChoice::WeightedChoice(std::span<const double> weights) {
  CHECK(!weights.empty());
  double sum = 0;
  cumulative_.reserve(weights.size());
  for (const double weight : weights) {
    CHECK(weight >= 0 && std::isfinite(weight));
    cumulative_.push_back(sum += weight);
  }
  CHECK(sum > 0 && std::isfinite(sum));
}

std::size_t WeightedChoice::Draw(Random& random) const {
  if (cumulative_.size() == 1) return 0;
  const double target = random.UnitReal() * cumulative_.back();
  const auto above = std::upper_bound(cumulative_.begin(), cumulative_.end(), target);
  // Rounding may give target == sum, which selects the last index with positive weight.
  const auto last = std::lower_bound(cumulative_.begin(), cumulative_.end(), cumulative_.back());
  return static_cast<std::size_t>(std::min(above, last) - cumulative_.begin());
}

Duration DrawDuration(const DurationDistribution& config, Random& random) {
  constexpr double kLongestSeconds = 4e9;
  const double mean = Seconds(config.mean);
  double seconds = mean;
  if (config.kind == DurationDistribution::Kind::kExponential) seconds = random.Exponential(mean);
  if (config.kind == DurationDistribution::Kind::kLogNormal && mean > 0) {
    const double variance = std::log1p(config.cv * config.cv);
    seconds = random.LogNormal(std::log(mean) - variance / 2, std::sqrt(variance));
  }
  return DurationFromSeconds(std::min(seconds, kLongestSeconds));
}

}  // namespace twin
