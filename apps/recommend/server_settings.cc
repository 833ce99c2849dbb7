#include "apps/recommend/server_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/servers/servers.h"
#include "core/input_error.h"
#include "sched/policy/registry.h"

namespace twin::run {
namespace {

std::optional<std::int64_t> AboveZero(std::int64_t value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

void Read(const SglangConfig& policy, CandidateSettings& choice) {
  using Order = SglangConfig::Order;
  choice.token_budget = AboveZero(policy.chunked_prefill_size);
  choice.max_num_seqs = policy.max_running_requests;
  choice.schedule_policy = policy.schedule_policy == Order::kLpm   ? "lpm"
                           : policy.schedule_policy == Order::kLof ? "lof"
                                                                   : "fcfs";
}

void Read(const TgiV2Config& policy, CandidateSettings& choice) {
  choice.token_budget = policy.max_batch_prefill_tokens;
  choice.max_num_seqs = AboveZero(policy.max_batch_size);
  choice.max_batch_total_tokens = AboveZero(policy.max_batch_total_tokens);
  choice.waiting_served_ratio = policy.waiting_served_ratio;
}

void Read(const TgiV3Config& policy, CandidateSettings& choice) {
  choice.token_budget = policy.max_batch_prefill_tokens;
  choice.max_num_seqs = std::nullopt;
  choice.max_batch_total_tokens = AboveZero(policy.max_batch_total_tokens);
}

void Read(const TrtllmConfig& policy, CandidateSettings& choice) {
  using Chunking = TrtllmConfig::Chunking;
  choice.token_budget = policy.max_num_tokens;
  choice.max_num_seqs = policy.max_batch_size;
  choice.context_chunking_policy =
      policy.context_chunking_policy == Chunking::kNone ? "none"
      : policy.context_chunking_policy == Chunking::kFirstComeFirstServed
          ? "FIRST_COME_FIRST_SERVED"
          : "EQUAL_PROGRESS";
}

}  // namespace

bool RunsPipelines(std::string_view server) {
  const std::optional<ListedServer> listed = FindServer(server);
  return listed && listed->server->runs_pipelines;
}

bool SeparatesPrefill(std::string_view server) {
  return FindServerPolicy(server) == VllmV1Config::kName;
}

void DropForeignSettings(CandidateSettings& choice) {
  ForEachOpenSetting([&choice](Setting setting, auto own, auto /*open*/) {
    if (FieldOfServer(choice.server, setting).empty()) (choice.*own).reset();
  });
}

void ReadSettings(const Deployment& deployment, CandidateSettings& choice) {
  choice.token_budget = deployment.traits.tokens_per_step_max;
  choice.max_num_seqs = deployment.traits.sequences_per_step_max;
  VisitPolicy(deployment.config.policy, [&choice](const auto& policy) {
    if constexpr (requires { Read(policy, choice); }) Read(policy, choice);
  });
}

void RequireStart(const CandidateSettings& choice, const Deployment& deployment) {
  const std::int32_t stages = choice.layout.parallelism.pipeline;
  if (stages > 1 && !RunsPipelines(choice.server)) {
    throw InputError(
        InputError::Kind::kUsage, "pipeline_parallel",
        fmt::format("is {}; stages of {} are not simulated; allowed: 1", stages, choice.server));
  }
  const auto* const tgi = deployment.config.policy.If<TgiV2Config>();
  if (tgi == nullptr || tgi->max_batch_prefill_tokens >= deployment.context_tokens_max - 1) return;
  throw InputError(
      InputError::Kind::kUsage, "token_budget",
      fmt::format("is {}; {} does not start with less than its longest prompt, {}",
                  tgi->max_batch_prefill_tokens, choice.server, deployment.context_tokens_max - 1));
}

}  // namespace twin::run
