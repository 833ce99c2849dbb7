#include "proto/server_presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "core/input_error.h"
#include "core/nearest_names.h"
#include "proto/experiment.pb.h"
#include "proto/experiment_binding.h"
#include "proto/overlay.h"
#include "sim/boundary_profile.h"

namespace twin {
namespace {

constexpr std::array kPresets = {
    ServerPreset{"vllm-0.6.3", "vllm_v0", "defaults of vLLM V0; boundary of 0.23.0"},
    ServerPreset{"vllm-0.15.1", "vllm_v1", "defaults of 0.15.1; boundary of recorded runs"},
    ServerPreset{"vllm-0.19.0", "vllm_v1", "defaults, decisions and boundary of 0.15.1"},
    ServerPreset{"vllm-0.23.0", "vllm_v1",
                 "defaults of 0.15.1, decisions of 0.33.0; boundary of recorded runs"},
    ServerPreset{"vllm-0.33.0", "vllm_v1", "defaults of 0.33.0; boundary of 0.23.0"},
    ServerPreset{"sglang-0.5.23", "sglang", "defaults of SGLang 0.5.23; boundary of vLLM 0.23.0"},
};

struct MissingServer {
  std::string_view prefix;
  std::string_view policy;
};
constexpr std::array kMissing = {MissingServer{"tgi", "TGI's router"},
                                 MissingServer{"tensorrt", "TensorRT-LLM's batch manager"},
                                 MissingServer{"trtllm", "TensorRT-LLM's batch manager"},
                                 MissingServer{"triton", "Triton's batchers"}};

// Milliseconds between client and engine, there and back.
struct BoundaryTerms {
  double one_rank;
  double more_ranks;
};

constexpr std::int64_t kGib = std::int64_t{1} << 30;

[[noreturn]] void Refuse(const std::string& server) {
  std::string names;
  std::array<std::string_view, kPresets.size()> all{};
  for (std::size_t i = 0; i < kPresets.size(); ++i) {
    all[i] = kPresets[i].name;
    names += (i == 0 ? "" : ", ") + std::string(all[i]);
  }
  for (const MissingServer& missing : kMissing) {
    if (!server.starts_with(missing.prefix)) continue;
    throw InputError(InputError::Kind::kUsage, "system.server",
                     fmt::format("\"{}\" is not offered: the policy of {} is missing; allowed: {}",
                                 server, missing.policy, names));
  }
  throw InputError(
      InputError::Kind::kUsage, "system.server",
      fmt::format("unknown server '{}'; nearest: {}", server, NearestNames(server, all)));
}

bool IsA100(const HardwareSpec& hardware) {
  std::string name = hardware.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
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

void FillV1(std::string_view server, const ModelSpec& model, const HardwareSpec& hardware,
            const Parallelism& parallelism, const proto::Experiment& asked,
            proto::Experiment& defaults) {
  const bool newest = server == "vllm-0.33.0";
  proto::VllmV1Policy& policy = *defaults.mutable_policy()->mutable_vllm_v1();
  policy.set_release(newest || server == "vllm-0.23.0" ? proto::VllmV1Policy::v0_33_0
                                                       : proto::VllmV1Policy::v0_15_1);
  FillLimits(model, hardware, newest, asked.policy().vllm_v1(), policy);
  policy.set_enable_chunked_prefill(true);
  policy.set_enable_prefix_caching(true);
  policy.set_async_scheduling(parallelism.pipeline == 1);
  policy.set_pipeline_parallel_size(parallelism.pipeline);
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

// SGLang's sizes by device memory.
void FillSglang(const HardwareSpec& hardware, proto::Experiment& defaults) {
  proto::SglangPolicy& policy = *defaults.mutable_policy()->mutable_sglang();
  std::int32_t chunk = 16384;
  if (hardware.memory_bytes < 160 * kGib) chunk = 8192;
  if (hardware.memory_bytes < 60 * kGib) chunk = 4096;
  if (hardware.memory_bytes < 35 * kGib) chunk = 2048;
  policy.set_chunked_prefill_size(chunk);
  policy.set_radix_cache(true);
  policy.set_overlap(true);
  defaults.mutable_system()->mutable_memory()->set_block_size(1);
}

void FillBoundary(std::string_view server, const Parallelism& parallelism,
                  proto::Boundary& boundary) {
  const bool older = server == "vllm-0.15.1" || server == "vllm-0.19.0";
  const BoundaryTerms terms = older ? BoundaryTerms{6.1, 8.5} : BoundaryTerms{6.8, 8.5};
  sim::BoundaryConfig config =
      sim::BoundaryOf(1e-3 * (parallelism.devices() == 1 ? terms.one_rank : terms.more_ranks));
  ToMessage fields(boundary);
  Bind(fields, config);
}

// The host's way of preparing steps and the sizes of captured graphs, which follow from the policy.
void FillCost(const proto::Policy& policy, proto::Cost& cost) {
  const bool other = cost.kind_case() != proto::Cost::KIND_NOT_SET && !cost.has_profile();
  if (policy.has_sglang() && !other) {
    proto::ProfileCost& profile = *cost.mutable_profile();
    const bool overlaps = !policy.sglang().has_overlap() || policy.sglang().overlap();
    if (!profile.has_engine()) {
      profile.set_engine(overlaps ? proto::ProfileCost::v1_async : proto::ProfileCost::v1_sync);
    }
    return;
  }
  if (other || (!policy.has_vllm_v1() && !policy.has_vllm_v0())) return;
  proto::ProfileCost& profile = *cost.mutable_profile();
  const bool v1 = policy.has_vllm_v1();
  const std::int32_t sequences =
      v1 ? policy.vllm_v1().max_num_seqs() : policy.vllm_v0().max_num_seqs();
  if (!profile.has_engine()) {
    profile.set_engine(!v1                                   ? proto::ProfileCost::v0
                       : policy.vllm_v1().async_scheduling() ? proto::ProfileCost::v1_async
                                                             : proto::ProfileCost::v1_sync);
  }
  if (!profile.has_captured_size_max()) {
    const std::int32_t largest =
        v1 ? std::min(2 * std::min(sequences, 256), 512) : std::min(sequences, 256);
    profile.set_captured_size_max(static_cast<std::uint32_t>(largest));
  }
}

}  // namespace

std::span<const ServerPreset> ServerPresets() { return kPresets; }

void FillServerDefaults(const ModelSpec& model, const HardwareSpec& hardware,
                        const Parallelism& parallelism, proto::Experiment& message) {
  const std::string server = message.system().server();
  const auto preset =
      std::find_if(kPresets.begin(), kPresets.end(),
                   [&server](const ServerPreset& entry) { return entry.name == server; });
  if (preset == kPresets.end()) Refuse(server);
  proto::Experiment defaults;
  defaults.mutable_system()->mutable_memory()->set_block_size(16);
  if (preset->policy == "vllm_v0") {
    FillV0(model, message, defaults);
  } else if (preset->policy == "sglang") {
    FillSglang(hardware, defaults);
  } else {
    FillV1(server, model, hardware, parallelism, message, defaults);
  }
  FillBoundary(server, parallelism, *defaults.mutable_system()->mutable_boundary());
  Overlay(message, defaults);
  message = std::move(defaults);
  FillCost(message.policy(), *message.mutable_cost());
  if (message.cost().kind_case() == proto::Cost::KIND_NOT_SET) message.clear_cost();
}

}  // namespace twin
