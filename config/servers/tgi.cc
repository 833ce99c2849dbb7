#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "config/experiment.pb.h"
#include "config/servers/launch_command.h"
#include "config/servers/layer_defaults.h"
#include "config/servers/server.h"
#include "core/layer_groups.h"

namespace twin {
namespace {

// TGI has chunks and prefix caching since 3.0.
constexpr std::array kTgiPresets = {
    ServerPreset{"tgi-2.0.4",
                 "tgi_v2",
                 "defaults of TGI 2.0.4; estimates: host of vLLM V0, boundary of vLLM 0.23.0",
                 {2, 0, 4}},
    ServerPreset{"tgi-3.3.7",
                 "tgi_v3",
                 "defaults of TGI 3.3.7; estimates: host of vLLM V0, boundary of vLLM 0.23.0",
                 {3, 0, 0}}};

// TGI's decisions when nobody says anything: launcher/src/main.rs and
// server/text_generation_server/models of 2.0 and 3.x.
constexpr LayerRule kTgiRules[] = {
    {.since = {2, 0, 4},
     .source = "server/text_generation_server/models/cache_manager.py; not verified: each kind",
     .prefix_caching = false,
     .chunks = DefaultChunks::kOff,
     .ahead = PlansAhead::kNo,
     .block_size = 16,
     .format = KeptFormat::kModel},
    {.since = {3, 0, 0},
     .source = "launcher/src/main.rs, resolve_attention: flashinfer, for heads of 64, 128 or 256; "
               "other heads: flashdecoding, in blocks of 256, without prefix caching; "
               "models/globals.py; models/model.py. Off beside a vision tower",
     .prefix_caching = true,
     .chunks = DefaultChunks::kOn,
     .block_size = 1},
    {.since = {3, 0, 0},
     .source = "launcher/src/main.rs, resolve_attention: flashdecoding",
     .models = "falcon",
     .block_size = 256},
    {.since = {3, 0, 0},
     .kinds = kLatentKinds,
     .source = "launcher/src/main.rs, resolve_attention: flashdecoding",
     .block_size = 256},
    {.since = {3, 0, 0},
     .kinds = kStateKinds,
     .source = "not verified: TGI has no model of its own with attention and states",
     .prefix_caching = false,
     .difference = DefaultDifference{"has no implementation of models with attention and states; "
                                     "here they are served as other models are"}}};

// flashinfer has kernels for these. TGI takes the size from config.json, which of models with
// latent vectors says hidden size and heads alone.
bool HasFlashInferHeads(const ModelSpec& model) {
  const std::vector<LayerGroup> groups = OrderedLayers(model);
  const auto first = std::ranges::find_if(
      groups, [](const LayerGroup& group) { return group.layer.query_heads > 0; });
  if (first == groups.end()) return false;
  const LayerSpec& layer = first->layer;
  const std::int32_t size = layer.latent ? model.hidden / layer.query_heads : layer.head_dim;
  return size == 64 || size == 128 || size == 256;
}

// TGI captures graphs for batches of 1, 2, 4, 8, 16 and 32.
constexpr std::uint32_t kTgiCapturedMax = 32;
constexpr std::int32_t kTgiDefaultConcurrency = 128;

// Requests of more than 4,096 tokens are refused unless the operator allows them. A prefill holds
// the longest prompt, and 50 tokens more.
void FillTgi2(const ModelSpec& model, const LayerDefaults& layers, const proto::Experiment& asked,
              proto::Experiment& defaults) {
  const proto::TgiV2Policy& given = asked.policy().tgi_v2();
  proto::TgiV2Policy& policy = *defaults.mutable_policy()->mutable_tgi_v2();
  std::int32_t length = model.max_position > 0 ? std::min(model.max_position, 4096) : 4096;
  if (given.max_total_tokens() > 0) length = given.max_total_tokens();
  policy.set_max_total_tokens(length);
  policy.set_max_batch_prefill_tokens(length - 1 + 50);
  policy.set_max_batch_total_tokens(0);
  policy.set_max_batch_size(0);
  policy.set_waiting_served_ratio(0.3);
  policy.set_max_waiting_tokens(20);
  policy.set_max_concurrent_requests(kTgiDefaultConcurrency);
  FillLayers(layers, *defaults.mutable_system());
  defaults.mutable_system()->mutable_memory()->set_utilization(1.0);
}

// The prefill is as large as what the devices compute in a second by their data sheets, at most the
// model's longest prompt. TGI's further limit by device memory is not reproduced.
void FillTgi3(const ServerMachine& machine, LayerDefaults layers, proto::Experiment& defaults) {
  const auto& [model, hardware, parallelism] = machine;
  proto::TgiV3Policy& policy = *defaults.mutable_policy()->mutable_tgi_v3();
  if (!HasFlashInferHeads(model)) {
    layers.prefix_caching = false;
    layers.block_size = 256;
  }
  const double flops = hardware.peak_bf16_flops * parallelism.devices();
  const double per_token = 2.0 * static_cast<double>(ActiveLayerParameters(model));
  double tokens = per_token > 0 ? std::floor(flops / per_token) : 0;
  if (tokens <= 100) tokens = 4096;
  if (model.max_position > 0) tokens = std::min(tokens, double{1} * model.max_position);
  policy.set_max_batch_prefill_tokens(static_cast<std::int32_t>(std::min(tokens, 1e6)));
  policy.set_max_batch_total_tokens(0);
  policy.set_prefill_chunking(layers.chunks == DefaultChunks::kOn);
  policy.set_prefix_caching(layers.prefix_caching);
  policy.set_max_concurrent_requests(kTgiDefaultConcurrency);
  FillLayers(layers, *defaults.mutable_system());
  defaults.mutable_system()->mutable_memory()->set_utilization(1.0);
}

void FillTgi(const ServerPreset& preset, const ServerVersion& version, const ServerMachine& machine,
             const proto::Experiment& asked, proto::Experiment& defaults) {
  const LayerDefaults layers = DefaultsOfModel(kTgiRules, version, machine.model, machine.hardware);
  if (preset.policy == "tgi_v2") {
    FillTgi2(machine.model, layers, asked, defaults);
  } else {
    FillTgi3(machine, layers, defaults);
  }
}

std::optional<StepPreparation> FindTgiStepPreparation(const ServerMachine& /*machine*/,
                                                      const proto::Policy& policy) {
  if (!policy.has_tgi_v2() && !policy.has_tgi_v3()) return std::nullopt;
  return StepPreparation{"v0", kTgiCapturedMax};
}

std::optional<PositionRule> FindTgiPositions(std::string_view policy,
                                             const std::optional<ServerName>& /*name*/) {
  const bool is_tgi = policy == "tgi_v2" || policy == "tgi_v3";
  return is_tgi ? std::optional(PositionRule::kTgi) : std::nullopt;
}

std::string TgiCommand(const LaunchSettings& settings) {
  const auto flag = [](Setting setting) { return FlagOf("tgi", setting); };
  std::string command = fmt::format("text-generation-launcher --model-id {} {} {}",
                                    CheckpointArgument(settings, true),
                                    flag(Setting::kTensorParallel), settings.parallelism.tensor);
  if (settings.weight_dtype == DType::kFp8) {
    command += fmt::format(" {} fp8", flag(Setting::kWeightFormat));
  }
  command += FlagArgument(flag(Setting::kTokenBudget), settings.token_budget);
  command += FlagArgument(flag(Setting::kMaxBatchTotalTokens), settings.max_batch_total_tokens);
  command += FlagArgument(flag(Setting::kMaxNumSeqs), settings.max_num_seqs);
  command += FlagArgument(flag(Setting::kWaitingServedRatio), settings.waiting_served_ratio);
  const std::int64_t longest = settings.context_tokens;
  command += fmt::format(" --max-input-tokens {} {} {}", longest - 1, flag(Setting::kMaxModelLen),
                         longest);
  command += FlagArgument(flag(Setting::kMemoryShare), settings.gpu_memory_utilization);
  return command +
         FlagArgument(flag(Setting::kMaxConcurrentRequests), settings.max_concurrent_requests);
}

}  // namespace

const Server kTgiServer = {.family = "tgi",
                           .title = "TGI",
                           .presets = kTgiPresets,
                           .layer_rules = kTgiRules,
                           .programs = "text-generation-launcher|tgi-entrypoint.sh",
                           .image = "ghcr.io/huggingface/text-generation-inference:{}",
                           .listen = "--hostname 0.0.0.0",
                           .library = "",
                           .fill_defaults = FillTgi,
                           .find_step_preparation = FindTgiStepPreparation,
                           .find_position_rule = FindTgiPositions,
                           .launch_command = TgiCommand};

}  // namespace twin
