#include "apps/recommend/candidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>

#include "apps/recommend/server_settings.h"
#include "config/servers/servers.h"
#include "core/check.h"
#include "core/input_error.h"
#include "core/number_text.h"

namespace twin::run {
namespace {

constexpr std::string_view kAnyServer = "vllm-0.33.0";  // to read models and data sheets
// Servers where the request names none: the newest release of each system.
constexpr std::array kServers = {kAnyServer, std::string_view("sglang-0.5.23"),
                                 std::string_view("tgi-3.3.7"), std::string_view("trtllm-1.0.0")};

// The values of the request; without any, the server's default and `usual`.
template <class To, class From>
std::vector<std::optional<To>> ValuesOf(const std::vector<From>& given,
                                        std::initializer_list<To> usual) {
  std::vector<std::optional<To>> values;
  for (const From& value : given) values.emplace_back(static_cast<To>(value));
  if (!values.empty()) return values;
  values.emplace_back(std::nullopt);
  for (const To& value : usual) values.emplace_back(value);
  return values;
}

std::vector<std::int32_t> PowersOfTwo(const std::vector<std::uint32_t>& given,
                                      std::int32_t devices) {
  std::vector<std::int32_t> values(given.begin(), given.end());
  if (!values.empty()) return values;
  for (std::int32_t value = 1; value <= devices; value *= 2) values.push_back(value);
  return values;
}

// A setting of the policy that the request names.
struct NamedSetting {
  ServerSetting setting;
  bool named;
};

std::vector<NamedSetting> NamedSettingsOf(const OpenSettingsConfig& open) {
  return {{ServerSetting::kTokenBudget, !open.token_budget.empty()},
          {ServerSetting::kMaxNumSeqs, !open.max_num_seqs.empty()},
          {ServerSetting::kMaxBatchTotalTokens, !open.max_batch_total_tokens.empty()},
          {ServerSetting::kWaitingServedRatio, !open.waiting_served_ratio.empty()},
          {ServerSetting::kSchedulePolicy, !open.schedule_policy.empty()},
          {ServerSetting::kContextChunking, !open.context_chunking_policy.empty()}};
}

// Combines the values of one setting with all combinations so far.
template <class T>
void Multiply(std::vector<CandidateSettings>& grid, const std::vector<std::optional<T>>& values,
              std::optional<T> CandidateSettings::*member) {
  std::vector<CandidateSettings> product;
  for (const CandidateSettings& base : grid) {
    for (const std::optional<T>& value : values) {
      product.push_back(base);
      product.back().*member = value;
    }
  }
  grid = std::move(product);
}

// Changes that separate prefill from decode, over the links between the devices of a machine.
void AddSplit(const Layout& layout, const std::vector<HardwareSpec>& hardware, std::size_t device,
              std::vector<std::string>& changes) {
  if (layout.prefill_replicas == 0) return;
  CHECK(device < hardware.size());
  const HardwareSpec& spec = hardware[device];
  const double bytes_per_s = spec.link_bandwidth_bytes_per_s * spec.link_bandwidth_fraction;
  changes.push_back(
      fmt::format("system.disaggregation.prefill_replicas={}", layout.prefill_replicas));
  changes.push_back(fmt::format("system.disaggregation.decode_replicas={}",
                                layout.replicas - layout.prefill_replicas));
  changes.push_back(fmt::format("system.disaggregation.link.latency_us={}",
                                ShortestText(1e6 * spec.link_latency_s)));
  changes.push_back(fmt::format("system.disaggregation.link.bandwidth_gbps={}",
                                ShortestText(8e-9 * bytes_per_s)));
}

// The asked settings, completed by the settings of the resolved deployment.
CandidateSettings Resolved(const CandidateSettings& asked, const Deployment& deployment) {
  CandidateSettings choice = asked;
  const SystemConfig& system = deployment.config.system;
  choice.weight_dtype = system.model_spec.weight_dtype;
  ReadSettings(deployment, choice);
  choice.gpu_memory_utilization = system.memory.utilization;
  return choice;
}

}  // namespace

CandidateSpace::CandidateSpace(const RecommendConfig& request) : request_(request) {
  CHECK(request.experiment && !request.models.empty() && !request.hardware.empty());
  const auto read = [&](std::size_t model, std::size_t hardware, std::string_view server) {
    return request.experiment->With(
        ChangesOf({.model = model, .hardware = hardware, .server = std::string(server)}), {});
  };
  if (!read(0, 0, kAnyServer).system.groups.empty()) {
    throw InputError(
        InputError::Kind::kUsage, "set",
        "has system.replica_groups; allowed: none, as the replicas of a recommendation "
        "are equal");
  }
  for (std::size_t i = 0; i < request.hardware.size(); ++i)
    hardware_.push_back(read(0, i, kAnyServer).system.hardware_spec);
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < request.models.size(); ++i) {
    const SystemConfig system = read(i, 0, kAnyServer).system;
    model_dtypes_.push_back(system.model_spec.weight_dtype);
    tokens.push_back(system.model_spec.max_position);
  }
  model_tokens_ = std::move(tokens);
  if (request.max_model_len == 0) {
    longest_ = LongestRequestOf(read(0, 0, kAnyServer).workload, request.seed);
  }
  for (const std::string& server : ServersOf()) (void)read(0, 0, server);
  RequireKnownSettings();
}

