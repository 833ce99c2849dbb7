#include "config/replica_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "config/experiment.bind.h"
#include "config/experiment.pb.h"
#include "config/overlay.h"
#include "core/input_error.h"

namespace twin {
namespace {

using Role = ReplicaGroup::Role;

constexpr std::int64_t kReplicasMax = 10'000;

[[noreturn]] void RefuseGroups(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, where, what);
}

const char* Name(Role role) {
  if (role == Role::kBoth) return "both";
  return role == Role::kPrefill ? "prefill" : "decode";
}

// Hardware and memory have no members of oneofs.
constexpr std::string_view kWayOut = "none";

// Drops the experiment's policy or cost if the group chooses another kind, which inherits nothing.
template <class Choice>
void LayOverChoice(const Choice& group, Choice& shared) {
  if (group.kind_case() != Choice::KIND_NOT_SET && group.kind_case() != shared.kind_case()) {
    shared.Clear();
  }
  Overlay(group, shared, kWayOut);
}

// Equal stages of a group replace listed ones of the system, and the other way round.
void LayOverSplit(const proto::ReplicaGroup& group, proto::System& system) {
  if (group.stages_size() > 0) {
    system.clear_tensor_parallel();
    system.clear_pipeline_parallel();
    *system.mutable_stages() = group.stages();
  } else if (group.has_tensor_parallel() || group.has_pipeline_parallel()) {
    system.clear_stages();
  }
  if (group.has_tensor_parallel()) system.set_tensor_parallel(group.tensor_parallel());
  if (group.has_pipeline_parallel()) system.set_pipeline_parallel(group.pipeline_parallel());
  if (group.has_link_topology()) system.set_link_topology(group.link_topology());
  if (group.has_kv_split()) system.set_kv_split(group.kv_split());
}

void LayOver(const proto::ReplicaGroup& group, proto::Experiment& message) {
  proto::System& system = *message.mutable_system();
  if (group.has_hardware()) {
    system.set_hardware(group.hardware());
    system.clear_hardware_spec();
  }
  LayOverSplit(group, system);
  if (group.has_hardware_spec())
    Overlay(group.hardware_spec(), *system.mutable_hardware_spec(), kWayOut);
  if (group.has_ffn()) Overlay(group.ffn(), *system.mutable_ffn(), kWayOut);
  if (group.has_memory()) Overlay(group.memory(), *system.mutable_memory(), kWayOut);
  if (group.has_policy()) LayOverChoice(group.policy(), *message.mutable_policy());
  if (group.has_cost()) LayOverChoice(group.cost(), *message.mutable_cost());
}

std::string RoleField(std::size_t index) {
  return fmt::format("system.replica_groups[{}].role", index);
}

void RequireRoles(const std::vector<ReplicaGroup>& groups, bool separate) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Role role = groups[i].role;
    if (!separate && role != Role::kBoth) {
      RefuseGroups(RoleField(i),
                   fmt::format("is {}; allowed without system.disaggregation: both", Name(role)));
    }
    if (!separate) continue;
    if (role == Role::kBoth) {
      RefuseGroups(RoleField(i), "is both; allowed with system.disaggregation: prefill, decode");
    }
    if (role == Role::kPrefill && i > 0 && groups[i - 1].role == Role::kDecode) {
      RefuseGroups(RoleField(i),
                   "is prefill behind a group that decodes; allowed: groups that prefill "
                   "before groups that decode");
    }
  }
}

std::int64_t ReplicasOf(const std::vector<ReplicaGroup>& groups, Role role) {
  std::int64_t replicas = 0;
  for (const ReplicaGroup& group : groups) replicas += group.role == role ? group.count : 0;
  return replicas;
}

void RequireCount(bool given, std::int32_t count, std::int64_t of_groups, const char* field) {
  if (!given || count == of_groups) return;
  RefuseGroups(field,
               fmt::format("is {}; allowed with replica_groups: {}, the sum of their counts, or "
                           "none",
                           count, of_groups));
}

