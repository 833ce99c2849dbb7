#include "sim/cost/roofline_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "sim/cost/registry.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kBlockBytes = 1'000'000;

StepTotals Decode(std::int64_t items, std::int64_t context) {
  return {.decode_items = items, .decode_context_tokens = items * context, .emitting_items = items};
}

StepTotals Prefill(std::int64_t tokens) {
  return {.prefill_tokens = tokens,
          .prefill_items = 1,
          .prefill_context_tokens = tokens,
          .prefill_attention_pairs = tokens * (tokens + 1) / 2,
          .emitting_items = 1};
}

RooflineCost Make(const ModelSpec& model, const Parallelism& parallelism = {},
                  const HardwareSpec& hardware = IdealHardware(),
                  const RooflineCostConfig& config = {}) {
  return {config, model, hardware, parallelism, kBlockBytes};
}

std::vector<double> StageSeconds(const RooflineCost& cost, const StepTotals& totals) {
  StepPlan plan;
  plan.totals = totals;
  std::vector<Duration> times(static_cast<std::size_t>(cost.stages()));
  cost.DeviceTimes(plan, times);
  std::vector<double> seconds;
  for (const Duration time : times) seconds.push_back(Seconds(time));
  return seconds;
}

std::map<std::string, OperationCost> ByName(const std::vector<OperationCost>& costs) {
  std::map<std::string, OperationCost> named;
  for (const OperationCost& cost : costs) named.emplace(cost.name, cost);
  return named;
}

// Llama-2-7B, one decode at context 1024, 1 TB/s and 1 PFLOP/s: every operation is memory-bound.
TEST(RooflineCostTest, ASingleDecodeReadsEachWeightOnce) {
  const RooflineCost cost = Make(ModelPreset("llama-2-7b"));
  auto ops = ByName(cost.Breakdown(Decode(1, 1024), 0));
  // Per layer: QKV 4096 x 12288 weights + 16384 activations, 2 bytes each = 100,696,064 bytes.
  EXPECT_EQ(ops["qkv_projection"].count, 32);
  EXPECT_DOUBLE_EQ(ops["qkv_projection"].bytes, 32 * 100'696'064.0);
  EXPECT_DOUBLE_EQ(ops["qkv_projection"].flops, 32 * 2.0 * 4096 * 12288);
  EXPECT_NEAR(ops["qkv_projection"].seconds, 32 * 100.696064e-6, 1e-12);
  // 1024 keys of 2 x 4096 x 2 bytes + query and result of 4096 x 2 bytes.
  EXPECT_DOUBLE_EQ(ops["attention_decode"].bytes, 32 * (1024 * 16'384.0 + 16'384));
  EXPECT_DOUBLE_EQ(ops["attention_decode"].flops, 32 * 4.0 * 4096 * 1024);
  EXPECT_EQ(ops["attention_prefill"].count, 0);
  // All GEMMs together read the parameters but for the embedding and the norms: 6,738,415,616
  // - 131,072,000 - 65 x 4096 = 6,607,077,376 weights, 13.214 GB, hence 13.214 ms; activations of
  // one token and the rest add less than 1 %, the cache 32 x 16.8 MB = 0.537 ms.
  const double seconds = StageSeconds(cost, Decode(1, 1024))[0];
  EXPECT_GT(seconds, 13.214e-3 + 0.537e-3);
  EXPECT_LT(seconds, 1.01 * (13.214e-3 + 0.537e-3));
}

// A real device's numbers: A100 80 GB, 2.039 TB/s, 72.8 % achieved by GEMMs: 13.214 GB take 8.90
// ms.
TEST(RooflineCostTest, AchievedFractionsAndLatenciesAreApplied) {
  HardwareSpec a100 = IdealHardware();
  a100.memory_bandwidth_bytes_per_s = 2.039e12;
  a100.gemm_bandwidth_fraction = 0.728;
  a100.gemm_latency_s = 6.2e-6;
  auto ops = ByName(Make(ModelPreset("llama-2-7b"), {}, a100).Breakdown(Decode(1, 1024), 0));
  double gemms = 0;
  for (const char* name : {"qkv_projection", "output_projection", "gate_up_projection",
                           "down_projection", "lm_head"}) {
    gemms += ops[name].seconds;
  }
  const double launches = (4 * 32 + 1) * 6.2e-6;
  const double weights = 6'607'077'376.0 * 2 / (2.039e12 * 0.728);
  EXPECT_NEAR(gemms, weights + launches, 0.001 * weights);
}