void CandidateSpace::RequireKnownSettings() const {
  for (const auto& [setting, named] : NamedSettingsOf(request_.settings)) {
    if (!named) continue;
    const auto has = [setting = setting](std::string_view server) {
      return !FieldOf(server, setting).empty();
    };
    const std::vector<std::string> servers = ServersOf();
    if (std::ranges::any_of(servers, has)) continue;
    std::vector<std::string_view> allowed;
    for (const ServerPreset& preset : ServerPresets()) {
      if (has(preset.name)) allowed.push_back(preset.name);
    }
    throw InputError(InputError::Kind::kUsage, fmt::format("settings.{}", SettingName(setting)),
                     fmt::format("is no setting of {}; allowed with: {}", fmt::join(servers, ", "),
                                 fmt::join(allowed, ", ")));
  }
}

std::vector<std::string> CandidateSpace::ChangesOf(const CandidateSettings& choice) const {
  std::vector<std::string> changes = {
      fmt::format("system.model=\"{}\"", request_.models[choice.model].name),
      fmt::format("system.hardware=\"{}\"", request_.hardware[choice.hardware].name),
      fmt::format("system.server=\"{}\"", choice.server),
      fmt::format("system.tensor_parallel={}", choice.layout.parallelism.tensor),
      fmt::format("system.pipeline_parallel={}", choice.layout.parallelism.pipeline)};
  if (choice.layout.prefill_replicas == 0) {
    changes.push_back(fmt::format("system.replicas={}", choice.layout.replicas));
  }
  AddSplit(choice.layout, hardware_, choice.hardware, changes);
  if (choice.weight_dtype)
    changes.push_back(
        fmt::format("system.model_shape.weight_dtype={}", Name(*choice.weight_dtype)));
  if (choice.gpu_memory_utilization) {
    changes.push_back(
        fmt::format("system.memory.utilization={}", ShortestText(*choice.gpu_memory_utilization)));
  }
  const auto add = [&]<class T>(ServerSetting setting, const std::optional<T>& value) {
    const std::string_view field = FieldOf(choice.server, setting);
    if (!value || field.empty()) return;
    const std::string path = fmt::format("policy.{}.{}", FindServerPolicy(choice.server), field);
    if constexpr (std::is_same_v<T, double>) {
      changes.push_back(fmt::format("{}={}", path, ShortestText(*value)));
    } else {
      changes.push_back(fmt::format("{}={}", path, *value));
    }
  };
  add(ServerSetting::kTokenBudget, choice.token_budget);
  add(ServerSetting::kMaxNumSeqs, choice.max_num_seqs);
  add(ServerSetting::kMaxBatchTotalTokens, choice.max_batch_total_tokens);
  add(ServerSetting::kWaitingServedRatio, choice.waiting_served_ratio);
  add(ServerSetting::kSchedulePolicy, choice.schedule_policy);
  add(ServerSetting::kContextChunking, choice.context_chunking_policy);
  add(ServerSetting::kMaxModelLen, ContextTokensOf(choice.model));
  if (const auto policy = FindServerPolicy(choice.server);
      policy == "tgi_v2" || policy == "tgi_v3") {
    changes.push_back(
        fmt::format("policy.{}.max_concurrent_requests={}", policy, kUnlimitedConcurrency));
  }
  return changes;
}

