#include <array>

#include "config/experiment.pb.h"
#include "config/servers/launch_command.h"
#include "config/servers/layer_defaults.h"
#include "config/servers/server.h"

namespace twin {
namespace {

constexpr std::array kTrtllmPresets = {
    ServerPreset{"trtllm-1.0.0",
                 "trtllm",
                 "defaults of TensorRT-LLM 1.0; estimates: host hidden, boundary of vLLM 0.23.0",
                 {1, 0, 0}}};

// TensorRT-LLM's decisions with its PyTorch back end when nobody says anything: Python sources
// of 1.0, read at revisions near the release.
constexpr LayerRule kTrtllmRules[] = {
    {.since = {1, 0, 0},
     .source = "llmapi/llm_args.py, KvCacheConfig, enable_chunked_prefill, "
               "disable_overlap_scheduler",
     .prefix_caching = true,
     .chunks = DefaultChunks::kOff,
     .ahead = PlansAhead::kAlways,
     .block_size = 32,
     .format = KeptFormat::kModel,
     .difference = DefaultDifference{"reuses the blocks of shared prefixes (enable_block_reuse); "
                                     "here every prompt is computed",
                                     DifferenceMatters::kUncachedPrefixes}},
    {.since = {1, 0, 0},
     .kinds = kLatentKinds,
     .source = "_torch/pyexecutor/py_executor_creator.py: reuse on SM90 and SM100 alone",
     .device = DeviceClass::kOther,
     .prefix_caching = false,
     .difference = DefaultDifference{}},
    {.since = {1, 0, 0},
     .kinds = kLatentKinds,
     .source = "_torch/pyexecutor/py_executor_creator.py: FlashMLA",
     .device = DeviceClass::kHopper,
     .block_size = 64},
    {.since = {1, 0, 0},
     .kinds = kWindowKinds,
     .source = "max_attention_window of llmapi/llm_args.py; not verified: reuse with windows",
     .own_pool = false},
    {.since = {1, 0, 0},
     .kinds = kStateKinds,
     .source =
         "_torch/pyexecutor/mamba_cache_manager.py: starts with block reuse switched off alone",
     .prefix_caching = false,
     .format = KeptFormat::k16Bits,
     .difference = DefaultDifference{}}};

void FillTrtllm(const ServerPreset& /*preset*/, const ServerVersion& version,
                const ServerMachine& machine, const proto::Experiment& /*asked*/,
                proto::Experiment& defaults) {
  const LayerDefaults layers =
      DefaultsOfModel(kTrtllmRules, version, machine.model, machine.hardware);
  proto::TrtllmPolicy& policy = *defaults.mutable_policy()->mutable_trtllm();
  policy.set_capacity_scheduler_policy(proto::TrtllmPolicy::GUARANTEED_NO_EVICT);
  policy.set_context_chunking_policy(proto::TrtllmPolicy::none);
  policy.set_max_batch_size(2048);
  policy.set_max_num_tokens(8192);
  proto::System& system = *defaults.mutable_system();
  FillLayers(layers, system);
  system.mutable_memory()->set_utilization(0.9);
}

// Its overlap scheduler hides the host.
std::optional<StepPreparation> FindTrtllmStepPreparation(const ServerMachine& /*machine*/,
                                                         const proto::Policy& policy) {
  if (!policy.has_trtllm()) return std::nullopt;
  return StepPreparation{"trtllm", 512, true};
}

std::optional<PositionRule> FindTrtllmPositions(std::string_view policy,
                                                const std::optional<ServerName>& /*name*/) {
  return policy == "trtllm" ? std::optional(PositionRule::kTrtLlm) : std::nullopt;
}

// Chunked prefills are switched on by a file, which every release of trtllm-serve reads.
std::string TrtllmCommand(const LaunchSettings& settings) {
  const auto flag = [](Setting setting) { return FlagOf("trtllm", setting); };
  const bool chunks = settings.chunks_prefills;
  std::string command =
      chunks ? "echo 'enable_chunked_prefill: true' > trtllm.yaml && " : std::string();
  command += fmt::format("trtllm-serve {} {} {}", CheckpointArgument(settings, false),
                         flag(Setting::kTensorParallel), settings.parallelism.tensor);
  command += FlagArgument(flag(Setting::kMaxNumSeqs), settings.max_num_seqs);
  command += FlagArgument(flag(Setting::kTokenBudget), settings.token_budget);
  command += fmt::format(" {} {}", flag(Setting::kMaxModelLen), settings.context_tokens);
  command += FlagArgument(flag(Setting::kMemoryShare), settings.gpu_memory_utilization);
  return chunks ? command + " --extra_llm_api_options trtllm.yaml" : command;
}

}  // namespace

const Server kTrtllmServer = {.family = "trtllm",
                              .title = "TensorRT-LLM",
                              .presets = kTrtllmPresets,
                              .layer_rules = kTrtllmRules,
                              .programs = "trtllm-serve serve|trtllm-serve|dynamo.trtllm",
                              .image = "nvcr.io/nvidia/tensorrt-llm/release:{}",
                              .listen = "--host 0.0.0.0",
                              .library = "trtllm",
                              .fill_defaults = FillTrtllm,
                              .find_step_preparation = FindTrtllmStepPreparation,
                              .find_position_rule = FindTrtllmPositions,
                              .launch_command = TrtllmCommand};

}  // namespace twin
