#include "traces/integer_sampler.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/files/csv.h"
#include "traces/trace_limits.h"

namespace twin {
namespace {

// Columns probability and tokens: probabilities increase strictly, tokens never decrease.
QuantileDistribution ReadQuantiles(const std::string& path) {
  CsvTable table(path, {"probability", "tokens"});
  std::vector<double> probabilities;
  std::vector<double> values;
  while (table.Next()) {
    const double p = ParseReal(table.At("probability"), 0, 1);
    const double tokens = ParseReal(table.At("tokens"), 0, kTokensMax);
    if (!probabilities.empty() && p <= probabilities.back()) {
      table.Refuse("probability", "more than the line before");
    }
    if (!values.empty() && tokens < values.back()) {
      table.Refuse("tokens", "no less than the line before");
    }
    probabilities.push_back(p);
    values.push_back(tokens);
  }
  if (values.empty()) table.lines().Refuse("no quantile in the file; allowed: at least one line");
  return {probabilities, values};
}

}  // namespace

IntegerSampler::IntegerSampler(const IntegerDistribution& config)
    : kind_(config.kind), low_(config.min), high_(config.max) {
  using Kind = IntegerDistribution::Kind;
  CHECK(kind_ != Kind::kNone);
  if (kind_ == Kind::kFixed) low_ = high_ = config.value;
  if (kind_ == Kind::kLogNormal) {
    sigma_ = config.sigma;
    mu_ = config.median > 0 ? std::log(config.median)
                            : std::log(config.mean) - config.sigma * config.sigma / 2;
  }
  if (kind_ == Kind::kZipf) zipf_.emplace(high_ - low_ + 1, config.exponent);
  if (kind_ == Kind::kEmpirical) {
    quantiles_ = config.path.empty() ? QuantileDistribution(config.probabilities, config.values)
                                     : ReadQuantiles(config.path);
  }
}

std::int32_t IntegerSampler::Draw(Random& random) const {
  switch (kind_) {
    case IntegerDistribution::Kind::kUniform:
      return static_cast<std::int32_t>(random.UniformInt(low_, high_));
    case IntegerDistribution::Kind::kLogNormal:
      return Clip(random.LogNormal(mu_, sigma_));
    case IntegerDistribution::Kind::kZipf:
      return static_cast<std::int32_t>(low_ + zipf_->Draw(random) - 1);
    case IntegerDistribution::Kind::kEmpirical:
      return Clip(quantiles_->Draw(random));
    default:
      return low_;
  }
}

std::int32_t IntegerSampler::Clip(double x) const {
  return static_cast<std::int32_t>(
      std::clamp(std::floor(x + 0.5), static_cast<double>(low_), static_cast<double>(high_)));
}

}  // namespace twin
