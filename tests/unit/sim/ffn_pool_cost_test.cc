#include "sim/cost/ffn_pool_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "sim/cost/ffn_pool_models.h"
#include "sim/cost/linear_cost.h"
#include "sim/cost/registry.h"
#include "sim/cost/roofline_cost.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::shared_ptr<const StepCost> Make(const CostConfig& config, const ModelSpec& model,
                                     const HardwareSpec& hardware, const Parallelism& parallelism,
                                     std::int64_t kv_block_bytes) {
  return MakeStepCost(config, model, hardware, parallelism, kv_block_bytes);
}

FfnPoolConfig Pool(std::int32_t devices, std::int32_t micro_batches) {
  FfnPoolConfig ffn;
  ffn.hardware_spec = IdealHardware();
  ffn.devices = devices;
  ffn.micro_batches = micro_batches;
  return ffn;
}

AttentionSide Side(const std::string& model, std::int32_t tensor = 1) {
  return {.model = ModelPreset(model),
          .hardware = IdealHardware(),
          .parallelism = {.tensor = tensor},
          .cost = RooflineCostConfig{},
          .kv_block_bytes = 1'000'000};
}

FfnPoolCost Cost(const std::string& model, const FfnPoolConfig& ffn) {
  return {Side(model), ffn, Make};
}

StepTotals Decodes(std::int64_t items, std::int64_t context) {
  return {.decode_items = items,
          .decode_context_tokens = items * context,
          .decode_context_max = context,
          .emitting_items = items};
}

Duration TimeOf(const StepCost& cost, const StepTotals& totals) {
  StepPlan plan;
  plan.totals = totals;
  Duration time{0};
  cost.DeviceTimes(plan, {&time, 1});
  return time;
}

// Llama-2-7B, one decode at context 1024, 1 TB/s. Attention of a layer moves, in bytes: its norms
// 2 x 4 x 4096 x 2, QKV 4096 x 12288 x 2 + 16384 x 2, rotary (2 x 4096 + 8192) x 2 + 16384, keys
// 1024 x 16384 + 16384, output 4096 x 4096 x 2 + 8192 x 2 = 151,175,168, hence 151.175 us. The MLP:
// gate and up 4096 x 22016 x 2 + 26112 x 2, activation 3 x 11008 x 2, down 11008 x 4096 x 2
// + 15104 x 2 = 270,680,576, hence 270.681 us. Rows of 4096 x 1.03125 B go out at 10 GB/s in
// 0.422 us, and come back in 0.819 us.
TEST(FfnPoolCostTest, PartsOfALayerByHand) {
  const FfnPoolStep step = Cost("llama-2-7b", Pool(1, 1)).StepOf(Decodes(1, 1024));
  ASSERT_EQ(step.layers.size(), 32U);
  EXPECT_NEAR(Seconds(step.layers[0].attention), 151.175e-6, 2e-9);
  EXPECT_NEAR(Seconds(step.layers[0].ffn), 270.681e-6, 2e-9);
  EXPECT_NEAR(Seconds(step.layers[0].send), 0.4224e-6, 1e-9);
  EXPECT_NEAR(Seconds(step.layers[0].back), 0.8192e-6, 1e-9);
}

// One micro-batch and links without time: a step waits for the two sides in turn, and takes as long
// as on one device.
TEST(FfnPoolCostTest, AFreeLinkAndOneMicroBatchGiveTheUndividedStep) {
  for (const char* name : {"llama-2-7b", "mixtral-8x7b", "mistral-7b"}) {
    FfnPoolConfig ffn = Pool(1, 1);
    ffn.link = {.bandwidth_gbps = 1e12, .latency_us = 0};
    ffn.expert_parallel = false;
    const RooflineCost undivided({}, ModelPreset(name), IdealHardware(), {}, 1);
    for (const StepTotals& totals : {Decodes(1, 1000), Decodes(300, 700)}) {
      EXPECT_NEAR(Seconds(TimeOf(Cost(name, ffn), totals)), Seconds(TimeOf(undivided, totals)),
                  1e-7)
          << name;
    }
  }
}

