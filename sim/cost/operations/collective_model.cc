#include "sim/cost/operations/collective_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/input_error.h"

namespace twin::sim {
namespace {

constexpr double kSecondsPerUs = 1e-6;
constexpr double kUnfitted = 0.4;
constexpr double kOtherRanks = 0.1;
constexpr double kOtherKernels = 0.3;
constexpr double kLaunchSeconds = 3e-6;

CollectiveImplementation ImplementationOf(KernelLibrary library) {
  switch (library) {
    case KernelLibrary::kVllm:
      return CollectiveImplementation::kVllm;
    case KernelLibrary::kSglang:
      return CollectiveImplementation::kSglang;
    case KernelLibrary::kTrtllm:
      return CollectiveImplementation::kTrtllm;
  }
  return CollectiveImplementation::kNccl;
}

double Passes(Collective kind) { return kind == Collective::kAllReduce ? 2 : 1; }

double SecondsOf(const CollectiveCurve& curve, double bytes) {
  const std::vector<double>& x = curve.bytes;
  const std::vector<double>& y = curve.microseconds;
  if (bytes <= x.front() || x.size() == 1) return kSecondsPerUs * y.front();
  if (bytes >= x.back()) {
    const std::size_t last = x.size() - 1;
    const double rate = (y[last] - y[last - 1]) / (x[last] - x[last - 1]);
    return kSecondsPerUs * (y[last] + std::max(0.0, rate) * (bytes - x[last]));
  }
  const auto high =
      static_cast<std::size_t>(std::upper_bound(x.begin(), x.end(), bytes) - x.begin());
  const double share = std::log(bytes / x[high - 1]) / std::log(x[high] / x[high - 1]);
  return kSecondsPerUs * y[high - 1] * std::pow(y[high] / y[high - 1], share);
}

// Curves of one kind next to a number of ranks; equal if it was measured.
struct Neighbors {
  const CollectiveCurve* below = nullptr;
  const CollectiveCurve* above = nullptr;
};

Neighbors Find(const CollectiveProfile& profile, Collective kind,
               CollectiveImplementation implementation, std::int32_t ranks) {
  Neighbors found;
  for (const CollectiveCurve& curve : profile.curves) {
    if (curve.kind != kind || curve.implementation != implementation) continue;
    if (curve.ranks <= ranks && (found.below == nullptr || curve.ranks > found.below->ranks)) {
      found.below = &curve;
    }
    if (curve.ranks >= ranks && (found.above == nullptr || curve.ranks < found.above->ranks)) {
      found.above = &curve;
    }
  }
  return found;
}

Estimate Between(const Neighbors& curves, double ranks, double bytes) {
  const double low = SecondsOf(*curves.below, bytes);
  if (curves.below == curves.above) return {low, curves.below->spread, curves.below->spread};
  const double high = SecondsOf(*curves.above, bytes);
  const double share = std::log(ranks / curves.below->ranks) /
                       std::log(static_cast<double>(curves.above->ranks) / curves.below->ranks);
  const double spread = std::max(curves.below->spread, curves.above->spread);
  const double sd = std::hypot(spread, kOtherRanks);
  return {low * std::pow(high / low, share), sd, sd};
}

}  // namespace

CollectiveModel::CollectiveModel(const HardwareSpec& hardware, KernelLibrary library,
                                 const CollectiveProfile& profile)
    : hardware_(hardware), implementation_(ImplementationOf(library)), profile_(profile) {}

double CollectiveModel::ClosedForm(Collective kind, double ranks, double bytes) const {
  const double rate = hardware_.link_bandwidth_bytes_per_s * hardware_.link_bandwidth_fraction;
  const double latency = hardware_.link_latency_s;
  if (kind == Collective::kSend) return kLaunchSeconds + latency + bytes / rate;
  const double share = (ranks - 1) / ranks;
  const double ring =
      kLaunchSeconds + Passes(kind) * ((ranks - 1) * latency + share * bytes / rate);
  const bool peer_memory =
      hardware_.link_bandwidth_bytes_per_s > 1.5 * hardware_.pcie_bandwidth_bytes_per_s;
  if (kind != Collective::kAllReduce || !peer_memory) return ring;
  const double one_shot = kLaunchSeconds + latency + (ranks - 1) * bytes / rate;
  const double two_shots = kLaunchSeconds + 2 * (latency + share * bytes / rate);
  return std::min({ring, one_shot, two_shots});
}

Estimate CollectiveModel::operator()(Collective kind, std::int32_t ranks, double bytes) const {
  Neighbors curves = Find(profile_, kind, implementation_, ranks);
  double spread = 0;
  if (curves.below == nullptr && curves.above == nullptr) {
    curves = Find(profile_, kind, CollectiveImplementation::kNccl, ranks);
    // NCCL runs what an engine has no kernel for; its all-reduce is another one than the engine's.
    spread = kind == Collective::kAllReduce ? kOtherKernels : 0;
  }
  if (curves.below == nullptr && curves.above == nullptr) {
    return {ClosedForm(kind, ranks, bytes), kUnfitted, kUnfitted};
  }
  if (curves.below != nullptr && curves.above != nullptr) {
    const Estimate between = Between(curves, ranks, bytes);
    const double sd = std::hypot(between.log_sd, spread);
    return {between.seconds, sd, sd};
  }
  // Beyond the measured numbers of ranks, as much slower as the closed form says.
  const CollectiveCurve& curve = curves.below != nullptr ? *curves.below : *curves.above;
  const double ratio = ClosedForm(kind, ranks, bytes) / ClosedForm(kind, curve.ranks, bytes);
  const double sd = std::hypot(curve.spread, 2 * kOtherRanks);
  return {SecondsOf(curve, bytes) * ratio, sd, sd};
}

void Validate(const CollectiveProfile& profile) {
  for (std::size_t i = 0; i < profile.curves.size(); ++i) {
    const CollectiveCurve& curve = profile.curves[i];
    const auto require = [i](bool holds, std::string_view what) {
      if (holds) return;
      throw InputError(InputError::Kind::kUsage, fmt::format("curves[{}]", i), std::string(what));
    };
    require(curve.ranks >= 2, "ranks must be at least 2");
    require(!curve.bytes.empty(), "bytes are missing");
    require(curve.bytes.size() == curve.microseconds.size(),
            "bytes and microseconds must be equally many");
    require(
        curve.bytes.front() > 0 &&
            std::ranges::adjacent_find(curve.bytes, std::greater_equal<>{}) == curve.bytes.end(),
        "bytes must be positive and ascend");
    require(std::ranges::min(curve.microseconds) > 0, "microseconds must be positive");
  }
}

}  // namespace twin::sim
