// What was measured of the communication between devices of one kind.
#pragma once

namespace twin::sim {

// Empty: the closed form of CollectiveModel with the links of the data sheet.
struct CollectiveProfile {
  bool operator==(const CollectiveProfile&) const = default;
};

}  // namespace twin::sim
