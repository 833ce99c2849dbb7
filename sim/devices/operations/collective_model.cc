#include "sim/devices/operations/collective_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/input_error.h"
#include "sim/devices/operations/unmeasured_device.h"

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

// One call without measurements.
struct Call {
  double passes;
  double ranks;
  double bytes;
  double share;    // of the bytes that cross a link in one pass
  double latency;  // of a link, seconds
  double rate;     // of a link, bytes per second
  double clock;    // time of a launch over that at 1.9 GHz
};

// The numbers below were fitted by least absolute logarithms to A100, H100 and H200 together, with
// a link latency of 0.9 us and a link fraction of 0.65. Half of a launch, in logarithms, takes
// cycles: between time alone and cycles alone, the errors on a device that was left out are least.

// Few bytes pass a tree, with flags beside the data; many bytes pass a ring in large pieces.
double NcclSeconds(const Call& call) {
  const double tree =
      6.6e-6 * call.clock + call.passes * (1.8 * call.latency * std::log2(call.ranks) +
                                           call.share * call.bytes / (0.38 * call.rate));
  const double ring = 26e-6 * call.clock + call.passes * call.share * call.bytes / call.rate;
  return std::min(tree, ring);
}

// vLLM's kernels for one and two shots, and NCCL inside a graph for what exceeds their buffers.
double VllmAllReduceSeconds(const Call& call) {
  const double launch = 4.3e-6 * call.clock;
  const double peers = call.ranks - 1;
  const double crossed = 2 * call.share * call.bytes;
  const double one_shot =
      launch + 0.1 * call.latency * peers + peers * call.bytes / (0.88 * call.rate);
  const double two_shots =
      launch + (3.2 + 0.27 * peers) * call.latency + crossed / (0.92 * call.rate);
  const double large = 71e-6 * call.clock + crossed / (1.16 * call.rate);
  return std::min({one_shot, two_shots, large});
}

double RingSeconds(const Call& call) {
  return kLaunchSeconds +
         call.passes * ((call.ranks - 1) * call.latency + call.share * call.bytes / call.rate);
}

double FastestProtocolSeconds(const Call& call) {
  const double one_shot = kLaunchSeconds + call.latency + (call.ranks - 1) * call.bytes / call.rate;
  const double two_shots =
      kLaunchSeconds + 2 * (call.latency + call.share * call.bytes / call.rate);
  return std::min({RingSeconds(call), one_shot, two_shots});
}

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

TimeEstimate Between(const Neighbors& curves, double ranks, double bytes) {
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
  constexpr double kFittedClock = 1.9e9;
  const Call call{
      .passes = Passes(kind),
      .ranks = ranks,
      .bytes = bytes,
      .share = (ranks - 1) / ranks,
      .latency = hardware_.link_latency_s,
      .rate = hardware_.link_bandwidth_bytes_per_s * hardware_.link_bandwidth_fraction,
      .clock = std::sqrt(kFittedClock / ClockHertz(hardware_)),
  };
  if (kind == Collective::kSend) return kLaunchSeconds + call.latency + bytes / call.rate;
  const bool peer_memory =
      hardware_.link_bandwidth_bytes_per_s > 1.5 * hardware_.pcie_bandwidth_bytes_per_s;
  if (!peer_memory) return RingSeconds(call);
  if (kind != Collective::kAllReduce) return NcclSeconds(call);
  return implementation_ == CollectiveImplementation::kVllm ? VllmAllReduceSeconds(call)
                                                            : FastestProtocolSeconds(call);
}

TimeEstimate CollectiveModel::operator()(Collective kind, std::int32_t ranks, double bytes) const {
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
    const TimeEstimate between = Between(curves, ranks, bytes);
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