// Mixtral, 300 tokens on 4 devices: each has 2 of 8 experts and gets 300 x 2 / 4 = 150 rows, 75 an
// expert. They read 2 x 3 x 4096 x 14336 x 2 B = 704.6 MB of weights, 704.6 us at 1 TB/s, and move
// 150 x 59,392 x 2 B of activations beside: 18 us.
TEST(FfnPoolCostTest, DevicesHoldWholeExperts) {
  const FfnPoolStep step = Cost("mixtral-8x7b", Pool(4, 1)).StepOf(Decodes(300, 700));
  EXPECT_GT(Seconds(step.layers[0].ffn), 704.6e-6);
  EXPECT_LT(Seconds(step.layers[0].ffn), 704.6e-6 + 32e-6);
}

// A token of Mixtral misses a device with 2 of 8 experts with probability 6/8 x 5/7, and visits
// 4 x (1 - 15/28) = 13/7 of 4 devices.
TEST(FfnPoolCostTest, TokensVisitTheDevicesOfTheirExperts) {
  const ModelSpec mixtral = ModelPreset("mixtral-8x7b");
  EXPECT_NEAR(DevicesVisited(mixtral, mixtral, Pool(4, 1)), 13.0 / 7, 1e-12);
  EXPECT_NEAR(DevicesVisited(mixtral, mixtral, Pool(8, 1)), 2, 1e-12);
  EXPECT_NEAR(DevicesVisited(mixtral, mixtral, Pool(1, 1)), 1, 1e-12);
  const ModelSpec llama = ModelPreset("llama-2-7b");
  EXPECT_EQ(DevicesVisited(llama, llama, Pool(4, 1)), 1);
}

// 64 tokens x 4096 x 1.03125 B over one attention device's 10 GB/s are 27.034 us; four FFN devices
// receive a quarter each. With four attention groups and one FFN device, that one receives all of
// 256 tokens.
TEST(FfnPoolCostTest, TheBusierEndOfALinkDecides) {
  FfnPoolConfig one_to_four = Pool(4, 1);
  EXPECT_NEAR(Seconds(Cost("llama-2-7b", one_to_four).StepOf(Decodes(64, 10)).layers[0].send),
              27.0336e-6, 1e-8);
  FfnPoolConfig four_to_one = Pool(1, 1);
  four_to_one.attention_groups = 4;
  EXPECT_NEAR(Seconds(Cost("llama-2-7b", four_to_one).StepOf(Decodes(256, 10)).layers[0].send),
              4 * 27.0336e-6, 1e-8);
}

TEST(FfnPoolCostTest, AStepIsItsPipeAndItsEnds) {
  FfnPoolConfig ffn = Pool(4, 3);
  ffn.attention_groups = 2;
  const FfnPoolCost cost = Cost("mixtral-8x7b", ffn);
  const StepTotals totals = Decodes(384, 900);
  const FfnPoolStep step = cost.StepOf(totals);
  EXPECT_EQ(step.pipe.micro_batches, 3);
  EXPECT_EQ(TimeOf(cost, totals), step.ends + FfnPoolTime(step.layers, step.pipe));
  StepPlan plan;
  plan.totals = totals;
  Duration time{0};
  cost.Timer()->DeviceTimes(plan, {&time, 1});
  EXPECT_EQ(time, TimeOf(cost, totals));
}

TEST(FfnPoolCostTest, FewTokensMakeFewMicroBatches) {
  const FfnPoolCost cost = Cost("llama-2-7b", Pool(1, 3));
  EXPECT_EQ(cost.StepOf(Decodes(2, 100)).pipe.micro_batches, 2);
  EXPECT_EQ(cost.StepOf(Decodes(1, 100)).pipe.micro_batches, 1);
}

// 10 decodes at 100 on 2 groups are 5 each, at most 2 a micro-batch of 3. One chunk of 90 tokens is
// one group's, in three pieces of 30 that read its 190 keys each.
TEST(FfnPoolCostTest, SharesOfAttention) {
  StepTotals totals = Decodes(10, 100);
  totals.prefill_items = 1;
  totals.prefill_tokens = 90;
  totals.prefill_context_tokens = 190;
  totals.prefill_attention_pairs = 90 * 100 + 90 * 91 / 2;
  const StepTotals share = ShareOfAttention(totals, 2, 3);
  EXPECT_EQ(share.decode_items, 2);
  EXPECT_EQ(share.decode_context_tokens, 200);
  EXPECT_EQ(share.prefill_items, 1);
  EXPECT_EQ(share.prefill_tokens, 30);
  EXPECT_EQ(share.prefill_context_tokens, 190);
  EXPECT_EQ(share.prefill_attention_pairs, (90 * 100 + 90 * 91 / 2) / 3);
  EXPECT_EQ(share.emitting_items, 5);
}

