// A deployment resolves slots of states and window pools from its model.
#include "run/deployment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "sched/policy/sglang_config.h"
#include "sim/devices/profile_config.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Deployment WithPolicy(const std::string& model, const std::string& policy) {
  const std::string text = fmt::format(
      R"(workload {{ requests: 1 arrivals {{ kind: all_at_once }}
         shape {{ prompt {{ kind: fixed value: 10 }} output {{ kind: fixed value: 10 }} }} }}
      policy {{ {} }}
      system {{ model: "{}" hardware: "b200"
               memory {{ kv_bytes_override: 10000000000 }} }}
      cost {{ profile {{}} }})",
      policy, model);
  return Resolve(ParseExperiment(text, "e", "/"));
}

// Requests that SGLang runs of Qwen3-Next-80B-A3B with 10 GB of cache.
std::int32_t MostRunning(const std::string& settings) {
  const Deployment deployment =
      WithPolicy("qwen3-next-80b-a3b", fmt::format("sglang {{ {} }}", settings));
  return deployment.config.policy.If<SglangConfig>()->max_running_requests;
}

// A state of 77,266,944 bytes; 0.9 / 1.9 of 10 GB hold 61 of them.
TEST(StateSlotsTest, PrefixesTakeSlotsToo) {
  EXPECT_EQ(MostRunning(""), 61 / 5);
  EXPECT_EQ(MostRunning("overlap: false"), 61 / 3);
  EXPECT_EQ(MostRunning("radix_cache: false"), 61);
}

TEST(StateSlotsTest, FewRequestsKeepTheirLimit) {
  EXPECT_EQ(MostRunning("max_running_requests: 7"), 7);
  EXPECT_EQ(MostRunning("max_running_requests: 60 radix_cache: false"), 60);
}

// Gemma 3 27B: 52 layers with windows of 1,024 and 10 that keep all tokens, 8,192 bytes each; 5 GB
// for each pool of blocks of 16 tokens.
TEST(DeploymentWindowPoolTest, TensorRtLlmHasOneOfTheModelsWindow) {
  const Deployment deployment = WithPolicy("gemma-3-27b", "trtllm { max_attention_window: 1024 }");
  EXPECT_EQ(deployment.engine.kv.blocks, 5'000'000'000 / (10 * 8'192 * 16));
  EXPECT_EQ(deployment.engine.kv.window_blocks, 5'000'000'000 / (52 * 8'192 * 16));
  EXPECT_THAT(
      [] { WithPolicy("gemma-3-27b", "trtllm { max_attention_window: 512 }"); },
      ThrowsMessage<InputError>(HasSubstr(
          "is 512, but the layers of gemma-3-27b have windows of 1024; allowed: 1024 or 0")));
  EXPECT_THAT([] { WithPolicy("llama-3.1-8b", "trtllm { max_attention_window: 512 }"); },
              ThrowsMessage<InputError>(HasSubstr("needs a window pool")));
}

// A guest whose traits would give it another system, of a policy that decides there.
std::shared_ptr<const OwnPolicy> Guest(void (*set)(PolicyTraits&)) {
  auto guest = std::make_shared<OwnPolicy>();
  guest->name = "guest";
  guest->traits.name = "guest";
  set(guest->traits);
  return guest;
}

TEST(ResolveForTest, AGuestDecidesOnTheSystemOfTheExperimentsPolicy) {
  const ExperimentConfig config = ParseExperiment(
      R"(workload { requests: 1 arrivals { kind: all_at_once }
         shape { prompt { kind: fixed value: 10 } output { kind: fixed value: 10 } } }
      policy { vllm_v1 { max_num_batched_tokens: 8192 max_num_seqs: 256 max_model_len: 8192 } }
      system { model: "llama-3-8b" hardware: "h100-sxm" memory { utilization: 0.25 } }
      cost { profile {} })",
      "e", "/");
  CostCache cache;
  const Deployment system = Resolve(config, cache);
  using Set = void (*)(PolicyTraits&);
  for (const Set set : {Set{[](PolicyTraits& t) { t.sized_for_tokens = 1; }},
                        Set{[](PolicyTraits& t) { t.tokens_per_step_max = 16; }},
                        Set{[](PolicyTraits& t) { t.sequences_per_step_max = 1; }},
                        Set{[](PolicyTraits& t) { t.sequences_per_step_max = 1'000'000; }},
                        Set{[](PolicyTraits& t) { t.context_tokens_max = 20; }},
                        Set{[](PolicyTraits& t) { t.step_engine = "v0"; }},
                        Set{[](PolicyTraits& t) { t.memory_rule = "sarathi"; }}}) {
    const Deployment guest = ResolveFor(Guest(set), config, cache);
    EXPECT_EQ(guest.capacity.blocks, system.capacity.blocks);
    EXPECT_EQ(guest.engine.kv.blocks, system.engine.kv.blocks);
    EXPECT_EQ(guest.context_tokens_max, 8192);
    EXPECT_EQ(guest.world.max_model_length, 8192);
    const auto* const cost = guest.config.cost.If<sim::ProfileCostConfig>();
    EXPECT_EQ(cost->engine, system.config.cost.If<sim::ProfileCostConfig>()->engine);
    EXPECT_EQ(cost->captured_size_max,
              system.config.cost.If<sim::ProfileCostConfig>()->captured_size_max);
    EXPECT_EQ(guest.config.own_policy->name, "guest");
    EXPECT_TRUE(guest.engine.checks_rejections);
  }
}

// Its keys of prefixes are its own: a guest that caches none is shown none.
TEST(ResolveForTest, AGuestUsesTheFeaturesThatItAsksFor) {
  const ExperimentConfig config = ParseExperiment(
      R"(workload { requests: 1 arrivals { kind: all_at_once }
         shape { prompt { kind: fixed value: 10 } output { kind: fixed value: 10 } } }
      policy { vllm_v1 {} } system { model: "llama-3-8b" hardware: "h100-sxm" }
      cost { roofline {} })",
      "e", "/");
  CostCache cache;
  const auto named = [&](void (*set)(PolicyTraits&)) {
    return ResolveFor(Guest(set), config, cache).world.named_block_size;
  };
  EXPECT_EQ(named([](PolicyTraits& t) { t.caches_prefixes = false; }), 0);
  EXPECT_EQ(named([](PolicyTraits& t) { t.caches_prefixes = true; }), 16);
  EXPECT_THAT([&] { named([](PolicyTraits& t) { t.swaps_to_host = true; }); },
              ThrowsMessage<InputError>(HasSubstr("gives no host blocks")));
}

}  // namespace
}  // namespace twin::run