// All servers take equally long requests.
std::optional<std::int64_t> CandidateSpace::ContextTokensOf(std::size_t model) const {
  if (request_.max_model_len > 0) return request_.max_model_len;
  if (!longest_) return std::nullopt;
  return std::min<std::int64_t>(PlausibleLimit(longest_->tokens), model_tokens_[model]);
}

std::string CandidateSpace::LengthText() const {
  if (!longest_) return "";
  std::string text = fmt::format(
      "max_model_len comes from the longest of {} requests of the load, {} tokens with the limit "
      "of "
      "its output, rounded up: ",
      longest_->requests, longest_->tokens);
  for (std::size_t i = 0; i < request_.models.size(); ++i) {
    text += fmt::format("{}{}{}", i > 0 ? ", " : "", *ContextTokensOf(i),
                        request_.models.size() > 1 ? " with " + request_.models[i].name : "");
  }
  return text;
}

std::vector<std::string> CandidateSpace::ServersOf() const {
  if (!request_.settings.server.empty()) return request_.settings.server;
  return {kServers.begin(), kServers.end()};
}

std::vector<DType> CandidateSpace::DtypesOf(std::size_t model, std::size_t hardware) const {
  std::vector<DType> types;
  for (const std::string& name : request_.settings.weight_dtype) {
    const std::optional<DType> type = ParseDType(name);
    CHECK(type);
    types.push_back(*type);
  }
  if (!types.empty()) return types;
  types.push_back(model_dtypes_[model]);
  const HardwareSpec& device = hardware_[hardware];
  if (ByteSize(types[0]) == 1) return types;
  if (device.peak_fp8_flops > 0) {
    types.push_back(DType::kFp8);
  } else if (device.peak_int8_flops > 0) {
    types.push_back(DType::kInt8);
  }
  return types;
}

void CandidateSpace::AddSplits(const Layout& whole, const std::string& server,
                               std::vector<Layout>& layouts) const {
  const bool splits = SeparatesPrefill(server) && whole.parallelism.pipeline == 1;
  const auto add = [&](std::int32_t prefill) {
    if (prefill >= whole.replicas || (prefill > 0 && !splits)) return;
    layouts.push_back(whole);
    layouts.back().prefill_replicas = prefill;
  };
  for (const std::uint32_t prefill : request_.settings.prefill_replicas) {
    add(static_cast<std::int32_t>(prefill));
  }
  if (!request_.settings.prefill_replicas.empty()) return;
  add(0);
  for (std::int32_t prefill = 1; prefill < whole.replicas; prefill *= 2) add(prefill);
}

