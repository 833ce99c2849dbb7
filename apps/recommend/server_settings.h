// Which settings of a recommendation a server has, and their values.
#pragma once

#include <string_view>

#include "apps/recommend/candidate_settings.h"
#include "config/recommend_config.h"
#include "config/servers/settings.h"
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

// Calls visit(setting, member of CandidateSettings, member of OpenSettingsConfig) for every setting
// of a server, beside its layout, that a request may leave open.
template <class Visit>
void ForEachOpenSetting(Visit&& visit) {
  using Choice = CandidateSettings;
  using Open = OpenSettingsConfig;
  visit(Setting::kTokenBudget, &Choice::token_budget, &Open::token_budget);
  visit(Setting::kMaxNumSeqs, &Choice::max_num_seqs, &Open::max_num_seqs);
  visit(Setting::kMemoryShare, &Choice::gpu_memory_utilization, &Open::gpu_memory_utilization);
  visit(Setting::kMaxBatchTotalTokens, &Choice::max_batch_total_tokens,
        &Open::max_batch_total_tokens);
  visit(Setting::kWaitingServedRatio, &Choice::waiting_served_ratio, &Open::waiting_served_ratio);
  visit(Setting::kSchedulePolicy, &Choice::schedule_policy, &Open::schedule_policy);
  visit(Setting::kContextChunking, &Choice::context_chunking_policy,
        &Open::context_chunking_policy);
}

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
