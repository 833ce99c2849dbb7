#include "lab/recommend/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/check.h"
#include "core/input_error.h"
#include "proto/server_presets.h"
#include "record/number_text.h"

namespace twin::lab {
namespace {

constexpr std::string_view kNewestServer = "vllm-0.33.0";
constexpr std::string_view kOlderServer = "vllm-0.15.1";

// The values of the request, or the server's own and these.
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

std::string PolicyOf(const std::string& server) {
  for (const ServerPreset& preset : ServerPresets()) {
    if (preset.name == server) return std::string(preset.policy);
  }
  return {};
}

std::vector<std::string> ChangesOf(const RecommendConfig& request, const Choice& choice) {
  std::vector<std::string> changes = {
      fmt::format("system.model=\"{}\"", request.models[choice.model].name),
      fmt::format("system.hardware=\"{}\"", request.hardware[choice.hardware].name),
      fmt::format("system.server=\"{}\"", choice.server),
      fmt::format("system.tensor_parallel={}", choice.parallelism.tensor),
      fmt::format("system.pipeline_parallel={}", choice.parallelism.pipeline)};
  if (choice.weight_dtype)
    changes.push_back(
        fmt::format("system.model_shape.weight_dtype={}", Name(*choice.weight_dtype)));
  if (choice.gpu_memory_utilization) {
    changes.push_back(
        fmt::format("system.memory.utilization={}", ShortestText(*choice.gpu_memory_utilization)));
  }
  const std::string policy = PolicyOf(choice.server);
  if (policy.empty()) return changes;  // the server is refused
  const auto limit = [&](const char* name, std::int64_t value) {
    changes.push_back(fmt::format("policy.{}.{}={}", policy, name, value));
  };
  if (choice.token_budget) limit("max_num_batched_tokens", *choice.token_budget);
  if (choice.max_num_seqs) limit("max_num_seqs", *choice.max_num_seqs);
  if (request.max_model_len > 0) limit("max_model_len", request.max_model_len);
  return changes;
}

// What the deployment came out as.
Choice Resolved(const Choice& asked, const Deployment& deployment) {
  Choice choice = asked;
  const SystemConfig& system = deployment.config.system;
  choice.weight_dtype = system.model_spec.weight_dtype;
  choice.token_budget = deployment.traits.tokens_per_step_max;
  choice.max_num_seqs = deployment.traits.sequences_per_step_max;
  choice.gpu_memory_utilization = system.memory.utilization;
  return choice;
}

}  // namespace

CandidateSpace::CandidateSpace(const RecommendConfig& request) : request_(request) {
  CHECK(request.experiment && !request.models.empty() && !request.hardware.empty());
  const auto read = [&](std::size_t model, std::size_t hardware, const std::string& server) {
    return request.experiment->With(
        ChangesOf(request,
                  {.model = model, .hardware = hardware, .server = server, .parallelism = {}}),
        {});
  };
  for (std::size_t i = 0; i < request.hardware.size(); ++i)
    hardware_.push_back(read(0, i, std::string(kNewestServer)).system.hardware_spec);
  for (std::size_t i = 0; i < request.models.size(); ++i) {
    const SystemConfig system = read(i, 0, std::string(kNewestServer)).system;
    model_dtypes_.push_back(system.model_spec.weight_dtype);
  }
  for (const std::string& server : ServersOf()) {
    (void)read(0, 0, server);
    if (server.starts_with("vllm-")) continue;
    throw InputError(InputError::Kind::kUsage, "settings.server",
                     fmt::format("is {}, must be a server of vLLM: settings and command line of "
                                 "other servers cannot be recommended",
                                 server));
  }
}

std::vector<std::string> CandidateSpace::ServersOf() const {
  if (!request_.settings.server.empty()) return request_.settings.server;
  return {std::string(kNewestServer), std::string(kOlderServer)};
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

std::vector<std::pair<Parallelism, std::int32_t>> CandidateSpace::LayoutsOf(
    std::size_t hardware) const {
  const OpenSettingsConfig& open = request_.settings;
  const std::int32_t devices = request_.hardware[hardware].devices;
  std::vector<std::pair<Parallelism, std::int32_t>> layouts;
  for (const std::int32_t tensor : PowersOfTwo(open.tensor_parallel, devices)) {
    for (const std::int32_t pipeline : PowersOfTwo(open.pipeline_parallel, devices)) {
      const Parallelism parallelism{.tensor = tensor, .pipeline = pipeline};
      const std::int32_t most = devices / tensor / pipeline;
      if (most == 0) continue;
      if (open.replicas.empty()) layouts.emplace_back(parallelism, most);
      for (const std::uint32_t replicas : open.replicas) {
        if (static_cast<std::int32_t>(replicas) <= most)
          layouts.emplace_back(parallelism, static_cast<std::int32_t>(replicas));
      }
    }
  }
  return layouts;
}

void CandidateSpace::AddGridOf(const Choice& base, std::vector<Choice>& grid) const {
  const OpenSettingsConfig& open = request_.settings;
  for (const auto& sequences : ValuesOf<std::int64_t>(open.max_num_seqs, {64, 256, 1024})) {
    for (const auto& budget : ValuesOf<std::int64_t>(open.token_budget, {512, 2048, 8192, 16384})) {
      for (const auto& share : ValuesOf<double>(open.gpu_memory_utilization, {0.95})) {
        Choice choice = base;
        choice.max_num_seqs = sequences;
        choice.token_budget = budget;
        choice.gpu_memory_utilization = share;
        grid.push_back(std::move(choice));
      }
    }
  }
}

// Cost models depend on the outer settings: equal ones stay together for the cache.
std::vector<Choice> CandidateSpace::Grid() const {
  std::vector<Choice> grid;
  for (std::size_t hardware = 0; hardware < request_.hardware.size(); ++hardware) {
    for (std::size_t model = 0; model < request_.models.size(); ++model) {
      for (const auto& [parallelism, replicas] : LayoutsOf(hardware)) {
        for (const DType type : DtypesOf(model, hardware)) {
          for (const std::string& server : ServersOf()) {
            AddGridOf({.model = model,
                       .hardware = hardware,
                       .server = server,
                       .parallelism = parallelism,
                       .replicas = replicas,
                       .weight_dtype = type},
                      grid);
          }
        }
      }
    }
  }
  return grid;
}

Candidate CandidateSpace::Make(const Choice& choice, CostCache& costs) const {
  Candidate candidate;
  candidate.deployment = Resolve(request_.experiment->With(ChangesOf(request_, choice), {}), costs);
  candidate.choice = Resolved(choice, candidate.deployment);
  const ServedModelConfig& model = request_.models[choice.model];
  candidate.checkpoint = model.checkpoint.empty() ? model.name : model.checkpoint;
  candidate.price_per_hour = request_.hardware[choice.hardware].price_per_hour *
                             choice.parallelism.devices() * choice.replicas;
  return candidate;
}

std::vector<Candidate> CandidateSpace::All(CostCache& costs,
                                           std::vector<RejectedChoice>& rejected) const {
  std::vector<Candidate> candidates;
  for (const Choice& choice : Grid()) {
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

std::vector<Parameter> ParametersOf(const RecommendConfig& request, const Choice& choice) {
  std::vector<Parameter> parameters = {
      {"model", request.models[choice.model].name},
      {"hardware", request.hardware[choice.hardware].name},
      {"devices", std::int64_t{choice.parallelism.devices()} * choice.replicas},
      {"server", choice.server},
      {"tensor_parallel", std::int64_t{choice.parallelism.tensor}},
      {"pipeline_parallel", std::int64_t{choice.parallelism.pipeline}},
      {"replicas", std::int64_t{choice.replicas}}};
  if (choice.weight_dtype)
    parameters.emplace_back("weight_dtype", std::string(Name(*choice.weight_dtype)));
  if (choice.token_budget) parameters.emplace_back("token_budget", *choice.token_budget);
  if (choice.max_num_seqs) parameters.emplace_back("max_num_seqs", *choice.max_num_seqs);
  if (choice.gpu_memory_utilization)
    parameters.emplace_back("gpu_memory_utilization", *choice.gpu_memory_utilization);
  return parameters;
}

}  // namespace twin::lab
