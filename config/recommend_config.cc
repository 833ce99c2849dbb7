#include "config/recommend_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "config/experiment.pb.h"
#include "config/overlay.h"
#include "config/recommend.bind.h"
#include "config/recommend.pb.h"
#include "config/text_message.h"
#include "core/dtype.h"
#include "core/input_error.h"

namespace twin {
namespace {

// Number of requests in the template; each run replaces it by the number that it needs.
constexpr std::int64_t kDrawnRequests = 1000;

[[noreturn]] void RefuseRequest(const std::string& source, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, source, what);
}

void RequireWords(const std::string& source, const char* setting,
                  const std::vector<std::string>& given,
                  std::initializer_list<std::string_view> allowed) {
  for (const std::string& word : given) {
    if (std::ranges::find(allowed, word) != allowed.end()) continue;
    RefuseRequest(source, fmt::format("settings.{}: no value \"{}\"; allowed: {}", setting, word,
                                      fmt::join(allowed, ", ")));
  }
}

// The objectives cost and fleet add up what devices cost, or count them.
void RequirePrice(const RecommendConfig& config, const char* field, const std::string& name,
                  double price, bool several_kinds) {
  using Objective = RecommendConfig::Objective;
  if (price > 0) return;
  if (config.objective == Objective::kCost) {
    RefuseRequest(config.source, fmt::format("{}.price_per_hour: is missing for {}; the objective "
                                             "cost needs it",
                                             field, name));
  }
  if (config.objective == Objective::kFleet && several_kinds) {
    RefuseRequest(config.source, fmt::format("{}.price_per_hour: is missing for {}; the objective "
                                             "fleet compares kinds of devices by their prices",
                                             field, name));
  }
}

void RequireListed(const RecommendConfig& config, const char* setting,
                   const std::vector<std::uint32_t>& given, std::uint32_t only) {
  if (given.empty() || std::ranges::find(given, only) != given.end()) return;
  RefuseRequest(config.source, fmt::format("settings.{}: is not {}; allowed with hardware.ffn: {}",
                                           setting, only, only));
}

void ValidateFfnPoolOffer(const RecommendConfig& config, const OfferedHardwareConfig& hardware) {
  if (!hardware.ffn) return;
  const OfferedFfnPoolConfig& ffn = *hardware.ffn;
  if (ffn.name.empty() && (ffn.devices != 1 || ffn.price_per_hour > 0)) {
    RefuseRequest(config.source,
                  "hardware.ffn: has devices or a price without a name; allowed: with name, or "
                  "ffn {}, whose devices are some of those of hardware");
  }
  if (!ffn.name.empty()) RequirePrice(config, "hardware.ffn", ffn.name, ffn.price_per_hour, true);
  RequireListed(config, "pipeline_parallel", config.settings.pipeline_parallel, 1);
  RequireListed(config, "prefill_replicas", config.settings.prefill_replicas, 0);
}

void RequireFfnPoolOffer(const RecommendConfig& config) {
  if (std::ranges::any_of(config.hardware, [](const auto& one) { return one.ffn.has_value(); }))
    return;
  const OpenSettingsConfig& open = config.settings;
  for (const auto& [setting, given] :
       {std::pair("attention_groups", !open.attention_groups.empty()),
        std::pair("ffn_devices", !open.ffn_devices.empty()),
        std::pair("micro_batches", !open.micro_batches.empty())}) {
    if (!given) continue;
    RefuseRequest(config.source, fmt::format("settings.{}: is of a pool for feed-forward networks; "
                                             "allowed with: hardware {{ ffn {{}} }}",
                                             setting));
  }
}

void ValidateRecommendation(const RecommendConfig& config) {
  using Objective = RecommendConfig::Objective;
  const std::string& source = config.source;
  if (config.models.empty())
    RefuseRequest(source, "model: is missing; allowed: model { name: \"llama-3-8b\" }");
  if (config.hardware.empty()) {
    RefuseRequest(source,
                  "hardware: is missing; allowed: hardware { name: \"h100-sxm\" devices: 2 }");
  }
  for (const ServedModelConfig& model : config.models) {
    if (model.name.empty()) RefuseRequest(source, "model.name: is missing");
  }
  for (const OfferedHardwareConfig& hardware : config.hardware) {
    if (hardware.name.empty()) RefuseRequest(source, "hardware.name: is missing");
    const bool several_kinds =
        config.hardware.size() > 1 || (hardware.ffn && !hardware.ffn->name.empty());
    RequirePrice(config, "hardware", hardware.name, hardware.price_per_hour, several_kinds);
    ValidateFfnPoolOffer(config, hardware);
  }
  RequireFfnPoolOffer(config);
  const bool needs_no_bounds =
      config.objective == Objective::kLatency || config.objective == Objective::kEnergy;
  if (config.until.empty() && !config.has_slo && !needs_no_bounds) {
    RefuseRequest(source,
                  "until: is missing; allowed: bounds such as \"p99_ttft_ms<=1000 && "
                  "p99_tpot_ms<=100\", or slo");
  }
  for (const std::string& type : config.settings.weight_dtype) {
    if (ParseDType(type)) continue;
    RefuseRequest(source, fmt::format("settings.weight_dtype: no value \"{}\"; allowed: fp32, "
                                      "bf16, fp16, fp8, int8, int4, fp8_block, "
                                      "int4_group_32, mxfp4, nvfp4",
                                      type));
  }
  RequireWords(source, "schedule_policy", config.settings.schedule_policy, {"fcfs", "lpm", "lof"});
  RequireWords(source, "context_chunking_policy", config.settings.context_chunking_policy,
               {"none", "FIRST_COME_FIRST_SERVED"});
}

}  // namespace

RecommendConfig ParseRecommendation(const std::string& text, const std::string& source,
                                    const std::filesystem::path& folder) {
  proto::RecommendationRequest message;
  ParseText(text, {.name = source}, message);
  ResolveFiles(folder, message);
  CheckRules(message, source);
  RecommendConfig config;
  config.source = source;
  FromMessage fields(message);
  Bind(fields, config);
  config.has_slo = message.has_slo();
  if (!message.has_workload())
    RefuseRequest(source, "workload: is missing; allowed: the workload of an experiment");
  ValidateRecommendation(config);
  proto::Experiment experiment;
  proto::Workload& workload = *experiment.mutable_workload();
  workload = message.workload();
  if (!workload.has_trace() && !workload.has_servegen()) {
    workload.clear_duration_s();
    workload.set_requests(kDrawnRequests);
  }
  if (message.has_slo()) *experiment.mutable_slo() = message.slo();
  // As the load balancers that servers are put behind do; `set` may choose another kind.
  experiment.mutable_system()->mutable_router()->set_kind(proto::Router::LEAST_REQUESTS);
  experiment.set_seed(config.seed);
  config.experiment = ExperimentTemplate::FromText(PrintText(experiment), source);
  config.experiment->Change(config.set, folder);
  return config;
}

RecommendConfig ReadRecommendation(const std::filesystem::path& path) {
  return ParseRecommendation(ReadTextFile(path), path.string(),
                             std::filesystem::absolute(path).lexically_normal().parent_path());
}

}  // namespace twin
