// A policy in small worlds in which everything that may go wrong does.
#pragma once

#include <cstdint>

#include "run/judge/policy_host.h"
#include "run/run_control.h"

namespace twin::run {

// Serves `worlds` of them (run/hostile), drawn from the seed, or fewer if the policy plans for more
// than `planning_s` seconds in all, or `control` asks to stop. Returns how many. Throws
// CandidateFailure with the number of the world in which the policy breaks an invariant or forgets
// a request.
std::int32_t ServeHostileWorlds(PolicyHost& host, std::int32_t worlds, std::uint64_t seed,
                                double planning_s, RunControl& control);

}  // namespace twin::run
