#include "sim/cost/dataflow_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "sim/cost/dataflow_config.h"
#include "sim/cost/registry.h"
#include "sim/cost/roofline_config.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kBlockBytes = 65536;

ModelSpec Stored8Bit(const char* name) {
  ModelSpec model = ModelPreset(name);
  model.weight_dtype = DType::kInt8;
  return model;
}

// One layer a stage, and stages of their own for embedding and head.
Parallelism LayerByLayer(const ModelSpec& model, std::int32_t devices) {
  return {.pipeline = model.layers + 2,
          .stages = {{1, 8, 0}, {model.layers, devices, 1}, {1, 8, 0}},
          .topology = LinkTopology::kClique};
}

StepTotals Decode(std::int64_t items, std::int64_t context) {
  return {.decode_items = items, .decode_context_tokens = items * context, .emitting_items = items};
}

std::vector<double> Microseconds(const DataflowCost& cost, const StepTotals& totals) {
  StepPlan plan;
  plan.totals = totals;
  std::vector<Duration> times(static_cast<std::size_t>(cost.stages()));
  cost.DeviceTimes(plan, times);
  std::vector<double> all;
  for (const Duration time : times) all.push_back(1e6 * Seconds(time));
  return all;
}

// Llama-2-70B on 8 devices a layer: 855,638,016 weights of a layer, of 2 bytes, at 8 x 9.216 TB/s;
// 1,000 tokens of 4,096 cached bytes; two all-reduces of 1.780 us; one message of 16,384 bytes over
// eight links, 0.722 + 0.168 us. The head has 32,000 x 8,192 weights and two hops.
TEST(DataflowCostTest, ALayerAndTheHeadOfLlama70bAreThoseWorkedOutByHand) {
  const ModelSpec model = Stored8Bit("llama-2-70b");
  const HardwareSpec lpu = Lpu();
  const DataflowStage layer(model, lpu, LayerByLayer(model, 8), 1);
  const DataflowSeconds seconds = layer.Seconds(Decode(1, 1000));
  EXPECT_NEAR(1e6 * seconds.products, 23.211, 0.001);
  EXPECT_NEAR(1e6 * seconds.attention, 0.0556, 0.0001);
  EXPECT_NEAR(1e6 * seconds.links, 2 * 1.7799 + 0.722 + 0.168, 0.001);
  const DataflowStage head(model, lpu, LayerByLayer(model, 8), 81);
  EXPECT_NEAR(1e6 * head.Seconds(Decode(1, 1000)).total(), 8.555, 0.001);
}

TEST(DataflowCostTest, ALayerOfLlama7bOnTwoDevicesIsThatWorkedOutByHand) {
  const ModelSpec model = Stored8Bit("llama-2-7b");
  const DataflowStage layer(model, Lpu(), LayerByLayer(model, 2), 1);
  const DataflowSeconds seconds = layer.Seconds(Decode(1, 1000));
  EXPECT_NEAR(1e6 * seconds.products, 21.959, 0.001);
  EXPECT_NEAR(1e6 * seconds.attention, 0.889, 0.001);
  // Two all-reduces, and 8,192 bytes over two links: 0.722 + 0.336 us.
  EXPECT_NEAR(1e6 * seconds.links, 2.787 + 0.722 + 0.336, 0.001);
}

// 20 tokens take as long to multiply, 2 x 20 flops at 184.32 TFLOPS, as their weights to move.
TEST(DataflowCostTest, TokensAreFreeUntilMultiplyingTakesLongerThanMovingWeights) {
  const ModelSpec model = Stored8Bit("llama-2-70b");
  const DataflowStage layer(model, Lpu(), LayerByLayer(model, 8), 1);
  const double one = layer.Seconds(Decode(1, 700)).products;
  EXPECT_DOUBLE_EQ(layer.Seconds(Decode(20, 700)).products, one);
  EXPECT_NEAR(layer.Seconds(Decode(24, 700)).products, 1.2 * one, 1e-12);
}

TEST(DataflowCostTest, FreeTokensFollowFromTheRates) {
  EXPECT_EQ(FreeTokens(Lpu()), 20);
  HardwareSpec lp30 = Lpu();  // 1.2 PFLOPS and 150 TB/s in 8 bits
  lp30.peak_fp8_flops = 1.2e15;
  lp30.dataflow->install_bytes_per_s = 150e12;
  lp30.dataflow->compute_dtype = DType::kFp8;
  EXPECT_EQ(FreeTokens(lp30), 4);
}

TEST(DataflowCostTest, OverheadsAreAddedToEachLayerAndToEachMixture) {
  HardwareSpec lpu = Lpu();
  lpu.dataflow->layer_overhead_s = 10e-6;
  lpu.dataflow->dispatch_s = 30e-6;
  const ModelSpec dense = Stored8Bit("llama-2-7b");
  EXPECT_DOUBLE_EQ(
      DataflowStage(dense, lpu, LayerByLayer(dense, 2), 1).Seconds(Decode(1, 1)).overhead, 10e-6);
  const ModelSpec mixture = Stored8Bit("mixtral-8x7b");
  EXPECT_DOUBLE_EQ(
      DataflowStage(mixture, lpu, LayerByLayer(mixture, 8), 1).Seconds(Decode(1, 1)).overhead,
      40e-6);
}

