// The command line of the real server for a configuration.
#pragma once

#include <string>

#include "lab/recommend/candidate.h"

namespace twin::lab {

// Of one engine: `vllm serve ...` for servers called vllm-VERSION. Weights in fp8 are converted as
// the server loads a checkpoint; those in int8 need a checkpoint of their own, which the command
// takes from $INT8_CHECKPOINT. REQUIRES: a server of ServerPresets() (CHECKed), since nothing else
// is simulated.
std::string ServerCommand(const Candidate& candidate);

}  // namespace twin::lab
