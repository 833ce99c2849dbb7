// What was measured of whole steps on a device: its state under load, and the host.
#pragma once

namespace twin::sim {

// Empty: defaults for a device that nobody measured.
struct StepProfile {
  bool operator==(const StepProfile&) const = default;
};

}  // namespace twin::sim