// A prefill of 2048: 2 x 6,476,005,376 layer weights x 2048 tokens = 26.526 TFLOP, 26.526 ms at
// 1 PFLOP/s.
TEST(RooflineCostTest, ALongPrefillIsComputeBound) {
  const ModelSpec model = ModelPreset("llama-2-7b");
  auto ops = ByName(Make(model).Breakdown(Prefill(2048), 0));
  const double gemm_flops = ops["qkv_projection"].flops + ops["output_projection"].flops +
                            ops["gate_up_projection"].flops + ops["down_projection"].flops;
  EXPECT_DOUBLE_EQ(gemm_flops, 2.0 * (6'738'415'616 - 2 * 131'072'000 - 65 * 4096) * 2048);
  EXPECT_NEAR(ops["gate_up_projection"].seconds, ops["gate_up_projection"].flops / 1e15, 1e-12);
  EXPECT_DOUBLE_EQ(ops["attention_prefill"].flops, 32 * 4.0 * 4096 * 2048 * 2049 / 2);
  // At 2048 tokens attention still moves more than it computes: 32 layers x 2048 tokens x (keys,
  // values, queries and results of 8192 bytes each) = 2.147 GB, 2.147 ms. At 8192 it computes
  // 17.594 TFLOP and moves only 8.590 GB.
  EXPECT_NEAR(ops["attention_prefill"].seconds, 2.147e-3, 1e-6);
  EXPECT_NEAR(ByName(Make(model).Breakdown(Prefill(8192), 0))["attention_prefill"].seconds,
              17.594e-3, 1e-6);
  // One row of logits, not 2048.
  EXPECT_DOUBLE_EQ(ops["lm_head"].flops, 2.0 * 4096 * 32000);
}

TEST(RooflineCostTest, TheBreakdownAddsUpToTheStagesTimes) {
  const Parallelism split{.tensor = 2, .pipeline = 2};
  for (const char* name : {"llama-3-8b", "mixtral-8x7b", "gpt2", "qwen3-8b"}) {
    const RooflineCost cost = Make(ModelPreset(name), split);
    StepTotals totals = Prefill(700);
    totals.decode_items = 33;
    totals.decode_context_tokens = 33'000;
    const std::vector<double> seconds = StageSeconds(cost, totals);
    for (int stage = 0; stage < 2; ++stage) {
      double sum = 0;
      for (const OperationCost& op : cost.Breakdown(totals, stage)) {
        EXPECT_TRUE(op.on_critical_path) << op.name;
        sum += op.seconds;
      }
      EXPECT_NEAR(sum, seconds[static_cast<std::size_t>(stage)], 1e-9) << name;
    }
  }
}

TEST(RooflineCostTest, MoreWorkNeverTakesLess) {
  for (const char* name : {"llama-3-8b", "mixtral-8x7b", "mistral-7b"}) {
    for (const std::int32_t tile : {1, 128}) {
      const RooflineCost cost =
          Make(ModelPreset(name), {}, IdealHardware(), {.gemm_tile_tokens = tile});
      double before = 0;
      for (std::int64_t tokens = 1; tokens <= 4096; tokens += 13) {
        const double now = StageSeconds(cost, Prefill(tokens))[0];
        EXPECT_GE(now, before) << name << " at " << tokens;
        before = now;
      }
      before = 0;
      for (std::int64_t items = 1; items <= 512; items += 3) {
        const double now = StageSeconds(cost, Decode(items, 777))[0];
        EXPECT_GE(now, before) << name << " at " << items;
        before = now;
      }
    }
  }
}

TEST(RooflineCostTest, TilesMakeTheStepAfterAFullTileLonger) {
  const RooflineCost cost =
      Make(ModelPreset("llama-2-7b"), {}, IdealHardware(), {.gemm_tile_tokens = 128});
  auto full = ByName(cost.Breakdown(Prefill(1920), 0));
  auto one_more = ByName(cost.Breakdown(Prefill(1921), 0));
  EXPECT_DOUBLE_EQ(one_more["qkv_projection"].flops, full["qkv_projection"].flops * 16 / 15);
}

TEST(RooflineCostTest, TensorParallelismHalvesTheWeightsAndAddsAllReduces) {
  const ModelSpec model = ModelPreset("llama-2-7b");
  HardwareSpec hardware = IdealHardware();
  hardware.link_latency_s = 1e-6;
  auto one = ByName(Make(model, {}, hardware).Breakdown(Decode(8, 512), 0));
  auto two = ByName(Make(model, {.tensor = 2}, hardware).Breakdown(Decode(8, 512), 0));
  // Weights halve, the activations of the shared dimension do not: 8 tokens x 4096 x 2 bytes.
  const double shared = 32 * 8 * 4096 * 2.0;
  EXPECT_DOUBLE_EQ(two["gate_up_projection"].bytes - shared,
                   (one["gate_up_projection"].bytes - shared) / 2);
  EXPECT_EQ(one.count("mlp_all_reduce"), 0u);
  // Ring of two: 2 latencies and 2 x 1/2 of 8 x 4096 x 2 bytes over 100 GB/s, in each layer.
  EXPECT_NEAR(two["mlp_all_reduce"].seconds, 32 * (2e-6 + 65'536 / 1e11), 1e-12);
  EXPECT_EQ(two["attention_all_reduce"].count, 32);
}

TEST(RooflineCostTest, StagesHoldTheirLayersAndTheEndsTheirExtras) {
  const RooflineCost cost = Make(ModelPreset("llama-2-7b"), {.pipeline = 4});
  ASSERT_EQ(cost.stages(), 4);
  for (int stage = 0; stage < 4; ++stage) {
    auto ops = ByName(cost.Breakdown(Decode(4, 100), stage));
    EXPECT_EQ(ops["qkv_projection"].count, 8);
    EXPECT_EQ(ops.count("embedding"), stage == 0 ? 1u : 0u);
    EXPECT_EQ(ops.count("lm_head"), stage == 3 ? 1u : 0u);
    EXPECT_EQ(ops.count("stage_send"), stage == 3 ? 0u : 1u);
  }
  // 4 tokens x 4096 x 2 bytes over 100 GB/s.
  EXPECT_NEAR(ByName(cost.Breakdown(Decode(4, 100), 0))["stage_send"].seconds, 32'768 / 1e11,
              1e-15);
}

TEST(RooflineCostTest, StagesOnDifferentNodesSendOverTheSlowerLink) {
  // Tensor 8 fills a node of 8 devices, so the next stage is on another one at 10 GB/s.
  const RooflineCost cost = Make(ModelPreset("llama-3-70b"), {.tensor = 8, .pipeline = 2});
  EXPECT_NEAR(ByName(cost.Breakdown(Decode(1, 100), 0))["stage_send"].seconds, 16'384 / 1e10,
              1e-15);
}

// Nodes of 6 devices: ranks 0 to 3 share one, ranks 4 to 7 lie on two, whose link is 10 times
// slower.
TEST(RooflineCostTest, RanksOfOneStageOnTwoNodesReduceOverTheSlowerLink) {
  HardwareSpec hardware = IdealHardware();
  hardware.devices_per_node = 6;
  const RooflineCost cost =
      Make(ModelPreset("llama-3-70b"), {.tensor = 4, .pipeline = 2}, hardware);
  const auto seconds = [&](int stage) {
    return ByName(cost.Breakdown(Decode(1, 100), stage))["mlp_all_reduce"].seconds;
  };
  EXPECT_GT(seconds(0), 0);
  EXPECT_NEAR(seconds(1) / seconds(0), 10, 1e-9);
}

TEST(RooflineCostTest, AMixtureReadsTheWeightsOfTouchedExpertsOnly) {
  const RooflineCost cost = Make(ModelPreset("mixtral-8x7b"));
  auto one = ByName(cost.Breakdown(Decode(1, 1), 0));
  auto two = ByName(cost.Breakdown(Decode(2, 1), 0));
  const double expert = 2.0 * 4096 * 14336 * 2;   // gate and up of one expert, bytes
  const double row = 2 * (4096 + 2 * 14336) * 2;  // two visits of one token
  EXPECT_DOUBLE_EQ(one["expert_gate_up_projection"].bytes, 32 * (2 * expert + row));
  EXPECT_DOUBLE_EQ(two["expert_gate_up_projection"].bytes, 32 * (3.5 * expert + 2 * row));
}

TEST(RooflineCostTest, OverlappedAttentionTakesTheLongerOfTheTwo) {
  const ModelSpec model = ModelPreset("llama-3-8b");
  StepTotals totals = Prefill(1024);
  totals.decode_items = 64;
  totals.decode_context_tokens = 64 * 2000;
  const RooflineCost serial = Make(model);
  const RooflineCost overlapped = Make(model, {}, IdealHardware(), {.overlaps_attention = true});
  auto ops = ByName(serial.Breakdown(totals, 0));
  const double shorter =
      std::min(ops["attention_prefill"].seconds, ops["attention_decode"].seconds);
  EXPECT_GT(shorter, 0);
  EXPECT_NEAR(StageSeconds(serial, totals)[0] - StageSeconds(overlapped, totals)[0], shorter, 2e-9);
}

TEST(RooflineCostTest, SwapsAreCopiedBeforeTheWork) {
  const RooflineCost cost = Make(ModelPreset("llama-3-8b"));
  StepPlan plan;
  plan.totals = Decode(4, 100);
  const double without = StageSeconds(cost, plan.totals)[0];
  plan.preempted = {{RequestId{9}, Preemption::How::kSwap}};
  plan.kv.assign(10, {KvOperation::Kind::kSwapOut, RequestId{9}, BlockId{1}, BlockId{2}});
  std::array<Duration, 1> times{};
  cost.DeviceTimes(plan, times);
  // 10 blocks of 1 MB at 20 GB/s.
  EXPECT_NEAR(Seconds(times[0]) - without, 0.5e-3, 1e-9);
}

TEST(RooflineCostTest, AStepWithoutWorkTakesHostTimeOnly) {
  const RooflineCost cost = Make(ModelPreset("llama-3-8b"), {}, IdealHardware(),
                                 {.host_s = 1e-3, .host_per_item_s = 1e-6});
  EXPECT_EQ(StageSeconds(cost, {})[0], 0);
  EXPECT_EQ(cost.HostTime(StepPlan{}), Duration(1'000'000));
  StepPlan plan;
  plan.work.resize(5);
  EXPECT_EQ(cost.HostTime(plan), Duration(1'005'000));
}

TEST(RooflineCostTest, EightBitWeightsUseTheirUnitWhereThereIsOne) {
  ModelSpec model = ModelPreset("llama-3-8b");
  const double wide = StageSeconds(Make(model), Prefill(4096))[0];
  model.weight_dtype = DType::kFp8;
  auto widened = ByName(Make(model).Breakdown(Prefill(4096), 0));
  HardwareSpec hopper = IdealHardware();
  hopper.peak_fp8_flops = 2e15;
  auto native = ByName(Make(model, {}, hopper).Breakdown(Prefill(4096), 0));
  EXPECT_DOUBLE_EQ(native["down_projection"].seconds, widened["down_projection"].seconds / 2);
  EXPECT_DOUBLE_EQ(native["attention_prefill"].seconds, widened["attention_prefill"].seconds);
  EXPECT_LT(StageSeconds(Make(model, {}, hopper), Prefill(4096))[0], wide);
}

// 128256 x 4096 weights of 2 bytes and one row in and out of 2 bytes, at 1 TB/s.
TEST(RooflineCostTest, TheHeadIsReadIn16BitsWhateverTheFormatOfTheLayers) {
  ModelSpec model = ModelPreset("llama-3-8b");
  for (const DType format : {DType::kBf16, DType::kFp8, DType::kInt8, DType::kInt4}) {
    model.weight_dtype = format;
    auto costs = ByName(Make(model).Breakdown(Decode(1, 100), 0));
    EXPECT_NEAR(costs["lm_head"].seconds, 2e-12 * (128'256.0 * 4096 + 128'256 + 4096), 1e-9);
  }
}

TEST(RooflineCostTest, RefusesWhatCannotBeComputed) {
  HardwareSpec hardware = IdealHardware();
  hardware.memory_bandwidth_bytes_per_s = 0;
  EXPECT_THAT([&] { Make(ModelPreset("gpt2"), {}, hardware); },
              ThrowsMessage<InputError>(HasSubstr("memory_bandwidth_bytes_per_s")));
  EXPECT_THROW(Make(ModelPreset("gpt2"), {.tensor = 5}), InputError);
  EXPECT_THROW(Make(ModelPreset("gpt2"), {}, IdealHardware(), {.host_s = -1}), InputError);
}

TEST(RegistryTest, MakesEveryModelOfTheConfig) {
  const ModelSpec model = ModelPreset("gpt2");
  const Parallelism two{.pipeline = 2};
  for (const CostConfig& config :
       {CostConfig(ConstantCostConfig{}), CostConfig(LinearCostConfig{.base_s = 1e-3}),
        CostConfig(RooflineCostConfig{})}) {
    const auto cost = MakeStepCost(config, model, IdealHardware(), two, kBlockBytes);
    ASSERT_NE(cost, nullptr);
    EXPECT_EQ(cost->stages(), 2);
    StepPlan plan;
    plan.totals = Decode(1, 10);
    std::array<Duration, 2> times{};
    cost->DeviceTimes(plan, times);
    EXPECT_GT(times[0], Duration::zero());
    EXPECT_GT(times[1], Duration::zero());
  }
}

}  // namespace
}  // namespace twin::sim
