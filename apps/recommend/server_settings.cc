#include "apps/recommend/server_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "config/servers/servers.h"
#include "core/check.h"
#include "core/input_error.h"
#include "sched/policy/registry.h"

namespace twin::run {
namespace {

constexpr std::size_t kSettings = 7;
constexpr std::array<std::string_view, kSettings> kNames = {
    "token_budget",         "max_num_seqs",    "max_model_len",          "max_batch_total_tokens",
    "waiting_served_ratio", "schedule_policy", "context_chunking_policy"};

struct PolicyFields {
  std::string_view policy;
  bool pipelines;
  std::array<std::string_view, kSettings> fields;  // by Setting
};

constexpr std::array kPolicies = {
    PolicyFields{"vllm_v0",
                 true,
                 {"max_num_batched_tokens", "max_num_seqs", "max_model_len", "", "", "", ""}},
    PolicyFields{"vllm_v1",
                 true,
                 {"max_num_batched_tokens", "max_num_seqs", "max_model_len", "", "", "", ""}},
    PolicyFields{"sglang",
                 false,
                 {"chunked_prefill_size", "max_running_requests", "context_length", "", "",
                  "schedule_policy", ""}},
    PolicyFields{"tgi_v2",
                 false,
                 {"max_batch_prefill_tokens", "max_batch_size", "max_total_tokens",
                  "max_batch_total_tokens", "waiting_served_ratio", "", ""}},
    PolicyFields{
        "tgi_v3",
        false,
        {"max_batch_prefill_tokens", "", "max_total_tokens", "max_batch_total_tokens", "", "", ""}},
    PolicyFields{
        "trtllm",
        false,
        {"max_num_tokens", "max_batch_size", "max_seq_len", "", "", "", "context_chunking_policy"}},
};

const PolicyFields* FieldsOf(std::string_view server) {
  const std::string_view policy = PolicyOf(server);
  const auto* const found = std::ranges::find(kPolicies, policy, &PolicyFields::policy);
  return found == kPolicies.end() ? nullptr : found;
}

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

std::string_view PolicyOf(std::string_view server) {
  const std::optional<ListedServer> listed = FindServer(server);
  return listed ? listed->preset->policy : std::string_view();
}

std::string_view FieldOf(std::string_view server, Setting setting) {
  const PolicyFields* const fields = FieldsOf(server);
  return fields == nullptr ? std::string_view() : fields->fields[static_cast<std::size_t>(setting)];
}

std::string_view SettingName(Setting setting) { return kNames[static_cast<std::size_t>(setting)]; }

bool RunsPipelines(std::string_view server) {
  const PolicyFields* const fields = FieldsOf(server);
  return fields != nullptr && fields->pipelines;
}

bool SeparatesPrefill(std::string_view server) { return PolicyOf(server) == "vllm_v1"; }

void DropForeignSettings(CandidateSettings& choice) {
  const auto drop = [&choice](Setting setting, auto& member) {
    if (FieldOf(choice.server, setting).empty()) member.reset();
  };
  drop(Setting::kTokenBudget, choice.token_budget);
  drop(Setting::kMaxNumSeqs, choice.max_num_seqs);
  drop(Setting::kMaxBatchTotalTokens, choice.max_batch_total_tokens);
  drop(Setting::kWaitingServedRatio, choice.waiting_served_ratio);
  drop(Setting::kSchedulePolicy, choice.schedule_policy);
  drop(Setting::kContextChunking, choice.context_chunking_policy);
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
