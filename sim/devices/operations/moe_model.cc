#include "sim/devices/operations/moe_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/cost/grid_position.h"
#include "sim/devices/operations/moe_table.h"

namespace twin::sim {
namespace {

constexpr double kUnmeasuredSd = 0.35;
// The mean error of a mixture of experts over all numbers of tokens, in units of the spread.
constexpr double kLastingExpertsShare = 0.7;
// Gate, up and down.
constexpr double kProjections = 3;
// Read off recorded decode steps of Mixtral 8x7B on two H100s, beside 16 to 44 requests
// (blis16_requests/mixtral-8x7b-v0-1-tp2-roleplay): how unequal the shares of experts are, and what
// further tiles of the preferred ones add where an expert has kTilesFull rows on average or more;
// nothing with kTilesNone. Of 128 experts, 0.55, 0.75 and 0.89 of the experts that 1, 2 and 4 pairs
// per expert could reach have one; benchmarks with power laws of exponent 1.01 take 0.60, 0.79 and
// 0.88 of the time with even shares (H100, H200).
constexpr double kInequality = 0.42;
constexpr double kImbalance = 0.024;
constexpr double kTilesNone = 6;
constexpr double kTilesFull = 8;
constexpr double kBf16Bytes = 2;

// The probabilities that a token goes to each expert, which add up to the experts of a token.
std::vector<double> TrainedShares(const MoeShape& shape) {
  std::vector<double> shares;
  for (int i = 0; i < shape.experts; ++i) {
    shares.push_back(std::pow((shape.experts - i - 0.5) / (i + 0.5), kInequality));
  }
  double rest = std::accumulate(shares.begin(), shares.end(), 0.0);
  double wanted = shape.experts_per_token;
  // No expert is taken twice by a token: a share above 1 goes to the remaining experts.
  for (double& share : shares) {
    const double scaled = std::min(1.0, share * wanted / rest);
    rest -= share;
    wanted -= scaled;
    share = scaled;
  }
  return shares;
}

// Experts that get a token. `shares`: of a trained router.
double TouchedExperts(const MoeShape& shape, double pairs, double spread, MoeRouting routing,
                      const std::vector<double>& shares) {
  const double experts = shape.experts;
  const double most = std::min(experts, pairs);
  if (routing == MoeRouting::kEven) return most;
  if (routing == MoeRouting::kTrained) {
    const double tokens = pairs / shape.experts_per_token;
    double touched = 0;
    for (const double share : shares) touched += 1 - std::pow(1 - share, tokens);
    return std::clamp(touched, 1.0, most);
  }
  return std::clamp(experts * (1 - std::pow(1 - 1 / experts, pairs * spread)), 1.0, most);
}

// The work of the rank with the most pairs.
struct RankLoad {
  double pairs = 0;
  double touched = 0;
};

RankLoad BusiestRank(const MoeShape& shape, double pairs, double touched) {
  if (shape.expert_ranks == 1) return {pairs, touched};
  const double ranks = shape.expert_ranks;
  const double mean = pairs / ranks;
  const double deviation = std::sqrt(mean * (1 - 1 / ranks));
  const double most = std::min(pairs, mean + std::sqrt(2 * std::log(ranks)) * deviation);
  const double untouched = std::max(0.0, 1 - touched / shape.experts);
  const double experts = std::ceil(shape.experts / ranks);
  return {most, std::clamp(experts * (1 - std::pow(untouched, most / mean)), 1.0,
                           std::min(experts, most))};
}

// Share of the time of preferred experts' further tiles that counts, by the rows of a mean expert.
double ShareOfTiles(double rows) {
  return std::clamp(std::log(rows / kTilesNone) / std::log(kTilesFull / kTilesNone), 0.0, 1.0);
}

double ExpertFlops(const MoeShape& shape) {
  return 2 * kProjections * static_cast<double>(shape.hidden) * shape.intermediate;
}

double ExpertBytes(const MoeShape& shape) {
  const GemmShape one{.m = 1, .n = shape.intermediate, .k = shape.hidden, .format = shape.format};
  return kProjections * WeightBytes(one);
}

// The closed form for `pairs` of tokens and experts, of which `touched` experts have one.
double SecondsOf(const HardwareSpec& hardware, const MoeCoefficients& c, const MoeShape& shape,
                 double pairs, double touched) {
  const double memory_rate = hardware.memory_bandwidth_bytes_per_s * c.bandwidth_fraction;
  const double memory = touched * ExpertBytes(shape) / memory_rate;
  const double compute = (pairs + touched * c.padding_rows) * ExpertFlops(shape) /
                         (PeakFlops(hardware, shape.format) * c.flops_fraction);
  const double activations = c.activation_passes * kBf16Bytes * pairs *
                             (2.0 * shape.hidden + kProjections * shape.intermediate) / memory_rate;
  const double longest = std::max(memory, compute);
  const double products = longest * std::pow(std::pow(memory / longest, c.overlap) +
                                                 std::pow(compute / longest, c.overlap),
                                             1 / c.overlap);
  return c.latency_s + c.expert_s * touched + products + activations;
}

}  // namespace

double MoeClosedForm(const HardwareSpec& hardware, const MoeCoefficients& c, const MoeShape& shape,
                     std::int64_t tokens, MoeRouting routing) {
  const double pairs = static_cast<double>(tokens) * shape.experts_per_token;
  const RankLoad rank = BusiestRank(
      shape, pairs, TouchedExperts(shape, pairs, c.spread, routing, TrainedShares(shape)));
  return SecondsOf(hardware, c, shape, rank.pairs, rank.touched);
}

MoeModel::MoeModel(const HardwareSpec& hardware, const MoeShape& shape, const MoeProfile& profile)
    : hardware_(hardware),
      limits_(hardware),
      shape_(shape),
      trained_shares_(TrainedShares(shape)),
      log_sd_(kUnmeasuredSd) {
  const auto find = [&](GemmFormat format) {
    return std::ranges::find(profile.fits, format, &MoeFit::format);
  };
  if (const auto own = find(shape.format); own != profile.fits.end()) {
    coefficients_ = own->coefficients;
    log_sd_ = own->log_sd;
    const auto table = std::ranges::find(profile.tables, shape.format, &MoeTable::format);
    if (table == profile.tables.end()) return;
    const MoeCurve curve = CurveOf(ParseMoeRows(*table), shape);
    log_sd_ = std::hypot(table->measured_sd, table->shape_sd * std::sqrt(curve.variance));
    log_ratios_ = curve.log_ratios;
    for (const std::uint32_t tokens : table->tokens) log2_tokens_.push_back(std::log2(tokens));
  } else if (const auto bf16 = find(GemmFormat::kBf16); bf16 != profile.fits.end()) {
    coefficients_ = bf16->coefficients;
    log_sd_ = std::max(bf16->log_sd, kUnmeasuredSd);
  }
}

TimeEstimate MoeModel::At(std::int64_t tokens, MoeRouting routing) const {
  const double pairs = static_cast<double>(tokens) * shape_.experts_per_token;
  const RankLoad rank = BusiestRank(
      shape_, pairs, TouchedExperts(shape_, pairs, coefficients_.spread, routing, trained_shares_));
  double seconds = SecondsOf(hardware_, coefficients_, shape_, rank.pairs, rank.touched);
  if (!log_ratios_.empty()) {
    const double at = std::log2(static_cast<double>(tokens));
    seconds *= std::exp(Locate(log2_tokens_, at).In(log_ratios_));
  }
  if (routing == MoeRouting::kTrained) {
    seconds *= 1 + kImbalance * ShareOfTiles(pairs / shape_.experts);
  }
  return AtLeast({seconds, log_sd_, kLastingExpertsShare * log_sd_},
                 limits_.Work(rank.touched * ExpertBytes(shape_), rank.pairs * ExpertFlops(shape_),
                              shape_.format));
}

}  // namespace twin::sim
