// Every policy that can be named in a configuration.
#pragma once

#include <memory>
#include <variant>

#include "sched/cache/kv_pool.h"
#include "sched/policy/orca.h"
#include "sched/policy/policy.h"
#include "sched/policy/sarathi.h"
#include "sched/policy/splitfuse.h"
#include "sched/policy/static_batching.h"
#include "sched/policy/vllm_v0.h"
#include "sched/policy/vllm_v1.h"

namespace twin {

using PolicyConfig = std::variant<StaticConfig, OrcaConfig, VllmV0Config, VllmV1Config,
                                  SarathiConfig, SplitFuseConfig>;

// REQUIRES: a config whose values are in range (proto/ checks them).
std::unique_ptr<Policy> MakePolicy(const PolicyConfig& config, const KvPoolConfig& kv);

// The order in which the policy's KV pool takes blocks back.
ReleaseOrder ReleaseOrderOf(const PolicyConfig& config);

}  // namespace twin
