// Every policy that takes an order follows it, in its own way. Expected values: by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/input_error.h"
#include "sched/policy/registry.h"
#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

using Kind = OrderConfig::Kind;

// vLLM V1 with room for one request.
VllmV1Config Core(const OrderConfig& order) {
  VllmV1Config config;
  config.max_num_batched_tokens = 64;
  config.max_num_seqs = 1;
  config.max_model_len = 64;
  config.order = order;
  return config;
}

Asked Predicted(std::int32_t step, std::int32_t prompt, std::int32_t output,
                std::int32_t predicted) {
  return {.step = step, .prompt = prompt, .output = output, .predicted = predicted};
}

// One request at a time: C with 1 token, then B with 2, then A with 3.
TEST(OrderedCoresTest, EveryCoreThatTakesAnOrderFollowsIt) {
  OrcaConfig orca;
  orca.max_bs = 1;
  SarathiConfig sarathi;
  sarathi.max_num_seqs = 1;
  TgiV2Config tgi_v2;
  tgi_v2.max_batch_size = 1;
  TgiV3Config tgi_v3;
  tgi_v3.max_batch_total_tokens = 32;  // a block, and one for the router itself
  VllmV0Config v0;
  v0.max_num_seqs = 1;
  v0.watermark = 0;
  SplitFuseConfig splitfuse;
  splitfuse.max_ragged_sequence_count = 1;
  StaticConfig fixed;
  fixed.padded = false;
  fixed.max_batch_size = 1;
  fixed.max_model_len = 16;
  TritonConfig triton;
  triton.padded = false;
  triton.max_batch_size = 1;
  triton.max_model_len = 16;
  LightllmConfig lightllm;
  lightllm.running_max_req_size = 1;
  TrtllmConfig no_evict;
  no_evict.max_batch_size = 1;
  TrtllmConfig max_utilization = no_evict;
  max_utilization.capacity_scheduler_policy = TrtllmConfig::Capacity::kMaxUtilization;
  SglangConfig sglang;
  sglang.radix_cache = sglang.overlap = false;
  sglang.max_running_requests = 1;
  v0.order = splitfuse.order = OrderConfig{.kind = Kind::kSjf};
  fixed.order = triton.order = lightllm.order = OrderConfig{.kind = Kind::kSjf};
  no_evict.order = max_utilization.order = sglang.order = OrderConfig{.kind = Kind::kSjf};
  orca.order = sarathi.order = tgi_v2.order = tgi_v3.order = OrderConfig{.kind = Kind::kSjf};
  for (const PolicyConfig& core :
       {PolicyConfig(Core({.kind = Kind::kSjf})), PolicyConfig(orca), PolicyConfig(sarathi),
        PolicyConfig(tgi_v2), PolicyConfig(tgi_v3), PolicyConfig(v0), PolicyConfig(fixed),
        PolicyConfig(triton), PolicyConfig(lightllm), PolicyConfig(no_evict),
        PolicyConfig(max_utilization), PolicyConfig(sglang)}) {
    EXPECT_EQ(Decided(core, {.block_size = 16, .blocks = 8},
                      {Predicted(1, 4, 3, 3), Predicted(1, 4, 2, 2), Predicted(1, 4, 1, 1)}),
              "it1: C:P4 | free=7 | fin=[C] | freeA=8\n"
              "it2: B:P4 | free=7\n"
              "it3: B:D1 | free=7 | fin=[B] | freeA=8\n"
              "it4: A:P4 | free=7\n"
              "it5: A:D1 | free=7\n"
              "it6: A:D1 | free=7 | fin=[A] | freeA=8\n")
        << TraitsOf(core).name;
  }
  // A finished request keeps its blocks until the next pass.
  EXPECT_EQ(Decided(splitfuse, {.block_size = 16, .blocks = 8},
                    {Predicted(1, 4, 3, 3), Predicted(1, 4, 2, 2), Predicted(1, 4, 1, 1)}),
            "it1: C:P4 | free=7 | fin=[C] | freeA=7\n"
            "it2: B:P4 | rel=[C] | free=7\n"
            "it3: B:D1 | free=7 | fin=[B] | freeA=7\n"
            "it4: A:P4 | rel=[B] | free=7\n"
            "it5: A:D1 | free=7\n"
            "it6: A:D1 | free=7 | fin=[A] | freeA=7\n"
            "it7: | rel=[A] | free=8\n");
}

// Two rows: the short B and C share the first batch.
TEST(OrderedCoresTest, TheOrderDecidesWhoSharesAClosedBatch) {
  StaticConfig fixed;
  fixed.max_batch_size = 2;
  fixed.order = OrderConfig{.kind = Kind::kSjf};
  TritonConfig triton;
  triton.max_batch_size = 2;
  triton.order = fixed.order;
  for (const PolicyConfig& core : {PolicyConfig(fixed), PolicyConfig(triton)}) {
    EXPECT_EQ(Decided(core, {.block_size = 16, .blocks = 8},
                      {Predicted(1, 4, 3, 3), Predicted(1, 4, 2, 2), Predicted(1, 4, 2, 1)}),
              "it1: C:P4 B:P4 | free=6\n"
              "it2: C:D1 B:D1 | free=6 | fin=[B,C] | freeA=8\n"
              "it3: A:P4 | free=7\n"
              "it4: A:D1 | free=7\n"
              "it5: A:D1 | free=7 | fin=[A] | freeA=8\n")
        << TraitsOf(core).name;
  }
}