std::vector<Layout> CandidateSpace::LayoutsOf(std::size_t hardware,
                                              const std::string& server) const {
  const OpenSettingsConfig& open = request_.settings;
  const std::int32_t devices = request_.hardware[hardware].devices;
  std::vector<Layout> layouts;
  for (const std::int32_t tensor : PowersOfTwo(open.tensor_parallel, devices)) {
    for (const std::int32_t pipeline : PowersOfTwo(open.pipeline_parallel, devices)) {
      const Parallelism parallelism{.tensor = tensor, .pipeline = pipeline};
      const std::int32_t most = devices / tensor / pipeline;
      if (most == 0) continue;
      if (pipeline > 1 && open.pipeline_parallel.empty() && !RunsPipelines(server)) continue;
      if (open.replicas.empty())
        AddSplits({.parallelism = parallelism, .replicas = most}, server, layouts);
      for (const std::uint32_t given : open.replicas) {
        const auto replicas = static_cast<std::int32_t>(given);
        if (replicas <= most)
          AddSplits({.parallelism = parallelism, .replicas = replicas}, server, layouts);
      }
    }
  }
  return layouts;
}

std::vector<std::string> CandidateSpace::MissingSettingsOf(const std::string& server) const {
  std::vector<std::string> missing;
  const OpenSettingsConfig& open = request_.settings;
  for (const auto& [setting, named] : NamedSettingsOf(open)) {
    const bool usual =
        setting == ServerSetting::kTokenBudget || setting == ServerSetting::kMaxNumSeqs;
    if ((named || usual) && FieldOf(server, setting).empty())
      missing.push_back(
          fmt::format("{} of {}: it has no such setting", SettingName(setting), server));
  }
  const bool several = std::ranges::any_of(
      request_.hardware, [](const OfferedHardwareConfig& one) { return one.devices > 1; });
  if (several && open.pipeline_parallel.empty() && !RunsPipelines(server))
    missing.push_back(fmt::format("pipeline stages of {}: they are not simulated", server));
  if (several && !SeparatesPrefill(server))
    missing.push_back(fmt::format("separate prefill of {}: it is not simulated", server));
  return missing;
}

void CandidateSpace::AddGridOf(const CandidateSettings& base,
                               std::vector<CandidateSettings>& grid) const {
  const OpenSettingsConfig& open = request_.settings;
  const auto has = [&](ServerSetting setting) { return !FieldOf(base.server, setting).empty(); };
  std::vector<CandidateSettings> part = {base};
  if (has(ServerSetting::kMaxNumSeqs)) {
    Multiply(part, ValuesOf<std::int64_t>(open.max_num_seqs, {64, 256, 1024}),
             &CandidateSettings::max_num_seqs);
  }
  Multiply(part, ValuesOf<std::int64_t>(open.token_budget, {512, 2048, 8192, 16384}),
           &CandidateSettings::token_budget);
  if (has(ServerSetting::kMaxBatchTotalTokens)) {
    Multiply(part, ValuesOf<std::int64_t>(open.max_batch_total_tokens, {}),
             &CandidateSettings::max_batch_total_tokens);
  }
  if (has(ServerSetting::kWaitingServedRatio)) {
    Multiply(part, ValuesOf<double>(open.waiting_served_ratio, {1.2}),
             &CandidateSettings::waiting_served_ratio);
  }
  if (has(ServerSetting::kSchedulePolicy)) {
    Multiply(part, ValuesOf<std::string>(open.schedule_policy, {"lpm"}),
             &CandidateSettings::schedule_policy);
  }
  if (has(ServerSetting::kContextChunking)) {
    Multiply(part, ValuesOf<std::string>(open.context_chunking_policy, {"FIRST_COME_FIRST_SERVED"}),
             &CandidateSettings::context_chunking_policy);
  }
  Multiply(part, ValuesOf<double>(open.gpu_memory_utilization, {0.95}),
           &CandidateSettings::gpu_memory_utilization);
  grid.insert(grid.end(), part.begin(), part.end());
}

