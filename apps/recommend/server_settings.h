// Which settings of a recommendation a server has, and their values.
#pragma once

#include <string_view>

#include "apps/recommend/candidate_settings.h"
#include "run/deployment.h"

namespace twin::run {

// Whether stages of a pipeline are simulated as this server runs them. TGI has no stages; the
// stages of SGLang and TensorRT-LLM are not simulated.
bool RunsPipelines(std::string_view server);

// Whether replicas that only prefill, and replicas that only decode, are simulated as this server
// runs them.
bool SeparatesPrefill(std::string_view server);

// A recommended TGI refuses nobody: --max-concurrent-requests of its command and of its simulation.
inline constexpr int kUnlimitedConcurrency = 10'000;

// Unsets the settings in `choice` that its server does not have.
void DropForeignSettings(CandidateSettings& choice);

// Copies the settings of the deployment's policy into `choice`; unset: the server has no such
// setting, or no limit.
void ReadSettings(const Deployment& deployment, CandidateSettings& choice);

// Throws InputError for a combination with which the real server does not start although the
// simulated one would: a prefill of TGI 2 below the longest prompt, stages of a server that
// RunsPipelines() denies.
void RequireStart(const CandidateSettings& choice, const Deployment& deployment);

}  // namespace twin::run
