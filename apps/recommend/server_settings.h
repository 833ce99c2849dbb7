// Names of the settings of a recommendation in each server, and which of them the server has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/recommend/candidate_settings.h"
#include "run/deployment.h"

namespace twin::run {

// Settings that are fields of a policy.
enum class Setting : std::uint8_t {
  kTokenBudget,
  kMaxNumSeqs,
  kMaxModelLen,
  kMaxBatchTotalTokens,
  kWaitingServedRatio,
  kSchedulePolicy,
  kContextChunking,
};

// The policy of a server of ServerPresets(); empty for other names.
std::string_view PolicyOf(std::string_view server);

// The name of a setting in the policy of a server; empty if the server has no such setting.
std::string_view FieldOf(std::string_view server, Setting setting);

// The name of a setting in OpenSettings.
std::string_view SettingName(Setting setting);

// Whether stages of a pipeline are simulated as this server runs them. TGI has no stages; the
// stages of SGLang and TensorRT-LLM are not simulated.
bool RunsPipelines(std::string_view server);

// Whether replicas that only prefill, and replicas that only decode, are simulated as this server
// runs them.
bool SeparatesPrefill(std::string_view server);

// A recommended TGI refuses nobody: --max-concurrent-requests of its command and of its simulation.
inline constexpr int kTgiConcurrentRequests = 10'000;

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
