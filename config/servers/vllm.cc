#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "config/experiment.pb.h"
#include "config/servers/launch_command.h"
#include "config/servers/server.h"
#include "config/servers/servers.h"
#include "core/letter_case.h"

namespace twin {
namespace {

// V1 before asynchronous scheduling.
constexpr std::string_view kV1InTurn = "vllm-0.8.5";

// vLLM starts V1 since 0.8.0, and with asynchronous scheduling since 0.14.0 (vllm-project/vllm pull
// request 27614). Before 0.8.4 it starts with 1,024 sequences on every GPU (16158).
constexpr std::array kVllmPresets = {
    ServerPreset{"vllm-0.6.3", "vllm_v0", "defaults of vLLM V0; boundary of 0.23.0", {0, 6, 3}},
    ServerPreset{kV1InTurn,
                 "vllm_v1",
                 "defaults of 0.8.5, decisions of 0.15.1 in turn with the device; boundary of "
                 "0.15.1",
                 {0, 8, 0},
                 kBoundarySecondsBefore0230},
    ServerPreset{"vllm-0.15.1",
                 "vllm_v1",
                 "defaults of 0.15.1; boundary of recorded runs",
                 {0, 14, 0},
                 kBoundarySecondsBefore0230,
                 true},
    ServerPreset{"vllm-0.19.0",
                 "vllm_v1",
                 "defaults and boundary of 0.15.1",
                 {0, 19, 0},
                 kBoundarySecondsBefore0230},
    ServerPreset{"vllm-0.23.0",
                 "vllm_v1",
                 "defaults of 0.15.1; boundary of recorded runs",
                 {0, 23, 0},
                 kBoundarySeconds,
                 true},
    ServerPreset{"vllm-0.33.0", "vllm_v1", "defaults of 0.33.0; boundary of 0.23.0", {0, 33, 0}}};

// Releases of vLLM V1 that decide alike: from `since` on, until the next row. Each minor release
// from the second row on was executed (checks/originals/README.md).
struct VllmDecisions {
  ServerVersion since;
  std::string_view release;
  proto::VllmV1Policy::Release rules;
  bool reserves_full_prompt = true;  // scheduler_reserve_full_isl
};
constexpr ServerVersion kFirstCompared = {0, 15, 1};
constexpr ServerVersion kFirstAfterCompared = {0, 34, 0};
constexpr std::array kVllmDecisions = {
    VllmDecisions{{0, 0, 0}, "0.15.1", proto::VllmV1Policy::v0_15_1},
    VllmDecisions{kFirstCompared, "0.15.1", proto::VllmV1Policy::v0_15_1},
    VllmDecisions{{0, 17, 0}, "0.17.0", proto::VllmV1Policy::v0_19_0, false},
    VllmDecisions{{0, 19, 0}, "0.19.0", proto::VllmV1Policy::v0_19_0},
    VllmDecisions{{0, 23, 0}, "0.23.0", proto::VllmV1Policy::v0_23_0},
    VllmDecisions{{0, 24, 0}, "0.24.0", proto::VllmV1Policy::v0_24_0},
    VllmDecisions{{0, 28, 0}, "0.28.0", proto::VllmV1Policy::v0_28_0},
    VllmDecisions{{0, 31, 0}, "0.31.0", proto::VllmV1Policy::v0_31_0},
    VllmDecisions{{0, 33, 0}, "0.33.0", proto::VllmV1Policy::v0_33_0}};

const VllmDecisions& FindDecisions(const ServerVersion& version) {
  const auto* const next =
      std::ranges::upper_bound(kVllmDecisions, version, {}, &VllmDecisions::since);
  return *std::prev(next);
}

bool IsA100(const HardwareSpec& hardware) {
  std::string name = hardware.name;
  std::ranges::transform(name, name.begin(), LowerCase);
  return name.find("a100") != std::string::npos;
}

// The start-up limits of vLLM V1's API server by device memory.
void FillLimits(const ModelSpec& model, const HardwareSpec& hardware, bool newest,
                const proto::VllmV1Policy& asked, proto::VllmV1Policy& policy) {
  const bool large = hardware.memory_bytes >= 70 * kGib && !IsA100(hardware);
  std::int64_t budget = large ? 8192 : 2048;
  if (newest && hardware.memory_bytes >= 160 * kGib) budget = 16384;
  std::int64_t sequences = large ? 1024 : 256;
  const std::int64_t length =
      asked.max_model_len() > 0 ? asked.max_model_len() : model.max_position;
  if (asked.has_max_num_seqs()) sequences = asked.max_num_seqs();
  if (length > 0) budget = std::min(budget, sequences * length);
  const bool chunks = !asked.has_enable_chunked_prefill() || asked.enable_chunked_prefill();
  if (!chunks) budget = std::max(budget, length);
  if (asked.has_max_num_batched_tokens()) budget = asked.max_num_batched_tokens();
  policy.set_max_num_batched_tokens(static_cast<std::int32_t>(budget));
  policy.set_max_num_seqs(static_cast<std::int32_t>(std::min(sequences, budget)));
}

void FillV1(const ServerPreset& preset, const ServerVersion& version, const ServerMachine& machine,
            const proto::Experiment& asked, proto::Experiment& defaults) {
  const bool newest = preset.name == "vllm-0.33.0";
  proto::VllmV1Policy& policy = *defaults.mutable_policy()->mutable_vllm_v1();
  const VllmDecisions& decisions = FindDecisions(version);
  policy.set_release(decisions.rules);
  if (!decisions.reserves_full_prompt) policy.set_scheduler_reserve_full_isl(false);
  FillLimits(machine.model, machine.hardware, newest, asked.policy().vllm_v1(), policy);
  policy.set_enable_chunked_prefill(true);
  policy.set_enable_prefix_caching(true);
  policy.set_async_scheduling(preset.name != kV1InTurn && machine.parallelism.pipeline == 1);
  policy.set_pipeline_parallel_size(machine.parallelism.pipeline);
  defaults.mutable_system()->mutable_memory()->set_utilization(newest ? 0.92 : 0.9);
}

// Without chunked prefill, the budget admits the longest prompt.
void FillV0(const ModelSpec& model, const proto::Experiment& asked, proto::Experiment& defaults) {
  const proto::VllmV0Policy& given = asked.policy().vllm_v0();
  proto::VllmV0Policy& policy = *defaults.mutable_policy()->mutable_vllm_v0();
  const std::int32_t length =
      given.max_model_len() > 0 ? given.max_model_len() : model.max_position;
  policy.set_enable_chunked_prefill(false);
  policy.set_max_num_batched_tokens(given.enable_chunked_prefill() ? 512 : std::max(length, 2048));
  policy.set_max_num_seqs(256);
  policy.set_watermark(0.01);
  proto::Memory& memory = *defaults.mutable_system()->mutable_memory();
  memory.set_utilization(0.9);
  memory.set_swap_bytes(4 * kGib);
}

void FillVllm(const ServerPreset& preset, const ServerVersion& version,
              const ServerMachine& machine, const proto::Experiment& asked,
              proto::Experiment& defaults) {
  if (preset.policy == "vllm_v0") {
    FillV0(machine.model, asked, defaults);
  } else {
    FillV1(preset, version, machine, asked, defaults);
  }
}

std::optional<ServerHost> FindVllmHost(const ServerMachine& /*machine*/,
                                       const proto::Policy& policy) {
  if (policy.has_vllm_v1()) {
    const std::int32_t twice = 2 * std::min(policy.vllm_v1().max_num_seqs(), 256);
    return ServerHost{policy.vllm_v1().async_scheduling() ? "v1_async" : "v1_sync",
                      static_cast<std::uint32_t>(std::min(twice, 512))};
  }
  if (policy.has_vllm_v0()) {
    return ServerHost{"v0",
                      static_cast<std::uint32_t>(std::min(policy.vllm_v0().max_num_seqs(), 256))};
  }
  return std::nullopt;
}

std::optional<PositionRule> FindVllmPositions(std::string_view policy,
                                              const std::optional<ServerName>& name) {
  if (policy != "vllm_v1") return std::nullopt;
  constexpr ServerVersion kStartsShort = {0, 11, 1};
  const bool earlier =
      name && name->family == "vllm" && name->version && *name->version < kStartsShort;
  return earlier ? PositionRule::kVllmBefore0111 : PositionRule::kVllm;
}

constexpr ServerSettings kVllmSettings[] = {
    {"vllm_v0", true, {"max_num_batched_tokens", "max_num_seqs", "max_model_len"}},
    {"vllm_v1", true, {"max_num_batched_tokens", "max_num_seqs", "max_model_len"}}};

constexpr ServerFlag kVllmFlags[] = {{"--tensor-parallel-size", FlagSetting::kTensorParallel},
                                     {"--pipeline-parallel-size", FlagSetting::kPipelineParallel},
                                     {"--data-parallel-size", FlagSetting::kReplicas},
                                     {"--quantization", FlagSetting::kWeightFormat},
                                     {"--kv-cache-dtype", FlagSetting::kKvFormat},
                                     {"--gpu-memory-utilization", FlagSetting::kMemoryShare},
                                     {"--max-num-batched-tokens", FlagSetting::kTokenBudget},
                                     {"--max-num-seqs", FlagSetting::kMaxNumSeqs},
                                     {"--max-model-len", FlagSetting::kMaxModelLen},
                                     {"--enable-prefix-caching", FlagSetting::kPrefixCaching},
                                     {"--no-enable-prefix-caching", FlagSetting::kNoPrefixCaching}};

std::string VllmCommand(const LaunchSettings& settings) {
  const auto flag = [](FlagSetting setting) { return FlagOf(kVllmFlags, setting); };
  std::string command =
      fmt::format("vllm serve {} {} {}", CheckpointArgument(settings, true),
                  flag(FlagSetting::kTensorParallel), settings.parallelism.tensor);
  if (settings.parallelism.pipeline > 1) {
    command +=
        fmt::format(" {} {}", flag(FlagSetting::kPipelineParallel), settings.parallelism.pipeline);
  }
  if (settings.weight_dtype == DType::kFp8) {
    command += fmt::format(" {} fp8", flag(FlagSetting::kWeightFormat));
  }
  command += FlagArgument(flag(FlagSetting::kTokenBudget), settings.token_budget);
  command += FlagArgument(flag(FlagSetting::kMaxNumSeqs), settings.max_num_seqs);
  command += fmt::format(" {} {}", flag(FlagSetting::kMaxModelLen), settings.context_tokens);
  command += FlagArgument(flag(FlagSetting::kMemoryShare), settings.gpu_memory_utilization);
  // Prefill and decode replicas take the same option: the proxy in front of them decides who
  // prefills.
  if (settings.separates_prefill)
    command += R"( --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}')";
  return command;
}

}  // namespace

const Server kVllmServer = {.family = "vllm",
                            .title = "vLLM",
                            .presets = kVllmPresets,
                            .library = "",
                            .boundary_log_sd = 0.2,
                            .fill_defaults = FillVllm,
                            .find_host = FindVllmHost,
                            .find_position_rule = FindVllmPositions,
                            .settings = kVllmSettings,
                            .flags = kVllmFlags,
                            .launch_command = VllmCommand};

std::optional<ServerDecisions> DecisionsOfServer(std::string_view name) {
  const std::optional<ListedServer> found = FindServer(name);
  if (!found || found->preset->policy != "vllm_v1") return std::nullopt;
  const ServerVersion& version = found->version;
  return ServerDecisions{FindDecisions(version).release,
                         version >= kFirstCompared && version < kFirstAfterCompared};
}

}  // namespace twin
