#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "config/experiment.pb.h"
#include "config/servers/launch_command.h"
#include "config/servers/layer_defaults.h"
#include "config/servers/server.h"
#include "config/servers/servers.h"
#include "core/letter_case.h"

namespace twin {
namespace {

// vLLM starts V1 since 0.8.0, and with asynchronous scheduling since 0.14.0 (vllm-project/vllm pull
// request 27614). Before 0.8.4 it starts with 1,024 sequences on every GPU (16158).
constexpr std::array kVllmPresets = {
    ServerPreset{"vllm-0.6.3", "vllm_v0", "defaults of vLLM V0; boundary of 0.23.0", {0, 6, 3}},
    ServerPreset{"vllm-0.8.5",
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
                 "defaults of 0.19.0; boundary of 0.15.1",
                 {0, 19, 0},
                 kBoundarySecondsBefore0230},
    ServerPreset{"vllm-0.23.0",
                 "vllm_v1",
                 "defaults of 0.23.0; boundary of recorded runs",
                 {0, 23, 0},
                 kBoundarySeconds,
                 true},
    ServerPreset{"vllm-0.33.0", "vllm_v1", "defaults of 0.33.0; boundary of 0.23.0", {0, 33, 0}}};

// vLLM's decisions when nobody says anything, read in the Python sources of the releases that a
// rule names; what changed between two of them is dated to the later one. The block of attention
// beside states is as long as a state is large (sim/devices/kv_grouping.h).
constexpr LayerRule kVllmRules[] = {
    {.since = {0, 6, 3},
     .source = "engine/arg_utils.py, create_engine_config (0.6.3, 0.7.3)",
     .prefix_caching = false,
     .chunks = DefaultChunks::kLongContexts,
     .ahead = PlansAhead::kNo,
     .block_size = 16,
     .format = KeptFormat::kModel},
    {.since = {0, 6, 3},
     .kinds = Kinds({LayerKind::kWindow}),
     .source = "engine/arg_utils.py, create_engine_config (0.6.3, 0.7.3)",
     .chunks = DefaultChunks::kOff},
    {.since = {0, 6, 3},
     .kinds = kLatentKinds,
     .source = "models/deepseek_v2.py (0.6.3); no latent attention before 0.7",
     .difference = DefaultDifference{"caches the keys and values of all heads, of which far fewer "
                                     "fit; here the cache holds latent vectors"}},
    {.since = {0, 7, 0},
     .kinds = kLatentKinds,
     .source = "config.py, use_mla (0.7.3)",
     .difference = DefaultDifference{}},
    {.since = {0, 8, 0},
     .source = "engine/arg_utils.py, _set_default_args_v1 (0.8.5 to 0.11.2); config/model.py, "
               "is_prefix_caching_supported, is_chunked_prefill_supported (0.12.0 to 0.33.0)",
     .prefix_caching = true,
     .chunks = DefaultChunks::kOn},
    {.since = {0, 8, 0},
     .kinds = kStateKinds,
     .source = "engine/arg_utils.py, _is_v1_supported_oracle (0.8.5, 0.9.2, 0.10.0); "
               "models/config.py (0.10.2, 0.11.0); engine/arg_utils.py (0.11.2); config/model.py, "
               "is_prefix_caching_supported (0.12.0 to 0.25.1)",
     .prefix_caching = false,
     .block_size = 0,
     .format = KeptFormat::k16Bits,
     .difference = DefaultDifference{"runs models with states in its engine V0; here V1 decides"}},
    {.since = {0, 8, 0},
     .kinds = kWindowKinds,
     .source = "v1/core/kv_cache_utils.py, unify_hybrid_kv_cache_specs (0.8.5)",
     .difference = DefaultDifference{"keeps all tokens of all layers, as some layers see all; here "
                                     "windows and chunks give back what they no longer see",
                                     DifferenceMatters::kBesideFullLayers}},
    {.since = {0, 8, 0},
     .kinds = kLatentKinds,
     .source = "platforms/cuda.py, check_and_update_config (0.8.5 to 0.17.0): FlashMLA",
     .device = DeviceClass::kHopper,
     .block_size = 64},
    {.since = {0, 9, 2},
     .kinds = kWindowKinds,
     .source = "config.py, disable_hybrid_kv_cache_manager (0.9.2)",
     .difference = DefaultDifference{}},
    {.since = {0, 10, 1},
     .kinds = Kinds({LayerKind::kChunked}),
     .source = "envs.py, VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE (0.10.2 to 0.13.0)",
     .difference = DefaultDifference{"keeps all tokens of layers with chunks; here they give back "
                                     "those before the current chunk"}},
    {.since = {0, 10, 2},
     .kinds = kStateKinds,
     .source = "engine/arg_utils.py, _set_default_args (0.10.2): V1 alone",
     .difference = DefaultDifference{}},
    {.since = {0, 10, 2},
     .kinds = Kinds({LayerKind::kLatent}),
     .source = "platforms/cuda.py, check_and_update_config (0.10.2 to 0.14.0): CUTLASS_MLA",
     .device = DeviceClass::kBlackwell,
     .block_size = 128},
    {.since = {0, 11, 0},
     .kinds = Kinds({LayerKind::kIndexed}),
     .source = "platforms/cuda.py, use_sparse (0.11.0); models/config.py, DeepseekV32ForCausalLM "
               "(0.11.0)",
     .block_size = 64,
     .format = KeptFormat::kFp8,
     .difference = DefaultDifference{"caches 656 bytes a token (fp8_ds_mla); here 8 bits a number, "
                                     "576 bytes"}},
    {.since = {0, 11, 2},
     .kinds = Kinds({LayerKind::kIndexed}),
     .source = "models/config.py, DeepseekV32ForCausalLM (0.11.2 to 0.33.0)",
     .format = KeptFormat::kModel,
     .difference = DefaultDifference{}},
    {.since = {0, 14, 0},
     .source = "config/vllm.py (0.14.0; pull request 27614; 0.15 not read)",
     .ahead = PlansAhead::kOneStage},
    {.since = {0, 14, 0},
     .kinds = Kinds({LayerKind::kChunked}),
     .source = "envs.py, VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE (0.14.0 to 0.33.0)",
     .difference = DefaultDifference{}},
    {.since = {0, 16, 0},
     .source = "config/vllm.py (0.16.0 to 0.33.0)",
     .ahead = PlansAhead::kAlways,
     .stage_difference = DefaultDifference{"plans steps ahead with several stages, too; here "
                                           "the next step of a request waits for its result",
                                           DifferenceMatters::kStages}},
    {.since = {0, 16, 0},
     .kinds = Kinds({LayerKind::kLatent}),
     .source = "platforms/cuda.py, check_and_update_config (0.16.0, 0.17.0): FLASHINFER_MLA",
     .device = DeviceClass::kBlackwell,
     .block_size = 64},
    {.since = {0, 18, 0},
     .kinds = Kinds({LayerKind::kLatent}),
     .source = "platforms/cuda.py, _get_backend_priorities (0.18.0 to 0.33.0): FLASH_ATTN_MLA",
     .device = DeviceClass::kHopper,
     .block_size = 16},
    {.since = {0, 18, 0},
     .kinds = Kinds({LayerKind::kLatent}),
     .source = "platforms/cuda.py, _get_backend_priorities (0.18.0 to 0.33.0): FLASHINFER_MLA",
     .device = DeviceClass::kBlackwell,
     .block_size = 32},
    {.since = {0, 18, 0},
     .kinds = Kinds({LayerKind::kLatent}),
     .source =
         "v1/attention/backends/mla (0.18.0 to 0.33.0): FLASHMLA, as FLASH_ATTN_MLA has no fp8",
     .device = DeviceClass::kHopper,
     .of_8_bits = true,
     .block_size = 64},
    {.since = {0, 26, 0},
     .kinds = kStateKinds,
     .source = "config/model.py, is_prefix_caching_supported (0.26.0 to 0.33.0); models/config.py, "
               "MambaModelConfig: mode align",
     .prefix_caching = true},
    {.since = {0, 26, 0},
     .kinds = Kinds({LayerKind::kMamba}),
     .source = "models/config.py, MambaModelConfig (0.26.0, 0.27.1): mode all",
     .difference = DefaultDifference{"keeps the states of Mamba-2 at every block (mamba_cache_mode "
                                     "all); here, as since 0.28.0, those at ends of chunks (align)",
                                     DifferenceMatters::kSharedPrefixes}},
    {.since = {0, 28, 0},
     .kinds = Kinds({LayerKind::kMamba}),
     .source = "models/config.py, MambaModelConfig (0.28.0 to 0.33.0): mode align",
     .difference = DefaultDifference{}},
    {.since = {0, 31, 0},
     .source = "config/vllm.py, use_v2_model_runner (0.31.0, 0.33.0)",
     .stage_difference = DefaultDifference{}},
    {.since = {0, 31, 0},
     .kinds = Kinds({LayerKind::kIndexed}),
     .source = "models/config.py, GlmMoeDsaForCausalLM (0.31.0, 0.33.0)",
     .device = DeviceClass::kBlackwell,
     .models = "glm",
     .format = KeptFormat::kFp8}};

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

// The start-up limits of vLLM V1's API server by device memory (engine/arg_utils.py of 0.8.5,
// 0.9.2, 0.27.1 and 0.28.0).
void FillLimits(const ModelSpec& model, const HardwareSpec& hardware, const ServerVersion& version,
                const proto::VllmV1Policy& asked, proto::VllmV1Policy& policy) {
  constexpr ServerVersion kLessForA100 = {0, 9, 0};
  constexpr ServerVersion kMoreForB200 = {0, 28, 0};
  const bool large =
      hardware.memory_bytes >= 70 * kGib && (version < kLessForA100 || !IsA100(hardware));
  std::int64_t budget = large ? 8192 : 2048;
  if (version >= kMoreForB200 && hardware.memory_bytes >= 160 * kGib) budget = 16384;
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

// Which drafts are verified in steps that are planned ahead: those of an EAGLE head or a module of
// multi-token prediction, of a draft model since 0.26.0, and n-grams since 0.33.0 (config/vllm.py
// of 0.25.1, 0.26.0, 0.31.0 and 0.33.0). With several stages, the simulation plans ahead as the
// releases do whose second model runner takes every model.
bool PlansStepsAhead(PlansAhead ahead, const ServerVersion& version, std::int32_t stages,
                     const proto::Experiment& asked) {
  constexpr ServerVersion kStages = {0, 31, 0};
  constexpr ServerVersion kDraftModels = {0, 26, 0};
  constexpr ServerVersion kNgrams = {0, 33, 0};
  if (ahead == PlansAhead::kNo) return false;
  if (stages > 1 && (ahead == PlansAhead::kOneStage || version < kStages)) return false;
  if (asked.speculation().num_speculative_tokens() == 0) return true;
  switch (asked.speculation().method()) {
    case proto::Speculation::ngram:
      return version >= kNgrams;
    case proto::Speculation::draft_model:
      return version >= kDraftModels;
    default:
      return true;
  }
}

void FillV1(const ServerVersion& version, const ServerMachine& machine,
            const proto::Experiment& asked, proto::Experiment& defaults) {
  constexpr ServerVersion kMoreMemory = {0, 20, 0};  // config/cache.py of 0.19.0 and 0.20.0
  proto::VllmV1Policy& policy = *defaults.mutable_policy()->mutable_vllm_v1();
  const VllmDecisions& decisions = FindDecisions(version);
  const LayerDefaults layers =
      DefaultsOfModel(kVllmRules, version, machine.model, machine.hardware);
  policy.set_release(decisions.rules);
  if (!decisions.reserves_full_prompt) policy.set_scheduler_reserve_full_isl(false);
  FillLimits(machine.model, machine.hardware, version, asked.policy().vllm_v1(), policy);
  policy.set_enable_chunked_prefill(layers.chunks == DefaultChunks::kOn);
  policy.set_enable_prefix_caching(layers.prefix_caching);
  policy.set_async_scheduling(
      PlansStepsAhead(layers.ahead, version, machine.parallelism.pipeline, asked));
  policy.set_pipeline_parallel_size(machine.parallelism.pipeline);
  proto::System& system = *defaults.mutable_system();
  system.mutable_memory()->set_utilization(version < kMoreMemory ? 0.9 : 0.92);
  FillLayers(layers, system);
}

// Chunks of 512 tokens in 0.6.3, of 2,048 in 0.7.3. Without chunked prefill, the budget admits the
// longest prompt.
void FillV0(const ServerVersion& version, const ServerMachine& machine,
            const proto::Experiment& asked, proto::Experiment& defaults) {
  constexpr ServerVersion kLargerChunks = {0, 7, 0};
  const proto::VllmV0Policy& given = asked.policy().vllm_v0();
  proto::VllmV0Policy& policy = *defaults.mutable_policy()->mutable_vllm_v0();
  const std::int32_t length =
      given.max_model_len() > 0 ? given.max_model_len() : machine.model.max_position;
  const LayerDefaults layers =
      DefaultsOfModel(kVllmRules, version, machine.model, machine.hardware);
  const bool is_long = layers.chunks == DefaultChunks::kLongContexts && length > kLongContext;
  const bool drafts = asked.speculation().num_speculative_tokens() > 0;
  policy.set_enable_chunked_prefill(is_long && !drafts);
  const bool chunks = given.has_enable_chunked_prefill() ? given.enable_chunked_prefill()
                                                         : policy.enable_chunked_prefill();
  const std::int32_t budget = version < kLargerChunks ? 512 : 2048;
  policy.set_max_num_batched_tokens(chunks ? budget : std::max(length, 2048));
  policy.set_max_num_seqs(256);
  policy.set_watermark(0.01);
  proto::System& system = *defaults.mutable_system();
  FillLayers(layers, system);
  proto::Memory& memory = *system.mutable_memory();
  memory.set_utilization(0.9);
  memory.set_swap_bytes(4 * kGib);
}

void FillVllm(const ServerPreset& preset, const ServerVersion& version,
              const ServerMachine& machine, const proto::Experiment& asked,
              proto::Experiment& defaults) {
  if (preset.policy == "vllm_v0") {
    FillV0(version, machine, asked, defaults);
  } else {
    FillV1(version, machine, asked, defaults);
  }
}

std::optional<StepPreparation> FindVllmStepPreparation(const ServerMachine& /*machine*/,
                                                       const proto::Policy& policy) {
  if (policy.has_vllm_v1()) {
    const std::int32_t twice = 2 * std::min(policy.vllm_v1().max_num_seqs(), 256);
    return StepPreparation{policy.vllm_v1().async_scheduling() ? "v1_async" : "v1_sync",
                           static_cast<std::uint32_t>(std::min(twice, 512))};
  }
  if (policy.has_vllm_v0()) {
    return StepPreparation{
        "v0", static_cast<std::uint32_t>(std::min(policy.vllm_v0().max_num_seqs(), 256))};
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

std::string VllmCommand(const LaunchSettings& settings) {
  const auto flag = [](Setting setting) { return FlagOf("vllm", setting); };
  std::string command = fmt::format("vllm serve {} {} {}", CheckpointArgument(settings, true),
                                    flag(Setting::kTensorParallel), settings.parallelism.tensor);
  if (settings.parallelism.pipeline > 1) {
    command +=
        fmt::format(" {} {}", flag(Setting::kPipelineParallel), settings.parallelism.pipeline);
  }
  if (settings.weight_dtype == DType::kFp8) {
    command += fmt::format(" {} fp8", flag(Setting::kWeightFormat));
  }
  command += FlagArgument(flag(Setting::kTokenBudget), settings.token_budget);
  command += FlagArgument(flag(Setting::kMaxNumSeqs), settings.max_num_seqs);
  command += fmt::format(" {} {}", flag(Setting::kMaxModelLen), settings.context_tokens);
  command += FlagArgument(flag(Setting::kMemoryShare), settings.gpu_memory_utilization);
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
                            .layer_rules = kVllmRules,
                            .programs =
                                "vllm serve|vllm.entrypoints.openai.api_server|"
                                "vllm.entrypoints.api_server|dynamo.vllm",
                            .image = "vllm/vllm-openai:v{}",
                            .listen = "--host 0.0.0.0",
                            .library = "",
                            .boundary_log_sd = 0.2,
                            .fill_defaults = FillVllm,
                            .find_step_preparation = FindVllmStepPreparation,
                            .find_position_rule = FindVllmPositions,
                            .runs_pipelines = true,
                            .launch_command = VllmCommand};

std::optional<ServerDecisions> DecisionsOfServer(std::string_view name) {
  const std::optional<ListedServer> found = FindServer(name);
  if (!found || found->preset->policy != "vllm_v1") return std::nullopt;
  const ServerVersion& version = found->version;
  return ServerDecisions{FindDecisions(version).release,
                         version >= kFirstCompared && version < kFirstAfterCompared};
}

}  // namespace twin
