#include "sim/devices/operations/gemm_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"

namespace twin::sim {
namespace {

// Characters from kFirst on stand for steps; the backslash, which text format escapes, is left out.
constexpr char kFirst = '#';
constexpr int kStepMax = 45;
constexpr int kSteps = 2 * kStepMax + 1;
constexpr double kSmallStep = 0.006;
constexpr double kCompanding = 0.083;

char CharOf(int code) {
  const char c = static_cast<char>(kFirst + code);
  return c >= '\\' ? static_cast<char>(c + 1) : c;
}

// -1: no code.
int CodeOf(char c) {
  if (c < kFirst || c == '\\') return -1;
  const int code = c - kFirst - (c > '\\' ? 1 : 0);
  return code < kSteps ? code : -1;
}

double StepOf(int code) {
  return std::sinh((code - kStepMax) * kCompanding) * kSmallStep / kCompanding;
}

const std::array<double, kSteps>& Steps() {
  static const std::array<double, kSteps> steps = [] {
    std::array<double, kSteps> all{};
    for (int code = 0; code < kSteps; ++code) all[static_cast<std::size_t>(code)] = StepOf(code);
    return all;
  }();
  return steps;
}

// Octaves at which the covariance along m has fallen to 1/e.
constexpr double kRangeM = 8;
constexpr KrigingRules kTokenRules{.neighbours = 10, .nugget = 0.06};

// Measured m on either side that are considered.
constexpr std::size_t kTokenWindow = 12;

// Shares of m itself, and of m rounded up to tiles.
constexpr std::array<double, 3> kTokenShares = {0.7, 0.15, 0.15};

GemmRatio Weighted(const KrigingWeights& weights, std::span<const double> log_ratios) {
  GemmRatio result{0, weights.variance};
  for (std::size_t i = 0; i < weights.count; ++i) {
    result.log_ratio += weights.weights[i] * log_ratios[weights.points[i]];
  }
  return result;
}

}  // namespace

bool IsGemmCurve(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return CodeOf(c) >= 0; });
}

std::string EncodeGemmCurve(std::span<const double> log_ratios) {
  const std::array<double, kSteps>& steps = Steps();
  std::string text;
  double at = 0;
  for (const double value : log_ratios) {
    const double step = value - at;
    const auto above = std::ranges::lower_bound(steps, step);
    auto code = static_cast<std::size_t>(above - steps.begin());
    if (code == steps.size() || (code > 0 && step - steps[code - 1] < steps[code] - step)) --code;
    at += steps[code];
    text += CharOf(static_cast<int>(code));
  }
  return text;
}

std::vector<double> DecodeGemmCurve(std::string_view text) {
  const std::array<double, kSteps>& steps = Steps();
  std::vector<double> values;
  values.reserve(text.size());
  double at = 0;
  for (const char c : text) {
    const int code = CodeOf(c);
    CHECK(code >= 0);
    at += steps[static_cast<std::size_t>(code)];
    values.push_back(at);
  }
  return values;
}

std::optional<std::size_t> IndexOf(const std::vector<std::uint32_t>& axis, std::int64_t value) {
  const auto found = std::ranges::lower_bound(axis, value);
  if (found == axis.end() || *found != value) return std::nullopt;
  return static_cast<std::size_t>(found - axis.begin());
}

std::vector<std::string> JoinGemmCurves(const GemmTable& table) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < table.curves.size(); ++i) {
    if (i % std::max<std::size_t>(1, table.k.size()) == 0) {
      texts.push_back(table.curves[i]);
    } else {
      texts.back().append(" ").append(table.curves[i]);
    }
  }
  return texts;
}

std::vector<std::string> SplitGemmCurves(std::span<const std::string> texts) {
  std::vector<std::string> curves;
  for (const std::string_view text : texts) {
    std::size_t at = 0;
    for (std::size_t end = text.find(' '); end != text.npos; end = text.find(' ', at)) {
      curves.emplace_back(text.substr(at, end - at));
      at = end + 1;
    }
    curves.emplace_back(text.substr(at));
  }
  return curves;
}

GemmTokenWeights::Places GemmTokenWeights::PlacesOf(std::int64_t m) {
  const auto octave = [m](std::int64_t tile) {
    const std::int64_t rounded = (m + tile - 1) / tile * tile;
    return std::log2(static_cast<double>(rounded));
  };
  return {octave(1), octave(64), octave(128)};
}

double GemmTokenWeights::Covariance(const Places& a, const Places& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += kTokenShares[i] * std::exp(-std::abs(a[i] - b[i]) / kRangeM);
  }
  return sum;
}

GemmTokenWeights::GemmTokenWeights(const std::vector<std::uint32_t>& m)
    : m_(m), between_(m.size() * m.size()) {
  for (const std::uint32_t one : m) places_.push_back(PlacesOf(one));
  for (std::size_t i = 0; i < m.size(); ++i) {
    // Nobody asks for pairs that no window holds.
    for (std::size_t j = i - std::min(i, 2 * kTokenWindow); j < i; ++j) {
      between_[i * m.size() + j] = between_[j * m.size() + i] = Covariance(places_[i], places_[j]);
    }
  }
}

KrigingWeights GemmTokenWeights::WeightsOf(std::int64_t m, bool excluded) const {
  const std::optional<std::size_t> own = IndexOf(m_, m);
  if (own && !excluded) {
    KrigingWeights exact;
    exact.count = 1;
    exact.points[0] = *own;
    exact.weights[0] = 1;
    return exact;
  }
  const auto above = static_cast<std::size_t>(std::ranges::lower_bound(m_, m) - m_.begin());
  const std::size_t first = above - std::min(above, kTokenWindow);
  const std::size_t last = std::min(m_.size(), above + kTokenWindow);
  const Places target = PlacesOf(m);
  KrigingWeights weights = Krige(
      last - first, own.value_or(last) - first, kTokenRules,
      [&](std::size_t i) { return Covariance(places_[first + i], target); },
      [&](std::size_t i, std::size_t j) { return between_[(first + i) * m_.size() + first + j]; });
  for (std::size_t i = 0; i < weights.count; ++i) weights.points[i] += first;
  return weights;
}

GemmRatio GemmTokenWeights::RatioAt(std::span<const double> log_ratios, std::int64_t m) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(m);
  if (found != known_.end()) return Weighted(found->second, log_ratios);
  const KrigingWeights weights = WeightsOf(m, false);
  if (known_.size() < kRememberedMax) known_.emplace(m, weights);
  return Weighted(weights, log_ratios);
}

GemmRatio GemmTokenWeights::RatioWithout(std::span<const double> log_ratios, std::int64_t m) const {
  return Weighted(WeightsOf(m, true), log_ratios);
}

std::size_t GemmTokenWeights::size() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

std::vector<double> WithoutTrend(const GemmTable& table, std::span<const double> log_ratios,
                                 const GemmTokenWeights& tokens, std::span<const double> trend) {
  std::vector<double> rest(log_ratios.begin(), log_ratios.end());
  for (std::size_t i = 0; i < rest.size(); ++i) {
    rest[i] -= table.trend_share * tokens.RatioAt(trend, table.m[i]).log_ratio;
  }
  return rest;
}

}  // namespace twin::sim
