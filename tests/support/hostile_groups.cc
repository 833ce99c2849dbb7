#include "tests/support/hostile_groups.h"

#include <initializer_list>
#include <numeric>
#include <string>

namespace twin::testing {
namespace {

struct GroupMode {
  std::string name;
  bool full = true;
  bool windows = false;
  bool chunks = false;
  bool states = false;
  bool async = false;
  bool prefix = false;
  bool priority = false;
  std::int32_t stages = 1;
};

KvGroups DrawGroups(Random& random, const GroupMode& mode, std::int32_t context) {
  KvGroups drawn;
  drawn.groups.clear();
  const std::int32_t block = 1 << Draw(random, 0, 3);
  const auto add = [&](KvGroup group) {
    for (std::int32_t copies = Draw(random, 1, 3); copies > 0; --copies) {
      drawn.groups.push_back(group);
    }
  };
  if (mode.states && mode.prefix) add({.kind = KvGroupKind::kState, .block_size = block});
  if (mode.states && !mode.prefix) {
    add({.kind = KvGroupKind::kState, .block_size = context, .states = StateBlocks::kOne});
  }
  if (mode.full) drawn.groups.push_back({.block_size = block});
  if (mode.windows) {
    const std::int32_t sizes = mode.states ? 0 : Draw(random, 0, 2);
    add({.kind = KvGroupKind::kWindow, .block_size = block << sizes, .span = Draw(random, 1, 30)});
    if (random.UnitReal() < 0.5) {
      add({.kind = KvGroupKind::kWindow, .block_size = block, .span = Draw(random, 1, 30)});
    }
  }
  if (mode.chunks) {
    add({.kind = KvGroupKind::kChunked, .block_size = block, .span = block * Draw(random, 1, 8)});
  }
  drawn.scheduler_block = 1;
  for (const KvGroup& group : drawn.groups) {
    drawn.scheduler_block = std::lcm(drawn.scheduler_block, group.block_size);
  }
  drawn.hash_block = block;
  return drawn;
}

DrawnPolicy DrawGroupPolicy(Random& random, const GroupMode& mode) {
  DrawnPolicy drawn;
  VllmV1Config config;
  config.max_num_seqs = Draw(random, 1, 8);
  config.max_model_len = drawn.context_tokens = Draw(random, 4, 80);
  config.max_num_batched_tokens = Draw(random, config.max_num_seqs, 60);
  if (mode.priority) config.policy = QueueOrder::kPriority;
  drawn.priorities = mode.priority;
  config.async_scheduling = mode.async;
  config.enable_prefix_caching = drawn.shares_prefixes = mode.prefix;
  config.pipeline_parallel_size = mode.stages;
  config.scheduler_reserve_full_isl = random.UnitReal() < 0.7;
  if (random.UnitReal() < 0.3) config.long_prefill_token_threshold = Draw(random, 1, 12);
  if (random.UnitReal() < 0.2) config.watermark = random.UniformReal(0.0, 0.3);
  drawn.kv_groups = DrawGroups(random, mode, config.max_model_len);
  const std::int32_t kept = Draw(random, -1, 3);
  config.prefix_cache_retention_interval =
      kept > 0 ? kept * drawn.kv_groups->scheduler_block : kept;
  drawn.config = config;
  return drawn;
}

std::vector<PolicyMode> MakeGroupModes() {
  std::vector<PolicyMode> modes;
  for (const GroupMode& mode : std::initializer_list<GroupMode>{
           {.name = "window", .full = false, .windows = true},
           {.name = "window_prefix", .full = false, .windows = true, .prefix = true},
           {.name = "window_full", .windows = true},
           {.name = "window_full_async", .windows = true, .async = true},
           {.name = "window_full_default", .windows = true, .async = true, .prefix = true},
           {.name = "window_full_priority_prefix",
           .windows = true,
           .prefix = true,
           .priority = true},
           {.name = "window_full_pipeline_prefix", .windows = true, .prefix = true, .stages = 2},
           {.name = "window_full_pipeline_async",
           .windows = true,
           .async = true,
           .prefix = true,
           .stages = 3},
           {.name = "chunk_full_prefix", .chunks = true, .prefix = true},
           {.name = "chunk_full_async", .chunks = true, .async = true},
           {.name = "chunk_window_default",
           .windows = true,
           .chunks = true,
           .async = true,
           .prefix = true},
           {.name = "state", .full = false, .states = true},
           {.name = "state_full_async", .states = true, .async = true},
           {.name = "state_prefix", .full = false, .states = true, .prefix = true},
           {.name = "state_full_prefix", .states = true, .prefix = true},
           {.name = "state_full_default", .states = true, .async = true, .prefix = true},
           {.name = "state_window_default",
           .windows = true,
           .states = true,
           .async = true,
           .prefix = true},
           {.name = "state_full_priority_prefix", .states = true, .prefix = true, .priority = true},
           {.name = "state_full_pipeline_async",
           .states = true,
           .async = true,
           .prefix = true,
           .stages = 2}}) {
    modes.push_back({"vllm_v1_033_" + mode.name, [mode](Random& random, std::int32_t) {
                       return DrawGroupPolicy(random, mode);
                     }});
  }
  return modes;
}

}  // namespace

const std::vector<PolicyMode>& GroupModes() {
  static const std::vector<PolicyMode> modes = MakeGroupModes();
  return modes;
}

}  // namespace twin::testing
