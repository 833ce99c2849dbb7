// What was measured of a device's mixtures of experts.
#pragma once

#include <vector>

#include "sim/cost/operations/gemm_profile.h"

namespace twin::sim {

// The parameters of the closed form in moe_model.h. The defaults are those of an H100.
struct MoeCoefficients {
  double latency_s = 28e-6;  // routing, sorting, launches
  double expert_s = 0.1e-6;  // per expert that has tokens
  double bandwidth_fraction = 0.9;
  double flops_fraction = 0.65;  // of the peak
  double spread = 1;             // of tokens over experts: 1 = at random, less = concentrated
  double padding_rows = 8;       // per expert that has tokens
  double overlap = 1.5;          // of compute and memory: exponent of the norm that adds them
  double activation_passes = 2;  // of their traffic

  bool operator==(const MoeCoefficients&) const = default;
};

// The closed form of one format.
struct MoeFit {
  GemmFormat format = GemmFormat::kBf16;
  MoeCoefficients coefficients;
  double log_sd = 0;  // of shapes that were held out from a fit of the others

  bool operator==(const MoeFit&) const = default;
};

// Empty: the closed form of MoeModel with its defaults and a wide interval.
struct MoeProfile {
  std::vector<MoeFit> fits;

  bool operator==(const MoeProfile&) const = default;
};

}  // namespace twin::sim
