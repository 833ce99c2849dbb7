// Simulations of replicas whose feed-forward networks have devices of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "run/deployed_groups.h"
#include "run/deployment.h"
#include "run/run_control.h"
#include "run/simulation.h"
#include "sim/cost/ffn_pool_cost.h"
#include "sim/cost/ffn_pool_models.h"
#include "sim/devices/kv_capacity.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;

std::string Text(const std::string& system, const std::string& cost = "roofline {}") {
  return "workload { requests: 40 arrivals { kind: closed_loop users: 20 } shape { "
         "prompt { kind: fixed value: 100 } output { kind: fixed value: 50 } } } "
         "system { model: 'mixtral-8x7b' " +
         system + "} cost { " + cost + " } policy { vllm_v1 { max_model_len: 4096 } }";
}

ExperimentConfig Experiment(const std::string& system, const std::string& cost = "roofline {}") {
  return ParseExperiment(Text(system, cost), "test", "/");
}

constexpr const char* kH100 = "hardware: 'h100-sxm' ";

Summary SummaryOf(const std::string& system) {
  RunControl control;
  return Simulate(Resolve(Experiment(system)), control).summary;
}

std::string RefusalOf(const std::string& system, const std::string& cost = "roofline {}") {
  try {
    Resolve(Experiment(system, cost));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Two groups of one device each have twice the blocks that attention's weights leave on one.
TEST(FfnPoolRunTest, AttentionDevicesAloneHoldTheCache) {
  const Deployment deployment =
      Resolve(Experiment(std::string(kH100) + "ffn { devices: 4 attention_groups: 2 }"));
  const SystemConfig& system = deployment.config.system;
  const sim::KvCapacity one = sim::PlanKvCapacity(
      sim::WithoutMlps(system.model_spec), system.hardware_spec, system.parallelism, system.memory);
  EXPECT_EQ(deployment.capacity.usable_blocks, 2 * one.usable_blocks);
  EXPECT_EQ(deployment.engine.kv.blocks, 2 * one.usable_blocks);
  // Attention, embedding and head of Mixtral: 1.6e9 numbers of 46.7e9.
  EXPECT_NEAR(static_cast<double>(deployment.capacity.weight_bytes), 2 * 1.605e9, 1e7);
  EXPECT_EQ(DevicesOf(deployment), 6);
}

TEST(FfnPoolRunTest, AllDevicesCount) {
  const Summary summary = SummaryOf(std::string(kH100) + "replicas: 2 ffn { devices: 4 }");
  EXPECT_EQ(summary.Number("devices"), 10);
  EXPECT_NEAR(summary.Number("output_throughput_per_device"),
              summary.Number("output_throughput") / 10, 1e-9);
}

// A deployment's cost is that of its two sides.
TEST(FfnPoolRunTest, StepsTakeTheTimeOfThePipe) {
  const Deployment deployment = Resolve(
      Experiment(std::string(kH100) + "ffn { hardware: 'b200' devices: 2 micro_batches: 2 }"));
  const auto* const cost = dynamic_cast<const sim::FfnPoolCost*>(deployment.cost.get());
  ASSERT_NE(cost, nullptr);
  const StepTotals totals{
      .decode_items = 64, .decode_context_tokens = 64 * 500, .emitting_items = 64};
  const sim::FfnPoolStep step = cost->StepOf(totals);
  EXPECT_EQ(step.pipe.micro_batches, 2);
  StepPlan plan;
  plan.totals = totals;
  Duration time{0};
  deployment.cost->DeviceTimes(plan, {&time, 1});
  EXPECT_EQ(time, step.ends + sim::FfnPoolTime(step.layers, step.pipe));
  const Deployment slower = Resolve(
      Experiment(std::string(kH100) + "ffn { hardware: 'h20' devices: 2 micro_batches: 2 }"));
  Duration more{0};
  slower.cost->DeviceTimes(plan, {&more, 1});
  EXPECT_GT(more, time);
}

// The two sides may have profiles of different devices.
TEST(FfnPoolRunTest, ProfilesOfBothSides) {
  const std::string system = std::string(kH100) + "ffn { hardware: 'b200' devices: 4 }";
  const Deployment deployment = Resolve(Experiment(system, "profile {}"));
  const auto* const cost = dynamic_cast<const sim::FfnPoolCost*>(deployment.cost.get());
  ASSERT_NE(cost, nullptr);
  const StepTotals totals{.decode_items = 64,
                          .decode_context_tokens = 64 * 500,
                          .decode_context_max = 500,
                          .emitting_items = 64};
  const sim::FfnPoolStep step = cost->StepOf(totals);
  // Weights of two experts a layer, read at 8 TB/s, and attention's at 3.35 TB/s.
  EXPECT_GT(Seconds(step.layers[0].ffn), 2.0 * 3 * 4096 * 14336 * 2 / 8e12);
  EXPECT_LT(Seconds(step.layers[0].ffn), 1e-3);
  EXPECT_GT(Seconds(step.layers[0].attention), 41.9e6 * 2 / 3.35e12);
  EXPECT_LT(Seconds(step.layers[0].attention), 1e-3);
}

TEST(FfnPoolRunTest, AResolvedExperimentResolvesToItself) {
  for (const char* cost : {"roofline {}", "profile {}"}) {
    const Deployment once =
        Resolve(Experiment(std::string(kH100) + "ffn { hardware: 'b200' devices: 4 }", cost));
    const std::string text = WriteResolved(once.config);
    EXPECT_THAT(text, HasSubstr("ffn {"));
    EXPECT_EQ(WriteResolved(Resolve(ParseExperiment(text, "again", "/")).config), text);
  }
  EXPECT_THAT(WriteResolved(Resolve(Experiment(std::string(kH100) + "tensor_parallel: 2")).config),
              ::testing::Not(HasSubstr("ffn")));
}

TEST(FfnPoolRunTest, PoolsOfDisaggregationMayHaveThem) {
  const Deployment deployment = Resolve(
      Experiment(std::string(kH100) +
                 "disaggregation {} replica_groups { role: prefill tensor_parallel: 2 } "
                 "replica_groups { role: decode count: 2 ffn { hardware: 'b200' devices: 4 } }"));
  EXPECT_EQ(DevicesOf(deployment), 2 + 2 * 5);
  ASSERT_EQ(deployment.groups.size(), 2U);
  EXPECT_FALSE(deployment.groups[0].config.system.ffn.has_value());
  EXPECT_EQ(deployment.groups[1].config.system.ffn->hardware_spec.name, "b200");
  EXPECT_EQ(deployment.groups[1].config.system.ffn->link.latency_us, std::nullopt);
}

// Watts of provisioned devices: an H100's limit is 700, a B200's 1000.
TEST(FfnPoolRunTest, EnergyCountsBothSides) {
  const Summary summary = SummaryOf(std::string(kH100) + "ffn { hardware: 'b200' devices: 4 }");
  EXPECT_NEAR(summary.Number("provisioned_power_w"), 700 + 4 * 1000, 1e-6);
  EXPECT_GT(summary.Number("energy_joules"), 0);
  EXPECT_LT(summary.Number("mean_power_w"), 4700);
  const Summary unknown = SummaryOf(std::string(kH100) + "ffn { hardware: 'h20' devices: 4 }");
  EXPECT_EQ(unknown.Find("energy_joules"), nullptr);
}

TEST(FfnPoolRunTest, EachMistakeIsOneLine) {
  const std::string system = kH100;
  EXPECT_THAT(RefusalOf(system + "ffn { devices: 1 }"),
              HasSubstr("system.ffn.devices: is 1: weights of 90.19"));
  EXPECT_THAT(RefusalOf(system + "ffn { devices: 3 }"), HasSubstr("a divisor of the 8 experts"));
  EXPECT_THAT(RefusalOf(system + "ffn { devices: 4 micro_batches: 0 }"),
              HasSubstr("system.ffn.micro_batches: must be at least 1, is 0"));
  EXPECT_THAT(RefusalOf(system + "ffn { devices: 4 }", "constant { step_s: 0.01 }"),
              HasSubstr("cost.constant: does not know the parts of a step"));
  EXPECT_THAT(RefusalOf(system + "pipeline_parallel: 2 ffn { devices: 4 }"),
              HasSubstr("pipeline_parallel is 2; allowed: 1"));
  EXPECT_THAT(RefusalOf(system + "ffn { devices: 4 attention_groups: 10000 }"),
              HasSubstr("system.ffn.attention_groups"));
  EXPECT_THAT(RefusalOf(system + "ffn { hardware: 'no-such' devices: 4 }"), HasSubstr("no-such"));
}

}  // namespace
}  // namespace twin::run
