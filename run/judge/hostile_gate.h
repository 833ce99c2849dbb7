// A policy in small worlds in which everything that may go wrong does.
#pragma once

#include <cstdint>

#include "run/judge/policy_host.h"
#include "run/run_control.h"

namespace twin::run {

// Serves `worlds` of them (run/hostile), drawn from the seed. Throws CandidateFailure with the
// number of the world in which the policy breaks an invariant or forgets a request. May end early
// if `control` asks to stop.
void ServeHostileWorlds(PolicyHost& host, std::int32_t worlds, std::uint64_t seed,
                        RunControl& control);

}  // namespace twin::run
