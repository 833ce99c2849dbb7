// The parts of the time of a mixture of experts, on any device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twin::exec {

enum class MixturePart : std::uint8_t {
  kRouter,  // and the gate of the shared expert, if that is a separate product
  kExpertUp,
  kExpertDown,
  kSharedUp,
  kSharedDown,
  kActivation,
  kRouting,  // choosing experts, gathering their rows, adding their results
};

constexpr std::size_t kMixturePartCount = 7;

constexpr bool IsProduct(MixturePart part) { return part < MixturePart::kActivation; }

}  // namespace twin::exec
