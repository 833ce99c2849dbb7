#include "apps/schedule/schedule_run.h"

#include <algorithm>

#include "apps/schedule/batch_time_world.h"
#include "apps/schedule/unit_time_world.h"
#include "core/input_error.h"
#include "sched/engine.h"

namespace twin::run {
namespace {

using nlohmann::json;

// Without a pool in the case, memory never limits: every request could reserve as much as the
// largest one.
std::int32_t UnboundedBlocks(const ScheduleCase& c) {
  std::int64_t prompt = 1;
  std::int64_t output = 1;
  for (const ScheduleRequest& r : c.requests) {
    prompt = std::max<std::int64_t>(prompt, r.prompt_tokens);
    output = std::max<std::int64_t>(output, r.max_output_tokens);
  }
  const auto rows = static_cast<std::int64_t>(c.requests.size());
  const std::int64_t blocks = rows * ((prompt + output) / c.block_size + 1);
  constexpr std::int64_t kMost = 100'000'000;
  if (blocks > kMost) {
    throw InputError(InputError::Kind::kData, c.where + ": kv",
                     "field 'blocks' is 0, with which the requests may take " +
                         std::to_string(blocks) + " blocks; allowed: up to " +
                         std::to_string(kMost));
  }
  return static_cast<std::int32_t>(blocks);
}

std::string List(const json& numbers) {
  std::string text = "[";
  for (const json& n : numbers) text += (text.size() > 1 ? "," : "") + n.dump();
  return text + "]";
}

// A step in the notation of the policy notes.
std::string Notation(const json& step) {
  std::string text = step.contains("it") ? "it" + step["it"].dump() + ":" : "batch:";
  for (const json& item : step.value("work", json::array())) {
    text += " " + item[0].dump() + ":" + item[1].get<std::string>() + item[2].dump();
  }
  for (const auto& [field, value] : step.items()) {
    if (field == "it" || field == "work" || (value.is_array() && value.empty())) continue;
    text += " | " + field + "=" + (value.is_array() ? List(value) : value.dump());
  }
  return text;
}

// The part of `decided` whose fields `expected` has.
json Project(const json& decided, const json& expected) {
  json projected = json::object();
  for (const auto& [field, value] : expected.items()) {
    if (decided.contains(field)) projected[field] = decided[field];
  }
  return projected;
}

// How the loop around the policy processes results.
UnitTimeOptions OptionsOf(const PolicyTraits& traits) {
  UnitTimeOptions options;
  options.queue = traits.result_queue;
  options.depth = traits.steps_in_flight_max;
  options.forgets_stale_tokens = traits.forgets_stale_tokens;
  options.drafts_max = traits.assumes_drafts ? 0 : traits.drafts_max;
  options.batch_delivery = traits.delivery == Delivery::kBatchEnd;
  if (traits.outputs_end_at_context) options.context_tokens_max = traits.context_tokens_max;
  return options;
}

EngineConfig EngineConfigOf(const ScheduleCase& c, const PolicyTraits& traits) {
  EngineConfig config;
  config.kv.block_size = c.block_size;
  config.kv.blocks = c.blocks > 0 ? c.blocks : UnboundedBlocks(c);
  config.kv.host_blocks = c.host_blocks;
  config.kv.window_blocks = c.window_blocks;
  config.kv.release_order = traits.release_order;
  config.kv.key_tokens = traits.KeyTokens(c.block_size);
  config.kv_groups = c.kv_groups;
  if (c.kv_groups && NeedGroupTables(*c.kv_groups)) config.kv.block_size = c.kv_groups->hash_block;
  return config;
}

std::vector<nlohmann::ordered_json> DecideBatches(const ScheduleCase& c,
                                                  const PolicyConfig& policy) {
  const EngineConfig config = EngineConfigOf(c, TraitsOf(policy));
  Engine engine(config, MakePolicy(policy, config.kv));
  BatchTimeWorld world(c);
  for (Instant instant = world.Advance(kTimeNever); !instant.events.empty();
       instant = world.Advance(engine.wake_at())) {
    for (const Event& event : instant.events) engine.Handle(event);
    while (const StepPlan* plan = engine.PlanStep(instant.now)) {
      world.Launch(*plan);
      world.OnPlanned(engine.policy());
    }
  }
  engine.CheckDrained();
  return world.batches();
}

}  // namespace

std::vector<nlohmann::ordered_json> DecideCase(const ScheduleCase& schedule_case,
                                               const PolicyConfig& policy_config) {
  if (schedule_case.batch_time) return DecideBatches(schedule_case, policy_config);
  PolicyConfig policy = policy_config;
  if (schedule_case.speculation.on() && !SetSpeculation(policy, schedule_case.speculation)) {
    throw InputError(InputError::Kind::kData, schedule_case.where + ": params",
                     "field 'num_speculative_tokens' is set, but policy \"" + schedule_case.policy +
                         "\" knows no speculation");
  }
  const PolicyTraits traits = TraitsOf(policy);
  EngineConfig config = EngineConfigOf(schedule_case, traits);
  config.plans_per_instant_max = 1;
  Engine engine(config, MakePolicy(policy, config.kv));
  UnitTimeOptions options = OptionsOf(traits);
  if (schedule_case.truncated) {
    options.iterations_max =
        schedule_case.steps.empty() ? 0 : schedule_case.steps.back().at("it").get<std::int64_t>();
  }
  options.groups = engine.group_tables();
  UnitTimeWorld world(schedule_case, engine.pool(), options);
  // The loop of Serve.
  for (Instant instant = world.Advance(kTimeNever); !instant.events.empty();
       instant = world.Advance(engine.wake_at())) {
    for (const Event& event : instant.events) {
      if (std::holds_alternative<RequestCancelled>(event)) world.OnHandled(engine.policy());
      engine.Handle(event);
    }
    world.OnHandled(engine.policy());
    // Before the engine is asked again: without requests that resets what a policy shows.
    bool has_planned = false;
    for (; const StepPlan* plan = engine.PlanStep(instant.now); has_planned = true) {
      world.Launch(*plan);
      world.OnPlanned(engine.policy());
    }
    if (!has_planned) world.OnPlanned(engine.policy());
  }
  world.OnHandled(engine.policy());
  if (!schedule_case.truncated) engine.CheckDrained();
  std::vector<nlohmann::ordered_json> steps = world.steps();
  while (!steps.empty() && steps.back().at("it") > options.iterations_max) steps.pop_back();
  return steps;
}

std::string FirstDifference(const ScheduleCase& schedule_case,
                            const std::vector<nlohmann::ordered_json>& decided) {
  const json& expected = schedule_case.steps;
  const std::size_t steps = std::min(expected.size(), decided.size());
  for (std::size_t i = 0; i < steps; ++i) {
    json ours = decided[i];
    json theirs = expected[i];
    // "rejected" is left out of the files where it is empty.
    if (ours.contains("rejected") && !theirs.contains("rejected")) {
      theirs["rejected"] = json::array();
    }
    // Requests that TensorRT-LLM's capacity scheduler passes on; no plan holds them.
    theirs.erase("fitting");
    ours = Project(ours, theirs);
    if (ours != theirs) return "expected " + Notation(theirs) + "\n     decided  " + Notation(ours);
  }
  if (decided.size() == expected.size()) return "";
  if (decided.size() < expected.size())
    return "expected " + Notation(expected[steps]) + "\n     decided  nothing more";
  return "expected nothing more\n     decided  " + Notation(decided[steps]);
}

}  // namespace twin::run
