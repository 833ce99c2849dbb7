// All that was measured of one kind of device, as the operation models, the step model and the
// simulated world take it.
#pragma once

#include "sim/devices/boundary_profile.h"
#include "sim/devices/operations/attention_profile.h"
#include "sim/devices/operations/collective_profile.h"
#include "sim/devices/operations/gemm_profile.h"
#include "sim/devices/operations/moe_profile.h"
#include "sim/devices/operations/operation_profile.h"
#include "sim/devices/step_profile.h"

namespace twin::sim {

// A part that is empty leaves its model with the closed form from the data sheet and with wide
// intervals. config/profile_folder.h reads profiles.
struct DeviceProfile {
  GemmProfile gemm;
  MoeProfile moe;
  AttentionProfile attention;
  CollectiveProfile collectives;
  OperationProfile operations;
  StepProfile steps;
  BoundaryProfile boundary;

  bool operator==(const DeviceProfile&) const = default;
};

}  // namespace twin::sim