// In it3 B grows, and A has to go, although it came first and runs.
TEST(OrderedCoresTest, TensorRtLlmPausesTheLastInTheOrder) {
  TrtllmConfig config;
  config.capacity_scheduler_policy = TrtllmConfig::Capacity::kMaxUtilization;
  config.order = OrderConfig{.kind = Kind::kSjf};
  EXPECT_EQ(Decided(config, {.blocks = 3}, {Predicted(1, 4, 5, 5), Predicted(2, 4, 3, 3)}),
            "it1: A:P4 | free=2\n"
            "it2: B:P4 A:D1 | free=0\n"
            "it3: B:D1 | pre=[A] | free=1\n"
            "it4: B:D1 | free=1 | fin=[B] | freeA=3\n"
            "it5: A:P6 | free=1\n"
            "it6: A:D1 | free=1\n"
            "it7: A:D1 | free=1 | fin=[A] | freeA=3\n");
}

// B needs 3 blocks of 4 and does not fit beside A, which keeps 2 to its end. C, shorter, arrives
// meanwhile and comes before it.
TEST(OrderedCoresTest, WhoeverDidNotFitInTensorRtLlmWaitsForItsTurn) {
  TrtllmConfig config;
  config.order = OrderConfig{.kind = Kind::kSjf};
  EXPECT_EQ(Decided(config, {.blocks = 4},
                    {Predicted(1, 4, 3, 3), Predicted(1, 6, 5, 5), Predicted(2, 4, 2, 2)}),
            "it1: A:P4 | free=3\n"
            "it2: C:P4 A:D1 | free=1\n"
            "it3: A:D1 C:D1 | free=0 | fin=[A,C] | freeA=4\n"
            "it4: B:P6 | free=2\n"
            "it5: B:D1 | free=2\n"
            "it6: B:D1 | free=2\n"
            "it7: B:D1 | free=1\n"
            "it8: B:D1 | free=1 | fin=[B] | freeA=4\n");
}

// Golden case sglang_fcfs-ex12b23, where SGLang's own rule retracts A: it has as many output
// tokens as B, and the longer prompt. B then comes before C, which it would not at the end of a
// list, and needs 13 tokens of 23; beside the 20 that it is charged, C does not fit.
TEST(OrderedCoresTest, SglangRetractsTheLastInTheOrder) {
  SglangConfig config;
  config.radix_cache = config.overlap = false;
  config.chunked_prefill_size = -1;
  config.init_new_token_ratio = 0.5;
  config.min_new_token_ratio_factor = 1.0;
  config.order = OrderConfig{.kind = Kind::kPriority};
  EXPECT_EQ(
      Decided(config, {.block_size = 1, .blocks = 23}, {{1, 6, 8, 0}, {1, 4, 8, 1}, {1, 3, 4, 2}}),
      "it1: A:P6 | free=17\n"
      "it2: B:P4 | free=13\n"
      "it3: A:D1 B:D1 | free=11\n"
      "it4: A:D1 B:D1 | free=9\n"
      "it5: A:D1 B:D1 | free=7\n"
      "it6: A:D1 B:D1 | free=5\n"
      "it7: A:D1 B:D1 | free=3\n"
      "it8: A:D1 B:D1 | free=1\n"
      "it9: A:D1 | pre=[B] | free=10 | fin=[A] | freeA=23\n"
      "it10: B:P11 | free=12 | fin=[B] | freeA=23\n"
      "it11: C:P3 | free=20\n"
      "it12: C:D1 | free=19\n"
      "it13: C:D1 | free=18\n"
      "it14: C:D1 | free=17 | fin=[C] | freeA=23\n");
}

std::string RefusalOf(const PolicyConfig& config) {
  try {
    Validate(config);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(OrderedCoresTest, AnOrderTakesThePlaceOfThePolicysOwn) {
  const OrderConfig sjf{.kind = Kind::kSjf};
  TritonConfig triton{.priority_levels = 2, .default_priority_level = 1, .order = sjf};
  EXPECT_EQ(RefusalOf(triton),
            "policy.triton.priority_levels: is 2, must be 0 with triton.order, which takes its "
            "place");
  SglangConfig sglang{.schedule_policy = SglangConfig::Order::kLpm, .order = sjf};
  EXPECT_EQ(RefusalOf(sglang),
            "policy.sglang.schedule_policy: is lpm, must be fcfs with sglang.order, which takes "
            "its place");
  sglang = {.enable_priority_scheduling = true, .order = sjf};
  EXPECT_EQ(RefusalOf(sglang),
            "policy.sglang.enable_priority_scheduling: is true, must be false with sglang.order; "
            "allowed: order { kind: priority }");
  sglang = {.retraction_policy = SglangConfig::Retraction::kPriority, .order = sjf};
  EXPECT_EQ(RefusalOf(sglang),
            "policy.sglang.retraction_policy: is priority, must be length with sglang.order, "
            "which decides who is retracted");
}

TEST(OrderedCoresTest, AnOrderThatPreemptsNeedsACoreThatDoes) {
  OrcaConfig orca;
  orca.order = OrderConfig{.kind = Kind::kSrpt};
  EXPECT_THROW(orca.Validate(), InputError);
  const OrderConfig srpt = *orca.order;
  const PolicyConfig closed[] = {StaticConfig{.order = srpt}, TritonConfig{.order = srpt},
                                 LightllmConfig{.order = srpt}, TrtllmConfig{.order = srpt},
                                 SglangConfig{.order = srpt}};
  for (const PolicyConfig& config : closed) {
    EXPECT_EQ(RefusalOf(config),
              fmt::format("policy.{}.order.kind: is srpt, must be another order: this policy "
                          "preempts nobody for a waiting request",
                          TraitsOf(config).name));
  }
  VllmV1Config twice = Core({.kind = Kind::kSjf});
  twice.policy = QueueOrder::kPriority;
  EXPECT_THROW(twice.Validate(), InputError);
}

}  // namespace
}  // namespace twin::testing
