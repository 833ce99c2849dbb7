// Equal replicas of a cluster whose replicas differ, as an experiment asks for them.
#pragma once

#include <cstdint>
#include <string>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sched/policy/policy_config.h"
#include "sim/cost/cost_config.h"
#include "sim/cost/roofline_config.h"
#include "sim/devices/kv_capacity.h"

namespace twin {

// Settings that the replicas of a group have of their own. Everything else is the experiment's.
struct ReplicaGroup {
  enum class Role : std::uint8_t { kBoth, kPrefill, kDecode };

  std::int32_t count = 1;
  Role role = Role::kBoth;
  std::string hardware;  // as in SystemConfig
  HardwareSpec hardware_spec;
  Parallelism parallelism;
  sim::MemoryConfig memory;
  PolicyConfig policy;
  sim::CostConfig cost = sim::RooflineCostConfig{};
};

}  // namespace twin
