// The errors that a draw seed of the profile cost model stands for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/devices/stage_operations.h"
#include "sim/devices/step_profile.h"

namespace twin::sim {

// Standard normal variates: an error multiplies its times by exp(variate x log_sd).
struct DrawnErrors {
  ByOperation<double> operations{};
  std::array<double, kStepTermFields.size()> terms{};  // in the order of kStepTermFields
  double recorded = 0;                                 // of a recorded model's decode steps
  double recorded_prompts = 0;                         // of its steps with prompts
  double boundary = 0;                                 // of delays between clients and engine
  double boundary_variation = 0;                       // of their variation among requests
};

// All zero for seed 0. Equal seeds give equal errors for any model and device: two experiments
// with the same seed are wrong in the same way.
DrawnErrors DrawErrors(std::uint64_t seed);

// Operation classes, then terms, then the members of DrawnErrors that follow.
std::vector<std::string_view> ErrorNames();
// In the order of ErrorNames().
std::vector<double> Variates(const DrawnErrors& errors);

}  // namespace twin::sim
