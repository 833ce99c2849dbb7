// Measurements of a device's mixtures of experts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/devices/operations/gemm_profile.h"

namespace twin::sim {

// The parameters of the closed form in moe_model.h. The defaults are for an H100.
struct MoeCoefficients {
  double latency_s = 28e-6;  // routing, sorting, launches
  double expert_s = 0.1e-6;  // per expert that has tokens
  double bandwidth_fraction = 0.9;
  double flops_fraction = 0.65;  // of the peak
  // Spread of tokens over experts in benchmarks that distribute them at random: 1 = evenly likely,
  // less = concentrated. Trained routers have shares of their own (moe_model.h).
  double spread = 1;
  double padding_rows = 8;       // per expert that has tokens
  double overlap = 1.5;          // of compute and memory: exponent of the norm that adds them
  double activation_passes = 2;  // of their traffic

  bool operator==(const MoeCoefficients&) const = default;
};

// The closed form of one format.
struct MoeFit {
  GemmFormat format = GemmFormat::kBf16;
  MoeCoefficients coefficients;
  double log_sd = 0;  // of shapes that were held out from the fit

  bool operator==(const MoeFit&) const = default;
};

// Measured times of one format, as logarithms of their ratio to its closed form for the same number
// of experts with tokens; moe_table.h reads the rows.
struct MoeTable {
  GemmFormat format = GemmFormat::kBf16;
  std::vector<std::uint32_t> tokens;  // ascending
  // One per model: "HIDDEN INTERMEDIATE EXPERTS EXPERTS_PER_TOKEN", and after it one curve over
  // `tokens` each for 1, 2, 4 and 8 ranks that share INTERMEDIATE; empty = not measured.
  std::vector<std::string> rows;
  double measured_sd = 0;  // over distributions of tokens over experts
  // Deviation of shapes that were not measured, over the square root of the kriging variance there.
  double shape_sd = 0;

  bool operator==(const MoeTable&) const = default;
};

// Empty: the closed form of MoeModel with its defaults and a wide interval.
struct MoeProfile {
  std::vector<MoeFit> fits;
  std::vector<MoeTable> tables;

  bool operator==(const MoeProfile&) const = default;
};

// Throws InputError (usage) "moe tables[1]...: ..." for the first table whose tokens do not ascend,
// that has a malformed row or none, or whose format has no fit.
void Validate(const MoeProfile& profile);

}  // namespace twin::sim
