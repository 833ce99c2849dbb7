#include "config/machine_defaults.h"

#include <algorithm>
#include <string>

#include "config/experiment.bind.h"
#include "config/experiment.pb.h"
#include "core/input_error.h"
#include "sim/cost/dataflow_config.h"
#include "sim/cost/dataflow_cost.h"

namespace twin {

void CountStages(const proto::System& message, Parallelism& parallelism) {
  if (parallelism.stages.empty()) return;
  if (message.has_tensor_parallel() && message.tensor_parallel() != 1) {
    throw InputError(InputError::Kind::kUsage, "system.tensor_parallel",
                     "is set beside stages, which have devices of their own");
  }
  std::int32_t stages = 0;
  for (const StageGroup& group : parallelism.stages) stages += group.count;
  if (!message.has_pipeline_parallel()) parallelism.pipeline = stages;
}

void FillEngineContext(SystemConfig system, proto::Experiment& message) {
  if (!message.policy().own().has_engine()) return;
  constexpr const char* kName = "max_model_len";
  const auto is_it = [](const proto::OwnPolicy::Parameter& p) { return p.name() == kName; };
  proto::OwnPolicy& own = *message.mutable_policy()->mutable_own();
  FromMessage fields(message.system());
  Bind(fields, system);
  const std::int32_t longest = system.model_spec.max_position;
  if (longest <= 0 || std::ranges::any_of(own.parameters(), is_it)) return;
  proto::OwnPolicy::Parameter& added = *own.add_parameters();
  added.set_name(kName);
  added.set_value(std::to_string(longest));
}

void FillShip(SystemConfig system, proto::Experiment& message) {
  if (!message.policy().has_ship()) return;
  FromMessage fields(message.system());
  Bind(fields, system);
  CountStages(message.system(), system.parallelism);
  proto::ShipPolicy& ship = *message.mutable_policy()->mutable_ship();
  if (!ship.has_pipeline_parallel_size()) {
    ship.set_pipeline_parallel_size(system.parallelism.pipeline);
  }
  if (!ship.has_fill_tokens() && system.hardware_spec.dataflow) {
    ship.set_fill_tokens(sim::FreeTokens(system.hardware_spec));
  }
}

void SetMachineDefaults(ExperimentConfig& config) {
  if (!config.system.hardware_spec.dataflow) return;
  config.system.memory.rule = sim::MemoryRule::kShip;
  config.system.memory.kv_groups = false;
  config.system.memory.window_pool_ratio.reset();
  config.cost = sim::DataflowCostConfig{};
}

}  // namespace twin