// Mixtral: 8 experts of 3 x 4096 x 14336 numbers in 32 layers, 2 B each; a quarter on each of 4
// devices, and a router of 4096 numbers an expert.
TEST(FfnPoolCostTest, WeightsOfThePool) {
  const ModelSpec mixtral = ModelPreset("mixtral-8x7b");
  const std::int64_t expert = 3LL * 4096 * 14336;
  EXPECT_NEAR(static_cast<double>(FfnWeightBytes(mixtral, Pool(4, 1))),
              32.0 * 2 * static_cast<double>(2 * expert + 2 * 4096), 1e6);
  FfnPoolConfig per_layer = Pool(64, 1);
  per_layer.placement = FfnPoolPlacement::kPerLayer;
  EXPECT_NEAR(static_cast<double>(FfnWeightBytes(mixtral, per_layer)),
              2 * static_cast<double>(4 * expert + 4 * 4096), 1e6);
  EXPECT_NO_THROW(RequireFfnPoolFits(mixtral, Pool(4, 1)));
  EXPECT_THAT([&] { RequireFfnPoolFits(mixtral, Pool(1, 1)); },
              ThrowsMessage<InputError>(HasSubstr("system.ffn.devices: is 1: weights of 90.19")));
}

// Attention devices and the pool together hold the whole model.
TEST(FfnPoolCostTest, TheTwoSidesHoldTheModel) {
  for (const char* name : {"llama-2-7b", "mixtral-8x7b"}) {
    const ModelSpec model = ModelPreset(name);
    const auto whole = static_cast<double>(WeightBytesPerRank(model, {}, 0));
    const auto attention = static_cast<double>(WeightBytesPerRank(WithoutMlps(model), {}, 0));
    const auto ffn = static_cast<double>(FfnWeightBytes(model, Pool(1, 1)));
    EXPECT_NEAR(attention + ffn, whole, 1e6) << name;
  }
}

TEST(FfnPoolCostTest, RefusesWhatItCannotDivide) {
  const auto refusal = [](const std::string& model, const FfnPoolConfig& ffn) {
    return [=] { Cost(model, ffn); };
  };
  EXPECT_THAT(refusal("mixtral-8x7b", Pool(3, 1)),
              ThrowsMessage<InputError>(HasSubstr(
                  "system.ffn.devices: is 3; allowed with expert_parallel: a divisor of the 8 "
                  "experts")));
  EXPECT_THAT(refusal("llama-2-7b", Pool(3, 1)),
              ThrowsMessage<InputError>(HasSubstr("a divisor of the MLP's width 11008")));
  FfnPoolConfig dense_experts = Pool(1, 1);
  dense_experts.expert_parallel = true;
  EXPECT_THAT(refusal("llama-2-7b", dense_experts),
              ThrowsMessage<InputError>(HasSubstr("llama-2-7b has no experts")));
  FfnPoolConfig per_layer = Pool(16, 1);
  per_layer.placement = FfnPoolPlacement::kPerLayer;
  EXPECT_THAT(refusal("mixtral-8x7b", per_layer),
              ThrowsMessage<InputError>(HasSubstr("a multiple of the 32 layers")));
  FfnPoolConfig blind = Pool(4, 1);
  blind.cost = LinearCostConfig{};
  EXPECT_THAT(refusal("mixtral-8x7b", blind),
              ThrowsMessage<InputError>(HasSubstr("system.ffn.cost.linear: does not know")));
  AttentionSide staged = Side("llama-2-7b");
  staged.parallelism.pipeline = 2;
  EXPECT_THAT([&] { FfnPoolCost(staged, Pool(1, 1), Make); },
              ThrowsMessage<InputError>(HasSubstr("pipeline_parallel is 2; allowed: 1")));
}

}  // namespace
}  // namespace twin::sim
