#include "config/server_presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>

#include "config/experiment.pb.h"
#include "config/experiment_binding.h"
#include "config/overlay.h"
#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/nearest_names.h"
#include "sim/devices/boundary_profile.h"

namespace twin {
namespace {

// vLLM starts V1 since 0.8.0, and with asynchronous scheduling since 0.14.0 (vllm-project/vllm pull
// request 27614). Before 0.8.4 it starts with 1,024 sequences on every GPU (16158). TGI has chunks
// and prefix caching since 3.0.
constexpr std::array kPresets = {
    ServerPreset{"vllm-0.6.3", "vllm_v0", "defaults of vLLM V0; boundary of 0.23.0", {0, 6, 3}},
    ServerPreset{"vllm-0.8.5",
                 "vllm_v1",
                 "defaults of 0.8.5, decisions of 0.15.1 in turn with the device; boundary of "
                 "0.15.1",
                 {0, 8, 0}},
    ServerPreset{
        "vllm-0.15.1", "vllm_v1", "defaults of 0.15.1; boundary of recorded runs", {0, 14, 0}},
    ServerPreset{"vllm-0.19.0", "vllm_v1", "defaults and boundary of 0.15.1", {0, 19, 0}},
    ServerPreset{
        "vllm-0.23.0", "vllm_v1", "defaults of 0.15.1; boundary of recorded runs", {0, 23, 0}},
    ServerPreset{"vllm-0.33.0", "vllm_v1", "defaults of 0.33.0; boundary of 0.23.0", {0, 33, 0}},
    ServerPreset{"sglang-0.5.23",
                 "sglang",
                 "defaults of SGLang 0.5.23; estimates: host and boundary of vLLM 0.23.0",
                 {0, 5, 23}},
    ServerPreset{"tgi-2.0.4",
                 "tgi_v2",
                 "defaults of TGI 2.0.4; estimates: host of vLLM V0, boundary of vLLM 0.23.0",
                 {2, 0, 4}},
    ServerPreset{"tgi-3.3.7",
                 "tgi_v3",
                 "defaults of TGI 3.3.7; estimates: host of vLLM V0, boundary of vLLM 0.23.0",
                 {3, 0, 0}},
    ServerPreset{"trtllm-1.0.0",
                 "trtllm",
                 "defaults of TensorRT-LLM 1.0; estimates: host hidden, boundary of vLLM 0.23.0",
                 {1, 0, 0}},
};

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

const VllmDecisions& DecisionsOf(const ServerVersion& version) {
  const auto* const next =
      std::ranges::upper_bound(kVllmDecisions, version, {}, &VllmDecisions::since);
  return *std::prev(next);
}

// V1 before asynchronous scheduling.
constexpr std::string_view kV1InTurn = "vllm-0.8.5";

struct MissingServer {
  std::string_view prefix;
  std::string_view policy;
};
constexpr std::array kMissing = {MissingServer{"triton", "Triton's batchers"}};

// Seconds from client to engine, and back.
constexpr double kOlderSeconds = 6.1e-3;
constexpr double kNewerSeconds = 6.8e-3;
constexpr double kMoreRanksSeconds = 8.5e-3;
// Standard deviations of logarithms. Four recorded runs on more ranks have 7.5 to 10.4 ms.
constexpr double kOneRankSd = 0.1;
constexpr double kMoreRanksSd = 0.15;
constexpr double kOtherVersionSd = 0.2;
constexpr double kOtherServerSd = 0.3;

constexpr std::int64_t kGib = std::int64_t{1} << 30;
// TGI captures graphs for batches of 1, 2, 4, 8, 16 and 32.
constexpr std::uint32_t kTgiCapturedMax = 32;
constexpr std::int32_t kTgiConcurrentRequests = 128;

// "vllm" of "vllm-0.6.3".
std::string_view FamilyOf(const ServerPreset& preset) {
  return preset.name.substr(0, preset.name.find('-'));
}

// Says why none of the presets, whose names are `names`, stands for `server`.
std::string WhyRefused(const std::string& server, std::span<const std::string_view> names) {
  const std::optional<ServerName> asked = ParseServerName(server);
  if (!asked)
    return fmt::format("unknown server '{}'; nearest: {}", server, NearestNames(server, names));
  for (const MissingServer& missing : kMissing) {
    if (!asked->family.starts_with(missing.prefix)) continue;
    return fmt::format("\"{}\" is not offered: the policy of {} is missing", server,
                       missing.policy);
  }
  const auto* const oldest = std::ranges::find(kPresets, asked->family, FamilyOf);
  if (oldest == kPresets.end()) {
    return fmt::format("unknown server '{}'; nearest: {}", server, NearestNames(server, names));
  }
  if (!asked->version) return fmt::format("\"{}\" names no version", server);
  return fmt::format("\"{}\" is older than {}, the oldest that is known", server, oldest->name);
}

[[noreturn]] void Refuse(const std::string& server) {
  std::array<std::string_view, kPresets.size()> names{};
  std::ranges::transform(kPresets, names.begin(), &ServerPreset::name);
  throw InputError(
      InputError::Kind::kUsage, "system.server",
      fmt::format("{}; allowed: {}", WhyRefused(server, names), fmt::join(names, ", ")));
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

void FillV1(std::string_view server, const ServerVersion& version, const ModelSpec& model,
            const HardwareSpec& hardware, const Parallelism& parallelism,
            const proto::Experiment& asked, proto::Experiment& defaults) {
  const bool newest = server == "vllm-0.33.0";
  proto::VllmV1Policy& policy = *defaults.mutable_policy()->mutable_vllm_v1();
  const VllmDecisions& decisions = DecisionsOf(version);
  policy.set_release(decisions.rules);
  if (!decisions.reserves_full_prompt) policy.set_scheduler_reserve_full_isl(false);
  FillLimits(model, hardware, newest, asked.policy().vllm_v1(), policy);
  policy.set_enable_chunked_prefill(true);
  policy.set_enable_prefix_caching(true);
  policy.set_async_scheduling(server != kV1InTurn && parallelism.pipeline == 1);
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

// SGLang's sizes by device memory, in the order of its table.
struct SglangTier {
  std::int64_t memory_below;  // bytes
  std::int32_t chunk;         // tokens
  std::uint32_t captured;     // largest captured batch with fewer than 4 ranks
  std::uint32_t captured_by_more_ranks;
};
constexpr std::array kSglangTiers = {
    SglangTier{20 * kGib, 2048, 8, 8}, SglangTier{35 * kGib, 2048, 24, 80},
    SglangTier{60 * kGib, 4096, 32, 160}, SglangTier{160 * kGib, 8192, 256, 512}};
constexpr SglangTier kSglangLargest = {0, 16384, 512, 512};

const SglangTier& SglangTierOf(const HardwareSpec& hardware) {
  for (const SglangTier& tier : kSglangTiers) {
    if (hardware.memory_bytes < tier.memory_below) return tier;
  }
  return kSglangLargest;
}

std::uint32_t SglangCaptured(const HardwareSpec& hardware, const Parallelism& parallelism) {
  const SglangTier& tier = SglangTierOf(hardware);
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

void FillSglang(const HardwareSpec& hardware, const Parallelism& parallelism,
                const proto::Experiment& asked, proto::Experiment& defaults) {
  const proto::SglangPolicy& given = asked.policy().sglang();
  proto::SglangPolicy& policy = *defaults.mutable_policy()->mutable_sglang();
  const std::int32_t chunk = SglangTierOf(hardware).chunk;
  policy.set_chunked_prefill_size(chunk);
  policy.set_radix_cache(true);
  policy.set_overlap(true);
  std::int32_t step = given.has_chunked_prefill_size() ? given.chunked_prefill_size() : chunk;
  if (step <= 0) step = given.has_max_prefill_tokens() ? given.max_prefill_tokens() : 16384;
  proto::Memory& memory = *defaults.mutable_system()->mutable_memory();
  memory.set_block_size(1);
  memory.set_utilization(SglangMemoryShare(hardware, parallelism, step));
}

// Requests of more than 4,096 tokens are refused unless the operator allows them. A prefill holds
// the longest prompt, and 50 tokens more.
void FillTgi2(const ModelSpec& model, const proto::Experiment& asked, proto::Experiment& defaults) {
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
  policy.set_max_concurrent_requests(kTgiConcurrentRequests);
  defaults.mutable_system()->mutable_memory()->set_utilization(1.0);
}

// The prefill is as large as what the devices compute in a second by their data sheets, at most the
// model's longest prompt. TGI's further limit by device memory is not reproduced.
void FillTgi3(const ModelSpec& model, const HardwareSpec& hardware, const Parallelism& parallelism,
              proto::Experiment& defaults) {
  proto::TgiV3Policy& policy = *defaults.mutable_policy()->mutable_tgi_v3();
  const double flops = hardware.peak_bf16_flops * parallelism.devices();
  const double per_token = 2.0 * static_cast<double>(ActiveLayerParameters(model));
  double tokens = per_token > 0 ? std::floor(flops / per_token) : 0;
  if (tokens <= 100) tokens = 4096;
  if (model.max_position > 0) tokens = std::min(tokens, double{1} * model.max_position);
  policy.set_max_batch_prefill_tokens(static_cast<std::int32_t>(std::min(tokens, 1e6)));
  policy.set_max_batch_total_tokens(0);
  policy.set_prefill_chunking(true);
  policy.set_prefix_caching(true);
  policy.set_max_concurrent_requests(kTgiConcurrentRequests);
  proto::Memory& memory = *defaults.mutable_system()->mutable_memory();
  memory.set_block_size(1);
  memory.set_utilization(1.0);
}

void FillTrtllm(proto::Experiment& defaults) {
  proto::TrtllmPolicy& policy = *defaults.mutable_policy()->mutable_trtllm();
  policy.set_capacity_scheduler_policy(proto::TrtllmPolicy::GUARANTEED_NO_EVICT);
  policy.set_context_chunking_policy(proto::TrtllmPolicy::none);
  policy.set_max_batch_size(2048);
  policy.set_max_num_tokens(8192);
  proto::Memory& memory = *defaults.mutable_system()->mutable_memory();
  memory.set_block_size(32);
  memory.set_utilization(0.9);
}

void FillBoundary(const ListedServer& server, const Parallelism& parallelism,
                  proto::Boundary& boundary) {
  sim::BoundaryConfig config =
      BoundaryOfServer(server.preset->name, server.exact, parallelism.devices()).config;
  ToMessage fields(boundary);
  Bind(fields, config);
}

// A resolved config that is read again names the preset and the version that it stands in for.
void KeepAsked(const std::string& asked, const ListedServer& found, proto::System& system) {
  system.set_server(std::string(found.preset->name));
  if (!found.exact) {
    system.set_server_asked(asked);
  } else if (const auto earlier = FindServer(system.server_asked());
             !earlier || earlier->preset != found.preset) {
    system.clear_server_asked();
  }
}

// Engine by which the host prepares steps, and largest captured graph (0: the cost model's rule).
struct HostOf {
  proto::ProfileCost::Engine engine = proto::ProfileCost::from_policy;
  std::uint32_t captured = 0;
  bool hidden = false;  // host time overlaps the device, although the policy waits for results
};

std::optional<HostOf> HostOfPolicy(const HardwareSpec& hardware, const Parallelism& parallelism,
                                   const proto::Policy& policy) {
  const auto v1 = [](bool overlaps) {
    return overlaps ? proto::ProfileCost::v1_async : proto::ProfileCost::v1_sync;
  };
  switch (policy.kind_case()) {
    case proto::Policy::kVllmV1: {
      const std::int32_t twice = 2 * std::min(policy.vllm_v1().max_num_seqs(), 256);
      return HostOf{v1(policy.vllm_v1().async_scheduling()),
                    static_cast<std::uint32_t>(std::min(twice, 512))};
    }
    case proto::Policy::kVllmV0:
      return HostOf{proto::ProfileCost::v0,
                    static_cast<std::uint32_t>(std::min(policy.vllm_v0().max_num_seqs(), 256))};
    case proto::Policy::kSglang:
      return HostOf{v1(!policy.sglang().has_overlap() || policy.sglang().overlap()),
                    SglangCaptured(hardware, parallelism)};
    case proto::Policy::kTgiV2:
    case proto::Policy::kTgiV3:
      return HostOf{proto::ProfileCost::v0, kTgiCapturedMax};
    case proto::Policy::kTrtllm:
      return HostOf{proto::ProfileCost::v1_async, 512, true};  // its overlap scheduler
    default:
      return std::nullopt;
  }
}

// Fills in the engine that prepares steps and the sizes of captured graphs, both by the policy.
void FillCost(const HardwareSpec& hardware, const Parallelism& parallelism,
              const proto::Policy& policy, proto::Cost& cost) {
  if (cost.kind_case() != proto::Cost::KIND_NOT_SET && !cost.has_profile()) return;
  const std::optional<HostOf> host = HostOfPolicy(hardware, parallelism, policy);
  if (!host) return;
  proto::ProfileCost& profile = *cost.mutable_profile();
  if (!profile.has_engine()) profile.set_engine(host->engine);
  if (!profile.has_captured_size_max()) profile.set_captured_size_max(host->captured);
  if (!host->hidden) return;
  if (!profile.has_host_s()) profile.set_host_s(0);
  if (!profile.has_host_per_item_s()) profile.set_host_per_item_s(0);
}

}  // namespace

std::span<const ServerPreset> ServerPresets() { return kPresets; }

std::optional<ListedServer> FindServer(std::string_view name) {
  const std::optional<ServerName> asked = ParseServerName(name);
  if (!asked || !asked->version) return std::nullopt;
  std::optional<ListedServer> found;
  for (const ServerPreset& preset : kPresets) {
    if (FamilyOf(preset) != asked->family || preset.since > *asked->version) continue;
    const bool same = ParseServerName(preset.name)->version == asked->version;
    found = ListedServer{&preset, same && asked->released, *asked->version};
  }
  return found;
}

std::optional<ServerDecisions> DecisionsOfServer(std::string_view name) {
  const std::optional<ListedServer> found = FindServer(name);
  if (!found || found->preset->policy != "vllm_v1") return std::nullopt;
  const ServerVersion& version = found->version;
  return ServerDecisions{DecisionsOf(version).release,
                         version >= kFirstCompared && version < kFirstAfterCompared};
}

ServerBoundary BoundaryOfServer(std::string_view server, bool exact, std::int32_t ranks) {
  const bool one = ranks == 1;
  const bool older = server == kV1InTurn || server == "vllm-0.15.1" || server == "vllm-0.19.0";
  const bool recorded = exact && (server == "vllm-0.15.1" || server == "vllm-0.23.0");
  const double one_rank = older ? kOlderSeconds : kNewerSeconds;
  double log_sd = server.starts_with("vllm") ? kOtherVersionSd : kOtherServerSd;
  if (recorded) log_sd = one ? kOneRankSd : kMoreRanksSd;
  return {sim::BoundaryOf(one ? one_rank : kMoreRanksSeconds), log_sd};
}

PositionRule PositionRuleOf(const proto::Experiment& message) {
  const proto::System& system = message.system();
  const std::string& server = system.has_server_asked() ? system.server_asked() : system.server();
  const auto* const kind = message.policy().GetReflection()->GetOneofFieldDescriptor(
      message.policy(), proto::Policy::descriptor()->FindOneofByName("kind"));
  std::string policy = kind == nullptr ? "" : std::string(kind->name());
  if (const auto listed = FindServer(server); listed && policy.empty()) {
    policy = listed->preset->policy;
  }
  if (policy == "sglang") return PositionRule::kSglang;
  if (policy == "trtllm") return PositionRule::kTrtLlm;
  if (policy == "tgi_v2" || policy == "tgi_v3") return PositionRule::kTgi;
  if (policy != "vllm_v1") return PositionRule::kVllmBefore0111;
  constexpr ServerVersion kStartsShort = {0, 11, 1};
  const std::optional<ServerName> name = ParseServerName(server);
  const bool earlier =
      name && name->family == "vllm" && name->version && *name->version < kStartsShort;
  return earlier ? PositionRule::kVllmBefore0111 : PositionRule::kVllm;
}

void FillServerDefaults(const ModelSpec& model, const HardwareSpec& hardware,
                        const Parallelism& parallelism, proto::Experiment& message) {
  const std::string asked = message.system().server();
  const std::optional<ListedServer> found = FindServer(asked);
  if (!found) Refuse(asked);
  const ServerPreset& preset = *found->preset;
  proto::Experiment defaults;
  defaults.mutable_system()->mutable_memory()->set_block_size(16);
  if (preset.policy == "vllm_v0") {
    FillV0(model, message, defaults);
  } else if (preset.policy == "sglang") {
    FillSglang(hardware, parallelism, message, defaults);
  } else if (preset.policy == "tgi_v2") {
    FillTgi2(model, message, defaults);
  } else if (preset.policy == "tgi_v3") {
    FillTgi3(model, hardware, parallelism, defaults);
  } else if (preset.policy == "trtllm") {
    FillTrtllm(defaults);
  } else {
    FillV1(preset.name, found->version, model, hardware, parallelism, message, defaults);
  }
  FillBoundary(*found, parallelism, *defaults.mutable_system()->mutable_boundary());
  // A policy other than the server's takes no settings from it; run/config_warnings.cc says so.
  if (message.policy().kind_case() != proto::Policy::KIND_NOT_SET &&
      message.policy().kind_case() != defaults.policy().kind_case()) {
    defaults.clear_policy();
  }
  Overlay(message, defaults, "another server");
  message = std::move(defaults);
  KeepAsked(asked, *found, *message.mutable_system());
  FillCost(hardware, parallelism, message.policy(), *message.mutable_cost());
  if (message.cost().kind_case() == proto::Cost::KIND_NOT_SET) message.clear_cost();
}

}  // namespace twin