// Cost models depend on the outer settings, so candidates with equal cost models stay together for
// the cache.
std::vector<CandidateSettings> CandidateSpace::Grid() const {
  std::vector<CandidateSettings> grid;
  for (std::size_t hardware = 0; hardware < request_.hardware.size(); ++hardware) {
    for (std::size_t model = 0; model < request_.models.size(); ++model) {
      for (const std::string& server : ServersOf()) {
        for (const Layout& layout : LayoutsOf(hardware, server)) {
          for (const DType type : DtypesOf(model, hardware)) {
            AddGridOf({.model = model,
                       .hardware = hardware,
                       .server = server,
                       .layout = layout,
                       .weight_dtype = type},
                      grid);
          }
        }
      }
    }
  }
  return grid;
}

Candidate CandidateSpace::Make(const CandidateSettings& choice, CostCache& costs) const {
  Candidate candidate;
  candidate.deployment = Resolve(request_.experiment->With(ChangesOf(choice), {}), costs);
  RequireStart(choice, candidate.deployment);
  candidate.choice = Resolved(choice, candidate.deployment);
  const ServedModelConfig& model = request_.models[choice.model];
  candidate.checkpoint = model.checkpoint.empty() ? model.name : model.checkpoint;
  candidate.price_per_hour =
      request_.hardware[choice.hardware].price_per_hour * choice.layout.devices();
  return candidate;
}

std::vector<Candidate> CandidateSpace::All(CostCache& costs,
                                           std::vector<RejectedSettings>& rejected) const {
  std::vector<Candidate> candidates;
  for (const CandidateSettings& choice : Grid()) {
    try {
      Candidate candidate = Make(choice, costs);
      const bool known = std::ranges::any_of(candidates, [&candidate](const Candidate& other) {
        return other.choice == candidate.choice;
      });
      if (!known) candidates.push_back(std::move(candidate));
    } catch (const InputError& error) {
      rejected.push_back({choice, error.what()});
    }
  }
  return candidates;
}

double FleetValue(const Candidate& candidate) {
  return candidate.price_per_hour > 0 ? candidate.price_per_hour
                                      : candidate.choice.layout.devices();
}

std::vector<Parameter> ParametersOf(const RecommendConfig& request,
                                    const CandidateSettings& choice) {
  std::vector<Parameter> parameters = {
      {"model", request.models[choice.model].name},
      {"hardware", request.hardware[choice.hardware].name},
      {"devices", std::int64_t{choice.layout.devices()}},
      {"server", choice.server},
      {"tensor_parallel", std::int64_t{choice.layout.parallelism.tensor}},
      {"pipeline_parallel", std::int64_t{choice.layout.parallelism.pipeline}},
      {"replicas", std::int64_t{choice.layout.replicas}}};
  if (choice.layout.prefill_replicas > 0)
    parameters.emplace_back("prefill_replicas", std::int64_t{choice.layout.prefill_replicas});
  if (choice.weight_dtype)
    parameters.emplace_back("weight_dtype", std::string(Name(*choice.weight_dtype)));
  if (choice.token_budget) parameters.emplace_back("token_budget", *choice.token_budget);
  if (choice.max_num_seqs) parameters.emplace_back("max_num_seqs", *choice.max_num_seqs);
  if (choice.gpu_memory_utilization)
    parameters.emplace_back("gpu_memory_utilization", *choice.gpu_memory_utilization);
  const auto add = [&parameters](ServerSetting setting, const auto& value) {
    if (value) parameters.emplace_back(std::string(SettingName(setting)), *value);
  };
  add(ServerSetting::kMaxBatchTotalTokens, choice.max_batch_total_tokens);
  add(ServerSetting::kWaitingServedRatio, choice.waiting_served_ratio);
  add(ServerSetting::kSchedulePolicy, choice.schedule_policy);
  add(ServerSetting::kContextChunking, choice.context_chunking_policy);
  return parameters;
}

std::string TextOf(const std::vector<Parameter>& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    text += text.empty() ? "" : ", ";
    std::visit([&](const auto& one) { text += fmt::format("{} {}", name, one); }, value);
  }
  return text;
}

}  // namespace twin::run