void FillPools(const proto::Disaggregation& asked, SystemConfig& system) {
  FromMessage fields(asked);
  Bind(fields, system.disaggregation.emplace());
  const std::int64_t prefill = ReplicasOf(system.groups, Role::kPrefill);
  const std::int64_t decode = ReplicasOf(system.groups, Role::kDecode);
  if (prefill == 0 || decode == 0) {
    RefuseGroups(
        "system.replica_groups",
        fmt::format("has no group that {}; allowed with system.disaggregation: at least one of "
                    "each role",
                    prefill == 0 ? "prefills" : "decodes"));
  }
  RequireCount(asked.has_prefill_replicas(), asked.prefill_replicas(), prefill,
               "system.disaggregation.prefill_replicas");
  RequireCount(asked.has_decode_replicas(), asked.decode_replicas(), decode,
               "system.disaggregation.decode_replicas");
  system.disaggregation->pools.prefill_replicas = static_cast<std::int32_t>(prefill);
  system.disaggregation->pools.decode_replicas = static_cast<std::int32_t>(decode);
}

}  // namespace

proto::Experiment MessageOfGroup(const proto::Experiment& asked, int index) {
  proto::Experiment message = asked;
  message.mutable_system()->clear_replica_groups();
  message.mutable_system()->clear_replicas();
  message.mutable_system()->clear_disaggregation();
  LayOver(asked.system().replica_groups(index), message);
  return message;
}

void FillGroups(const proto::Experiment& asked, const std::vector<ExperimentConfig>& of_groups,
                SystemConfig& system) {
  system.groups.clear();
  for (std::size_t i = 0; i < of_groups.size(); ++i) {
    FromMessage fields(asked.system().replica_groups(static_cast<int>(i)));
    ReplicaGroup group;
    Bind(fields, group);
    group.hardware = of_groups[i].system.hardware;
    group.hardware_spec = of_groups[i].system.hardware_spec;
    group.parallelism = of_groups[i].system.parallelism;
    group.memory = of_groups[i].system.memory;
    group.policy = of_groups[i].policy;
    group.cost = of_groups[i].cost;
    group.ffn = of_groups[i].system.ffn;
    system.groups.push_back(std::move(group));
  }
  const bool separate = asked.system().has_disaggregation();
  RequireRoles(system.groups, separate);
  std::int64_t replicas = 0;
  for (const ReplicaGroup& group : system.groups) replicas += group.count;
  if (replicas > kReplicasMax) {
    RefuseGroups("system.replica_groups",
                 fmt::format("are {} replicas; allowed: {} in all", replicas, kReplicasMax));
  }
  RequireCount(asked.system().has_replicas(), asked.system().replicas(), replicas,
               "system.replicas");
  if (separate) FillPools(asked.system().disaggregation(), system);
  system.replicas = static_cast<std::int32_t>(replicas);
}

void ClearSharedByGroups(proto::Experiment& message) {
  proto::System& system = *message.mutable_system();
  system.clear_hardware();
  system.clear_hardware_spec();
  system.clear_tensor_parallel();
  system.clear_pipeline_parallel();
  system.clear_link_topology();
  system.clear_kv_split();
  system.clear_stages();
  system.clear_memory();
  system.clear_ffn();
  message.clear_policy();
  message.clear_cost();
}

ExperimentConfig ConfigOfGroup(const ExperimentConfig& config, std::size_t index) {
  const ReplicaGroup& group = config.system.groups.at(index);
  ExperimentConfig own = config;
  SystemConfig& system = own.system;
  if (group.role == Role::kDecode) system.router = system.disaggregation->pools.decode_router;
  system.groups.clear();
  system.replicas = group.count;
  system.hardware = group.hardware;
  system.hardware_spec = group.hardware_spec;
  system.parallelism = group.parallelism;
  system.memory = group.memory;
  system.ffn = group.ffn;
  own.policy = group.policy;
  own.cost = group.cost;
  return own;
}

}  // namespace twin
