// How long the experts of a mixture take on one rank: by library, format, and distribution of
// tokens over experts. With expert parallelism, a rank holds its share of the experts, and `tokens`
// are those of all ranks that route to it.
//
// Tables are of operation_kinds.h's moe_LIBRARY, one for each kernel: a server runs the fastest one
// of its library for each number of tokens. A library without a table of the format takes the
// fastest one of all others. Beyond them, and on devices without any, the closed form of
// ExpertsWork counts. The older MoeModel serves profiles with moe.textproto alone.
#pragma once

#include <string_view>
#include <vector>

#include "core/hardware_spec.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/measured_operation.h"
#include "sim/devices/operations/operation_kinds.h"
#include "sim/devices/operations/operation_profile.h"

namespace twin::sim {

// As trained routers spread tokens, which benchmarks call power_law_1.01; or all experts alike.
enum class ExpertLoad : std::uint8_t { kTrained, kSkewed, kBalanced };

// Thread-safe.
class ExpertsModel {
 public:
  ExpertsModel(const HardwareSpec& hardware, const ExpertSizes& sizes, GemmFormat format,
               KernelLibrary library, const OperationProfile& profile = {},
               ExpertLoad load = ExpertLoad::kTrained);

  // Both products and the activation. REQUIRES: tokens > 0.
  [[nodiscard]] Estimate operator()(double tokens) const;

  // Whether the profile has a table of the library or another.
  [[nodiscard]] bool measured() const { return kernels_.front().measured(); }

 private:
  std::vector<MeasuredOperation> kernels_;  // not empty
};

// Experts with a token of `experts`, of which a token takes `per_token`, if all are taken alike.
[[nodiscard]] double DistinctExperts(double experts, double per_token, double tokens);

}  // namespace twin::sim
