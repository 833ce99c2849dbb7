#include "apps/recommend/candidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "apps/recommend/ffn_pool_layouts.h"
#include "apps/recommend/server_settings.h"
#include "config/models/model_names.h"
#include "config/servers/servers.h"
#include "core/check.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "sim/cost/ffn_pool_models.h"

namespace twin::run {
namespace {

// To read models and data sheets.
std::string_view AnyServer() { return Servers().front()->presets.back().name; }

// The largest values that are tried unless the request has some.
constexpr std::int64_t kMostSeqs = 1024;
constexpr std::int64_t kMostTokens = 16384;
constexpr double kMostMemory = 0.95;

template <class To, class From>
To LargestOf(const std::vector<From>& given, To usual) {
  return given.empty() ? usual : static_cast<To>(*std::ranges::max_element(given));
}

std::string NoReplicaText(const OfferedHardwareConfig& offer) {
  return fmt::format(
      "hardware.ffn: {} devices{} hold no replica of the settings; allowed: more, or "
      "less of tensor_parallel, attention_groups, ffn_devices and replicas",
      offer.devices,
      offer.ffn->name.empty() ? "" : fmt::format(" and {} of the pool", offer.ffn->devices));
}

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

// Whether the request names a setting.
struct NamedSetting {
  Setting setting;
  bool named;
};

std::vector<NamedSetting> NamedSettingsOf(const OpenSettingsConfig& open) {
  std::vector<NamedSetting> settings;
  ForEachOpenSetting([&](Setting setting, auto /*own*/, auto given) {
    settings.push_back({setting, !(open.*given).empty()});
  });
  return settings;
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

// Changes that put the feed-forward networks on devices of their own.
void AddFfn(const OfferedHardwareConfig& hardware, const Layout& layout,
            std::vector<std::string>& changes) {
  if (!hardware.ffn) return;
  const FfnPoolSplit split = layout.ffn.value_or(FfnPoolSplit{});
  if (!hardware.ffn->name.empty())
    changes.push_back(fmt::format("system.ffn.hardware=\"{}\"", hardware.ffn->name));
  changes.push_back(fmt::format("system.ffn.devices={}", split.devices));
  changes.push_back(fmt::format("system.ffn.attention_groups={}", split.attention_groups));
  changes.push_back(fmt::format("system.ffn.micro_batches={}", split.micro_batches));
}

// The price of all devices; 0 unless each kind has one.
double PriceOf(const OfferedHardwareConfig& hardware, const Layout& layout) {
  if (!hardware.ffn || hardware.ffn->name.empty())
    return hardware.price_per_hour * layout.devices();
  if (!(hardware.price_per_hour > 0 && hardware.ffn->price_per_hour > 0)) return 0;
  return hardware.price_per_hour * layout.own_devices() +
         hardware.ffn->price_per_hour * layout.pool_devices();
}

// Numbers of devices that can divide the model's feed-forward networks and hold their weights; if
// none can, the largest.
std::vector<std::int32_t> PoolSizes(const SystemConfig& system, std::int32_t most) {
  std::vector<std::int32_t> sizes;
  sim::FfnPoolConfig ffn = *system.ffn;
  for (ffn.devices = 1; ffn.devices <= most; ++ffn.devices) {
    try {
      sim::ValidateSplit(system.model_spec, {}, ffn);
      sim::RequireFfnPoolFits(system.model_spec, ffn);
      sizes.push_back(ffn.devices);
    } catch (const InputError&) {  // another number may do
    }
  }
  if (sizes.empty()) sizes.push_back(most);
  return sizes;
}

// The asked settings, completed by the settings of the resolved deployment.
CandidateSettings Resolved(const CandidateSettings& asked, const Deployment& deployment) {
  CandidateSettings choice = asked;
  const SystemConfig& system = deployment.config.system;
  choice.weight_dtype = UniformFormat(system.model_spec);
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
  if (!read(0, 0, AnyServer()).system.groups.empty()) {
    throw InputError(
        InputError::Kind::kUsage, "set",
        "has system.replica_groups; allowed: none, as the replicas of a recommendation "
        "are equal");
  }
  for (std::size_t i = 0; i < request.hardware.size(); ++i) {
    const SystemConfig system = read(0, i, AnyServer()).system;
    if (system.ffn && !request.hardware[i].ffn) {
      throw InputError(InputError::Kind::kUsage, "set",
                       fmt::format("has system.ffn, but hardware {} has no pool; allowed with: "
                                   "hardware {{ ffn {{}} }}",
                                   request.hardware[i].name));
    }
    hardware_.push_back(system.hardware_spec);
  }
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < request.models.size(); ++i) {
    const SystemConfig system = read(i, 0, AnyServer()).system;
    model_dtypes_.push_back(UniformFormat(system.model_spec));
    tokens.push_back(system.model_spec.max_position);
  }
  model_tokens_ = std::move(tokens);
  if (request.max_model_len == 0) {
    longest_ = LongestRequestOf(read(0, 0, AnyServer()).workload, request.seed);
  }
  for (const std::string& server : ServersOf()) (void)read(0, 0, server);
  RequireKnownSettings();
  FindFfnPoolLayouts();
}

void CandidateSpace::FindFfnPoolLayouts() {
  if (std::ranges::none_of(request_.hardware, [](const auto& one) { return one.ffn.has_value(); }))
    return;
  const LongestRequest lengths =
      longest_ ? *longest_
               : LongestRequestOf(
                     request_.experiment->With(ChangesOf({.server = std::string(AnyServer())}), {})
                         .workload,
                     request_.seed);
  CostCache costs;
  for (std::size_t hardware = 0; hardware < request_.hardware.size(); ++hardware) {
    if (!request_.hardware[hardware].ffn) continue;
    for (std::size_t model = 0; model < request_.models.size(); ++model) {
      for (const std::optional<DType> type : DtypesOf(model, hardware)) {
        CandidateSettings base{.model = model,
                               .hardware = hardware,
                               .server = ServersOf().front(),
                               .weight_dtype = type};
        const OpenSettingsConfig& open = request_.settings;
        if (!FieldOfServer(base.server, Setting::kMaxNumSeqs).empty()) {
          base.max_num_seqs = LargestOf(open.max_num_seqs, kMostSeqs);
        }
        base.token_budget = LargestOf(open.token_budget, kMostTokens);
        base.gpu_memory_utilization = LargestOf(open.gpu_memory_utilization, kMostMemory);
        ffn_layouts_.push_back({model, hardware, type, SearchFfnPoolLayouts(base, lengths, costs)});
      }
    }
  }
  RequireFfnPoolLayouts();
}

// Refuses a request of which no offer has room.
void CandidateSpace::RequireFfnPoolLayouts() const {
  const auto has_ffn = [](const OfferedHardwareConfig& one) { return one.ffn.has_value(); };
  const auto has_none = [](const FfnPoolLayoutsOf& one) { return one.layouts.empty(); };
  if (!std::ranges::all_of(request_.hardware, has_ffn)) return;
  if (!std::ranges::all_of(ffn_layouts_, has_none)) return;
  throw InputError(InputError::Kind::kUsage, request_.source,
                   NoReplicaText(request_.hardware.front()));
}

std::vector<Layout> CandidateSpace::SearchFfnPoolLayouts(CandidateSettings base,
                                                         const LongestRequest& lengths,
                                                         CostCache& costs) const {
  const OfferedHardwareConfig& offer = request_.hardware[base.hardware];
  const OpenSettingsConfig& open = request_.settings;
  const SystemConfig system = request_.experiment->With(ChangesOf(base), {}).system;
  const bool shares = offer.ffn->name.empty();
  FfnPoolChoices choices{
      .tensor_parallel = PowersOfTwo(open.tensor_parallel, offer.devices),
      .replicas = {open.replicas.begin(), open.replicas.end()},
      .attention_groups = {open.attention_groups.begin(), open.attention_groups.end()},
      .ffn_devices = {open.ffn_devices.begin(), open.ffn_devices.end()},
      .micro_batches = {open.micro_batches.begin(), open.micro_batches.end()}};
  if (choices.ffn_devices.empty())
    choices.ffn_devices =
        PoolSizes(system, shares ? std::max(offer.devices - 1, 1) : offer.ffn->devices);
  if (choices.micro_batches.empty()) choices.micro_batches = {1, 2, 3, 4};
  const auto make = [&](const Layout& layout) {
    base.layout = layout;
    return Make(base, costs);
  };
  return FfnPoolLayouts(request_, offer, choices, lengths, make);
}

std::vector<Layout> CandidateSpace::LayoutsFor(const CandidateSettings& base) const {
  if (!request_.hardware[base.hardware].ffn) return LayoutsOf(base.hardware, base.server);
  for (const FfnPoolLayoutsOf& one : ffn_layouts_) {
    if (one.model == base.model && one.hardware == base.hardware &&
        one.weight_dtype == base.weight_dtype)
      return one.layouts;
  }
  return {};
}

void CandidateSpace::RequireKnownSettings() const {
  for (const auto& [setting, named] : NamedSettingsOf(request_.settings)) {
    if (!named) continue;
    const auto has = [setting = setting](std::string_view server) {
      return !FieldOfServer(server, setting).empty();
    };
    const std::vector<std::string> servers = ServersOf();
    if (std::ranges::any_of(servers, has)) continue;
    std::vector<std::string_view> allowed;
    for (const ServerPreset& preset : ServerPresets()) {
      if (has(preset.name)) allowed.push_back(preset.name);
    }
    throw InputError(InputError::Kind::kUsage, fmt::format("settings.{}", SettingWord(setting)),
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
  AddFfn(request_.hardware[choice.hardware], choice.layout, changes);
  if (choice.weight_dtype)
    changes.push_back(
        fmt::format("system.model_shape.weight_dtype={}", Name(*choice.weight_dtype)));
  const auto add = [&]<class T>(Setting setting, const std::optional<T>& value) {
    const std::string path = FieldOfServer(choice.server, setting);
    if (!value || path.empty()) return;
    if constexpr (std::is_same_v<T, double>) {
      changes.push_back(fmt::format("{}={}", path, ShortestText(*value)));
    } else {
      changes.push_back(fmt::format("{}={}", path, *value));
    }
  };
  ForEachOpenSetting([&](Setting setting, auto own, auto /*given*/) { add(setting, choice.*own); });
  add(Setting::kMaxModelLen, ContextTokensOf(choice.model));
  add(Setting::kMaxConcurrentRequests, std::optional(kUnlimitedConcurrency));
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
      "of its output: ",
      longest_->requests, longest_->tokens);
  for (std::size_t i = 0; i < request_.models.size(); ++i) {
    const std::int64_t limit = *ContextTokensOf(i);
    text += fmt::format("{}{}{}", i > 0 ? ", " : "", limit,
                        request_.models.size() > 1 ? " with " + request_.models[i].name : "");
    text += limit < longest_->tokens
                ? fmt::format(", the model's positions ({} requests are longer)",
                              longest_->LongerThan(limit))
                : ", rounded up";
  }
  return text;
}

std::vector<std::string> CandidateSpace::ServersOf() const {
  if (!request_.settings.server.empty()) return request_.settings.server;
  std::vector<std::string> newest;
  for (const Server* server : Servers()) newest.emplace_back(server->presets.back().name);
  return newest;
}

std::vector<std::optional<DType>> CandidateSpace::DtypesOf(std::size_t model,
                                                           std::size_t hardware) const {
  std::vector<std::optional<DType>> types;
  for (const std::string& name : request_.settings.weight_dtype) {
    const std::optional<DType> type = ParseDType(name);
    CHECK(type);
    types.push_back(*type);
  }
  if (!types.empty()) return types;
  types.push_back(model_dtypes_[model]);
  const HardwareSpec& device = hardware_[hardware];
  if (!types[0] || BytesPerWeight(*types[0]) < 2) return types;
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
    const bool usual = setting == Setting::kTokenBudget || setting == Setting::kMaxNumSeqs;
    if ((named || usual) && FieldOfServer(server, setting).empty())
      missing.push_back(
          fmt::format("{} of {}: it has no such setting", SettingWord(setting), server));
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
  const auto has = [&](Setting setting) { return !FieldOfServer(base.server, setting).empty(); };
  std::vector<CandidateSettings> part = {base};
  if (has(Setting::kMaxNumSeqs)) {
    Multiply(part, ValuesOf<std::int64_t>(open.max_num_seqs, {64, 256, kMostSeqs}),
             &CandidateSettings::max_num_seqs);
  }
  Multiply(part, ValuesOf<std::int64_t>(open.token_budget, {512, 2048, 8192, kMostTokens}),
           &CandidateSettings::token_budget);
  if (has(Setting::kMaxBatchTotalTokens)) {
    Multiply(part, ValuesOf<std::int64_t>(open.max_batch_total_tokens, {}),
             &CandidateSettings::max_batch_total_tokens);
  }
  if (has(Setting::kWaitingServedRatio)) {
    Multiply(part, ValuesOf<double>(open.waiting_served_ratio, {1.2}),
             &CandidateSettings::waiting_served_ratio);
  }
  if (has(Setting::kSchedulePolicy)) {
    Multiply(part, ValuesOf<std::string>(open.schedule_policy, {"lpm"}),
             &CandidateSettings::schedule_policy);
  }
  if (has(Setting::kContextChunking)) {
    Multiply(part, ValuesOf<std::string>(open.context_chunking_policy, {"FIRST_COME_FIRST_SERVED"}),
             &CandidateSettings::context_chunking_policy);
  }
  Multiply(part, ValuesOf<double>(open.gpu_memory_utilization, {kMostMemory}),
           &CandidateSettings::gpu_memory_utilization);
  grid.insert(grid.end(), part.begin(), part.end());
}

void CandidateSpace::AddLayouts(CandidateSettings base,
                                std::vector<CandidateSettings>& grid) const {
  const std::vector<std::optional<DType>> types = DtypesOf(base.model, base.hardware);
  if (!request_.hardware[base.hardware].ffn) {
    for (const Layout& layout : LayoutsOf(base.hardware, base.server)) {
      base.layout = layout;
      for (const std::optional<DType> type : types) {
        base.weight_dtype = type;
        AddGridOf(base, grid);
      }
    }
    return;
  }
  for (const std::optional<DType> type : types) {
    base.weight_dtype = type;
    for (const Layout& layout : LayoutsFor(base)) {
      base.layout = layout;
      AddGridOf(base, grid);
    }
  }
}

// Cost models depend on the outer settings, so candidates with equal cost models stay together for
// the cache.
std::vector<CandidateSettings> CandidateSpace::Grid() const {
  std::vector<CandidateSettings> grid;
  for (std::size_t hardware = 0; hardware < request_.hardware.size(); ++hardware) {
    for (std::size_t model = 0; model < request_.models.size(); ++model) {
      for (const std::string& server : ServersOf()) {
        AddLayouts({.model = model, .hardware = hardware, .server = server}, grid);
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
  candidate.price_per_hour = PriceOf(request_.hardware[choice.hardware], choice.layout);
  const std::optional<DType>& stored = model_dtypes_[choice.model];
  const std::optional<DType>& asked = candidate.choice.weight_dtype;
  candidate.quantised = stored && asked && BytesPerWeight(*asked) < BytesPerWeight(*stored);
  return candidate;
}

std::vector<Candidate> CandidateSpace::All(CostCache& costs,
                                           std::vector<RejectedSettings>& rejected) const {
  std::vector<Candidate> candidates;
  for (const FfnPoolLayoutsOf& one : ffn_layouts_) {
    if (!one.layouts.empty()) continue;
    rejected.push_back({{.model = one.model,
                         .hardware = one.hardware,
                         .server = ServersOf().front(),
                         .weight_dtype = one.weight_dtype},
                        NoReplicaText(request_.hardware[one.hardware])});
  }
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
  if (const std::optional<FfnPoolSplit>& ffn = choice.layout.ffn) {
    const OfferedHardwareConfig& offer = request.hardware[choice.hardware];
    parameters.emplace_back("ffn_hardware", offer.ffn->name.empty() ? offer.name : offer.ffn->name);
    parameters.emplace_back("attention_groups", std::int64_t{ffn->attention_groups});
    parameters.emplace_back("ffn_devices", std::int64_t{ffn->devices});
    parameters.emplace_back("micro_batches", std::int64_t{ffn->micro_batches});
  }
  if (choice.layout.prefill_replicas > 0)
    parameters.emplace_back("prefill_replicas", std::int64_t{choice.layout.prefill_replicas});
  if (choice.weight_dtype)
    parameters.emplace_back("weight_dtype", std::string(Name(*choice.weight_dtype)));
  ForEachOpenSetting([&](Setting setting, auto own, auto /*given*/) {
    if (choice.*own) parameters.emplace_back(std::string(SettingWord(setting)), *(choice.*own));
  });
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
