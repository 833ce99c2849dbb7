// A policy in small worlds in which everything that may go wrong does.
#pragma once

#include <cstdint>

#include "run/judge/policy_host.h"
#include "run/run_control.h"

namespace twin::run {

struct HostileGate {
  std::int32_t worlds = 0;
  std::uint64_t seed = 0;   // they are drawn from it
  double planning_s = 0;    // no further world begins once the policy has planned for as long
  bool silent_ends = true;  // HostileOptions
};

// Serves the worlds (run/hostile), or fewer if planning takes too long or `control` asks to stop.
// Returns how many. Throws CandidateFailure with the number of the world in which the policy breaks
// an invariant or forgets a request.
std::int32_t ServeHostileWorlds(PolicyHost& host, const HostileGate& gate, RunControl& control);

}  // namespace twin::run
