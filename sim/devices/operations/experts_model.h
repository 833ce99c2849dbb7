// How long the experts of a mixture take on one rank: by library, format, and distribution of
// tokens over experts. With expert parallelism, a rank holds its share of the experts, and `tokens`
// are those of all ranks that route to it.
//
// Tables are of operation_kinds.h's moe_LIBRARY, one for each kernel. Benchmarks measured a kernel
// where the library chooses it, so that of several kernels those count that were measured for the
// same sizes; else those measured for the same division over ranks; else all; else all of other
// libraries. Among those that count, a server runs the fastest one for each number of tokens.
// Without any, the closed form of ExpertsWork counts.
//
// MoeModel, the older one, serves profiles with moe.textproto alone.
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
               ExpertsKernel kernel = ExpertsKernel::kAny, ExpertLoad load = ExpertLoad::kTrained);

  // Whether the profile has tables of the library's own kernels, of any format.
  [[nodiscard]] static bool HasTables(KernelLibrary library, const OperationProfile& profile);

  // Both products and the activation. REQUIRES: tokens > 0.
  [[nodiscard]] TimeEstimate operator()(double tokens) const;

  // Whether the profile has a table of the library or another.
  [[nodiscard]] bool measured() const { return kernels_.front().measured(); }

 private:
  std::vector<MeasuredOperation> kernels_;  // not empty
};

// Experts with a token of `experts`, of which a token takes `per_token`, if all are taken alike.
[[nodiscard]] double DistinctExperts(double experts, double per_token, double tokens);

}  // namespace twin::sim
