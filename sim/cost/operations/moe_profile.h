// What was measured of a device's mixtures of experts.
#pragma once

namespace twin::sim {

// Empty: the closed form of MoeModel.
struct MoeProfile {
  bool operator==(const MoeProfile&) const = default;
};

}  // namespace twin::sim