// One token visits 2 of the 8 experts of 3 x 4,096 x 14,336 weights; attention has 41,943,040, the
// router 32,768.
TEST(DataflowCostTest, AMixtureMovesTheExpertsThatItsTokensTouch) {
  const ModelSpec model = Stored8Bit("mixtral-8x7b");
  const DataflowStage layer(model, Lpu(), LayerByLayer(model, 8), 1);
  const double weights = 41'943'040 + 32'768 + 2 * 3.0 * 4096 * 14336;
  EXPECT_NEAR(layer.Seconds(Decode(1, 1)).products, weights * 2 / (8 * 9.216e12), 1e-12);
}

// 64 heads on 7 devices: the busiest has 10, 9.4 % more than the mean, and 2 of 8 KV heads. Divided
// by context, all have equal shares, for one more all-reduce.
TEST(DataflowCostTest, TheDeviceWithTheMostHeadsDecides) {
  const ModelSpec model = Stored8Bit("llama-2-70b");
  Parallelism split = LayerByLayer(model, 7);
  const DataflowSeconds heads = DataflowStage(model, Lpu(), split, 1).Seconds(Decode(1, 1000));
  split.kv_split = KvSplit::kContext;
  const DataflowSeconds context = DataflowStage(model, Lpu(), split, 1).Seconds(Decode(1, 1000));
  EXPECT_NEAR(heads.attention / context.attention, 2 * 7 / 8.0, 1e-9);
  // Attention has 8192 x (8192 + 2 x 1024) + 8192 x 8192 of the layer's weights.
  const double attention = 8192.0 * (8192 + 2048 + 8192);
  const double more = attention * (10 * 7 / 64.0 - 1) * 2 / (7 * 9.216e12);
  EXPECT_NEAR(heads.products - context.products, more, 1e-12);
  const double reduce = AllReduceOf(Lpu(), LinkTopology::kClique, 7).Seconds(16384);
  EXPECT_NEAR(context.links - heads.links, reduce, 1e-12);
}

TEST(DataflowCostTest, AStepPassesAllStages) {
  const ModelSpec model = Stored8Bit("llama-2-70b");
  const DataflowCost cost(model, Lpu(), LayerByLayer(model, 8), kBlockBytes);
  EXPECT_EQ(cost.stages(), 82);
  EXPECT_EQ(cost.distinct().size(), 3U);  // embedding, layers, head
  const std::vector<double> times = Microseconds(cost, Decode(1, 1000));
  EXPECT_NEAR(times[0], 0.722 + 0.168, 0.001);  // the embedding sends its row
  EXPECT_NEAR(times[1], 27.716, 0.002);
  EXPECT_EQ(times[1], times[80]);
  EXPECT_NEAR(times[81], 8.555, 0.001);
  StepPlan plan;
  plan.totals = Decode(1, 1000);
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  EXPECT_NEAR(1e6 * Seconds(cost.Parts(plan)->device()), sum, 0.1);
}

TEST(DataflowCostTest, RefusesOtherMachinesAndOtherSplits) {
  const ModelSpec model = Stored8Bit("llama-2-70b");
  EXPECT_THAT([&] { DataflowCost(model, IdealHardware(), {}, kBlockBytes); },
              ThrowsMessage<InputError>(HasSubstr("ideal is no dataflow machine")));
  Parallelism lacks = LayerByLayer(model, 8);
  lacks.stages[1].count = 79;
  lacks.pipeline = 81;
  EXPECT_THAT([&] { DataflowCost(model, Lpu(), lacks, kBlockBytes); },
              ThrowsMessage<InputError>(HasSubstr("hold 79 layers, must hold its 80")));
  EXPECT_THAT([&] { DataflowCost(model, Lpu(), LayerByLayer(model, 16), kBlockBytes); },
              ThrowsMessage<InputError>(HasSubstr("at most 8")));
}

TEST(DataflowCostTest, OtherCostModelsRefuseItsMachinesAndSplits) {
  const ModelSpec model = Stored8Bit("llama-2-70b");
  const CostConfig roofline = RooflineCostConfig{};
  EXPECT_THAT([&] { MakeStepCost(roofline, model, Lpu(), {.tensor = 8}, kBlockBytes); },
              ThrowsMessage<InputError>(HasSubstr("does not know dataflow machines")));
  EXPECT_THAT(
      [&] { MakeStepCost(roofline, model, IdealHardware(), LayerByLayer(model, 8), kBlockBytes); },
      ThrowsMessage<InputError>(HasSubstr("link_topology, kv_split or stages")));
}

}  // namespace
}  // namespace twin::sim
