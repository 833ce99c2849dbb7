// How long the experts of a mixture take: all products of all experts of one rank, fused.
//
// Each token goes to a few experts. The weights of an expert are read if it has any token; with
// (token, expert) pairs spread at random, E (1 - (1 - 1/E)^pairs) of E experts have one, and a
// fitted `spread` multiplies the pairs. Trained routers prefer some experts: their shares are
// log-logistic, ((E - i + 1/2) / (i - 1/2))^0.42 for the i-th of E, so that fewer have a token, and
// the busiest have further tiles. Rows of an expert are padded to whole tiles. Gate, up and
// down projections are assumed. Of ranks that share the experts, the one with the most pairs
// decides: the mean and sqrt(2 ln ranks) standard deviations. Tables of measurements (moe_table.h)
// correct the closed form.
#pragma once

#include <cstdint>
#include <vector>

#include "core/hardware_spec.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/gemm_model.h"
#include "sim/devices/operations/moe_profile.h"
#include "sim/devices/operations/physical_limits.h"

namespace twin::sim {

// Sizes of one rank. It holds all `experts`, of `intermediate` columns each, or with several
// `expert_ranks` its share of them.
struct MoeShape {
  std::int32_t hidden = 0;
  std::int32_t intermediate = 0;
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
  std::int32_t expert_ranks = 1;
  GemmFormat format = GemmFormat::kBf16;
};

// How tokens are spread over the experts: at random; as evenly as possible, as in benchmarks; or
// as trained routers spread them.
enum class MoeRouting : std::uint8_t { kRandom, kEven, kTrained };

// Seconds of the closed form. REQUIRES: tokens >= 1.
double MoeClosedForm(const HardwareSpec& hardware, const MoeCoefficients& coefficients,
                     const MoeShape& shape, std::int64_t tokens,
                     MoeRouting routing = MoeRouting::kRandom);

class MoeModel {
 public:
  MoeModel(const HardwareSpec& hardware, const MoeShape& shape, const MoeProfile& profile = {});

  // With a trained router. REQUIRES: tokens >= 1.
  [[nodiscard]] TimeEstimate operator()(std::int64_t tokens) const {
    return At(tokens, MoeRouting::kTrained);
  }

  // With another one, as imports judge their tables. REQUIRES: tokens >= 1.
  [[nodiscard]] TimeEstimate At(std::int64_t tokens, MoeRouting routing) const;

 private:
  HardwareSpec hardware_;
  PhysicalLimits limits_;
  MoeShape shape_;
  std::vector<double> trained_shares_;  // the probability that a token goes to each expert
  MoeCoefficients coefficients_;
  double log_sd_;
  // Logarithms of measured over closed-form time by log2(tokens); empty without a table.
  std::vector<double> log2_tokens_;
  std::vector<double> log_ratios_;
};

}  // namespace twin::sim
