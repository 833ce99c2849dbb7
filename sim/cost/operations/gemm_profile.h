// What was measured of a device's matrix products.
#pragma once

namespace twin::sim {

// Empty: the closed form of GemmModel with the fractions of the data sheet.
struct GemmProfile {
  bool operator==(const GemmProfile&) const = default;
};

}  // namespace twin::sim
