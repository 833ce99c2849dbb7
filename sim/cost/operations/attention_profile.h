// What was measured of a device's attention and of its small, memory-bound kernels.
#pragma once

namespace twin::sim {

// Empty: the closed form of AttentionModel with the fractions of the data sheet.
struct AttentionProfile {
  bool operator==(const AttentionProfile&) const = default;
};

}  // namespace twin::sim
