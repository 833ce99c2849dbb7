// The command line of the real server for a configuration.
#pragma once

#include <string>

#include "apps/recommend/candidate.h"

namespace twin::run {

// Writes the command of one engine: `vllm serve ...`, `python -m sglang.launch_server ...`,
// `text-generation-launcher ...` or `trtllm-serve ...`, with every setting of the candidate that
// the server has. Weights in fp8 are converted as the server loads a checkpoint, except by
// TensorRT-LLM, which needs a checkpoint of its own, $FP8_CHECKPOINT. Weights in int8 need
// $INT8_CHECKPOINT. Empty for FFNs on devices of their own, which no server has. REQUIRES: a server
// of ServerPresets() (CHECKed).
std::string ServerCommand(const Candidate& candidate);

}  // namespace twin::run
