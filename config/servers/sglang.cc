#include <algorithm>
#include <array>
#include <cmath>

#include "config/experiment.pb.h"
#include "config/servers/launch_command.h"
#include "config/servers/layer_defaults.h"
#include "config/servers/server.h"

namespace twin {
namespace {

constexpr std::array kSglangPresets = {
    ServerPreset{"sglang-0.5.23",
                 "sglang",
                 "defaults of SGLang 0.5.23; estimates: host and boundary of vLLM 0.23.0",
                 {0, 5, 23}}};

// SGLang's decisions when nobody says anything, read in the Python sources of 0.5.23, srt/.
constexpr LayerRule kSglangRules[] = {
    {.since = {0, 5, 23},
     .source = "arg_groups/overrides.py, _page_size_default, _pipeline_parallel_overlap_disable; "
               "arg_groups/memory_hook.py",
     .prefix_caching = true,
     .chunks = DefaultChunks::kOn,
     .ahead = PlansAhead::kOneStage,
     .block_size = 1,
     .format = KeptFormat::kModel},
    {.since = {0, 5, 23},
     .source = "arg_groups/model_override_base.py, get_default_attn_backend: trtllm_mha, "
               "trtllm_mla; arg_groups/overrides.py, _mla_backend_page_constraints",
     .device = DeviceClass::kBlackwell,
     .block_size = 64},
    {.since = {0, 5, 23},
     .kinds = kWindowKinds,
     .source = "configs/model_config.py, is_hybrid_swa_model",
     .own_pool = true,
     .difference = DefaultDifference{"keeps windows in a pool of their own for the architectures "
                                     "that it lists, of which the model's name tells none; here "
                                     "they have one (policy.sglang.hybrid_swa_memory)",
                                     DifferenceMatters::kBesideFullLayers}},
    {.since = {0, 5, 23},
     .kinds = kWindowKinds,
     .source = "configs/model_config.py, is_hybrid_swa_model",
     .models =
         "gpt-oss|gpt_oss|llama-4|llama4|gemma-4|gemma4|mimo-v2|step-3.5|step-3.7|deepseek-v4",
     .difference = DefaultDifference{}},
    {.since = {0, 5, 23},
     .kinds = kWindowKinds,
     .source = "configs/model_config.py, is_hybrid_swa_model; arg_groups/model_overrides: "
               "disable_hybrid_swa_memory",
     .models = "gemma-2|gemma-3|gemma2|gemma3|exaone|olmo|command|cohere|mistral|ministral|phi",
     .own_pool = false,
     .difference = DefaultDifference{}},
    {.since = {0, 5, 23},
     .kinds = Kinds({LayerKind::kIndexed}),
     .source = "arg_groups/model_overrides/deepseek_v2.py",
     .block_size = 64},
    {.since = {0, 5, 23},
     .kinds = Kinds({LayerKind::kIndexed}),
     .source = "arg_groups/overrides.py, _dsa_kv_cache_dtype_default",
     .device = DeviceClass::kBlackwell,
     .format = KeptFormat::kFp8},
    {.since = {0, 5, 23},
     .kinds = kStateKinds,
     .source = "arg_groups/overrides.py, _mamba_radix_cache_resolution: extra_buffer; "
               "arg_groups/fields/exec_.py, mamba_track_interval; configs/mamba_utils.py",
     .format = KeptFormat::k32Bits,
     .difference = DefaultDifference{"finds prefixes of models with states at multiples of 256 "
                                     "tokens; here at the end of any block",
                                     DifferenceMatters::kSharedPrefixes}}};

// SGLang's sizes by device memory, in the order of its table (arg_groups/memory_hook.py).
struct SglangTier {
  std::int64_t memory_below;  // bytes
  std::int32_t chunk;         // tokens
  std::uint32_t captured;     // largest captured batch with fewer than 4 ranks
  std::uint32_t captured_by_more_ranks;
};
constexpr std::array kSglangTiers = {
    SglangTier{20 * kGib, 2048, 8, 8}, SglangTier{35 * kGib, 4096, 48, 160},
    SglangTier{60 * kGib, 4096, 32, 160}, SglangTier{160 * kGib, 8192, 256, 512}};
constexpr SglangTier kSglangLargest = {0, 16384, 512, 512};

const SglangTier& FindSglangTier(const HardwareSpec& hardware) {
  for (const SglangTier& tier : kSglangTiers) {
    if (hardware.memory_bytes < tier.memory_below) return tier;
  }
  return kSglangLargest;
}

std::uint32_t SglangCaptured(const HardwareSpec& hardware, const Parallelism& parallelism) {
  const SglangTier& tier = FindSglangTier(hardware);
  return parallelism.tensor < 4 ? tier.captured : tier.captured_by_more_ranks;
}

// mem_fraction_static: the share of memory left by activations (1.5 MiB a token of the largest
// step), graphs (2 MiB a sequence) and communication, to a thousandth.
double SglangMemoryShare(const HardwareSpec& hardware, const Parallelism& parallelism,
                         std::int32_t step_tokens) {
  constexpr double kMib = 1 << 20;
  const double total = static_cast<double>(hardware.memory_bytes) / kMib;
  double reserved = 512 + 1.5 * std::max(step_tokens, 2048) +
                    2.0 * SglangCaptured(hardware, parallelism) +
                    parallelism.devices() / 8.0 * 1024;
  if (hardware.memory_bytes > 60 * kGib) reserved = std::max(reserved, 10.0 * 1024);
  return std::max(std::round(1000 * (total - reserved) / total) / 1000, 0.001);
}

bool HasWindows(const ModelSpec& model) {
  const std::vector<LayerKind> kinds = KindsOf(model);
  return std::ranges::find(kinds, LayerKind::kWindow) != kinds.end();
}

void FillSglang(const ServerPreset& /*preset*/, const ServerVersion& version,
                const ServerMachine& machine, const proto::Experiment& asked,
                proto::Experiment& defaults) {
  const proto::SglangPolicy& given = asked.policy().sglang();
  proto::SglangPolicy& policy = *defaults.mutable_policy()->mutable_sglang();
  const std::int32_t chunk = FindSglangTier(machine.hardware).chunk;
  policy.set_chunked_prefill_size(chunk);
  const LayerDefaults layers =
      DefaultsOfModel(kSglangRules, version, machine.model, machine.hardware);
  policy.set_radix_cache(layers.prefix_caching);
  policy.set_overlap(layers.ahead == PlansAhead::kAlways || machine.parallelism.pipeline == 1);
  if (HasWindows(machine.model)) policy.set_hybrid_swa_memory(layers.own_pool);
  std::int32_t step = given.has_chunked_prefill_size() ? given.chunked_prefill_size() : chunk;
  if (step <= 0) step = given.has_max_prefill_tokens() ? given.max_prefill_tokens() : 16384;
  proto::System& system = *defaults.mutable_system();
  FillLayers(layers, system);
  system.mutable_memory()->set_utilization(
      SglangMemoryShare(machine.hardware, machine.parallelism, step));
}

std::optional<StepPreparation> FindSglangStepPreparation(const ServerMachine& machine,
                                                         const proto::Policy& policy) {
  if (!policy.has_sglang()) return std::nullopt;
  const bool overlaps = !policy.sglang().has_overlap() || policy.sglang().overlap();
  return StepPreparation{overlaps ? "sglang" : "v1_sync",
                         SglangCaptured(machine.hardware, machine.parallelism)};
}

std::optional<PositionRule> FindSglangPositions(std::string_view policy,
                                                const std::optional<ServerName>& /*name*/) {
  return policy == "sglang" ? std::optional(PositionRule::kSglang) : std::nullopt;
}

std::string SglangCommand(const LaunchSettings& settings) {
  const auto flag = [](Setting setting) { return FlagOf("sglang", setting); };
  std::string command = fmt::format("python -m sglang.launch_server --model-path {} {} {}",
                                    CheckpointArgument(settings, true),
                                    flag(Setting::kTensorParallel), settings.parallelism.tensor);
  if (settings.weight_dtype == DType::kFp8) {
    command += fmt::format(" {} fp8", flag(Setting::kWeightFormat));
  }
  command += FlagArgument(flag(Setting::kTokenBudget), settings.token_budget);
  command += FlagArgument(flag(Setting::kMaxNumSeqs), settings.max_num_seqs);
  command += FlagArgument(flag(Setting::kSchedulePolicy), settings.schedule_policy);
  command += fmt::format(" {} {}", flag(Setting::kMaxModelLen), settings.context_tokens);
  return command + FlagArgument(flag(Setting::kMemoryShare), settings.gpu_memory_utilization);
}

}  // namespace

const Server kSglangServer = {.family = "sglang",
                              .title = "SGLang",
                              .presets = kSglangPresets,
                              .layer_rules = kSglangRules,
                              .programs = "sglang serve|sglang.launch_server|dynamo.sglang",
                              .image = "lmsysorg/sglang:v{}",
                              .listen = "--host 0.0.0.0",
                              .library = "sglang",
                              .fill_defaults = FillSglang,
                              .find_step_preparation = FindSglangStepPreparation,
                              .find_position_rule = FindSglangPositions,
                              .launch_command = SglangCommand};

}  // namespace twin
