// Energy, device hours and cost of replicas whose feed-forward networks have devices of their own,
// by hand. Shapes: mixtral-8x7b has 32 layers of width 4,096, 32 query and 8 key heads of 128, 8
// experts of 3 x 4,096 x 14,336 numbers, two for each token, and 32,000 tokens, in 16 bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "config/experiment_config.h"
#include "run/deployment.h"
#include "run/ffn_pool_deployment.h"
#include "run/ffn_pool_work.h"
#include "run/run_control.h"
#include "run/simulation.h"

namespace twin::run {
namespace {

constexpr double kLayers = 32;
constexpr double kAttentionNumbers = 4096.0 * (4096 + 1024 + 1024) + 4096.0 * 4096;
constexpr double kNormBytes = 2 * (kLayers * 2 + 1) * 4096;
constexpr double kHeadNumbers = 32000.0 * 4096;
constexpr double kEntryBytes = 2 * 8 * 128 * 2;  // of a token in a layer
constexpr double kExpertNumbers = 3.0 * 4096 * 14336;

ExperimentConfig Experiment(const std::string& system) {
  return ParseExperiment(
      "workload { requests: 40 arrivals { kind: all_at_once } shape { prompt { kind: fixed value: "
      "100 } output { kind: fixed value: 50 } } } system { model: 'mixtral-8x7b' hardware: "
      "'h100-sxm' " +
          system + "} cost { roofline {} } policy { vllm_v1 { max_model_len: 4096 } }",
      "test", "/");
}

// Watts and joules of the two sides, in place of those of their data sheets.
struct Sides {
  EnergySpec attention;
  EnergySpec ffn;
};

// Joules of a step of 16 decodes that read 500 keys each: two attention groups and `devices` for
// the experts, two micro-batches. A group computes 4 decodes of a micro-batch.
FfnPoolJoules JoulesOfStep(const Sides& sides, std::int32_t devices) {
  ExperimentConfig config =
      Experiment("ffn { hardware: 'b200' attention_groups: 2 devices: " + std::to_string(devices) +
                 " micro_batches: 2 }");
  SystemConfig& system = config.system;
  system.hardware_spec.energy = sides.attention;
  system.ffn->hardware_spec.energy = sides.ffn;
  const FfnPoolWorkModel model(system.model_spec, system.hardware_spec, system.parallelism,
                               *system.ffn);
  const StepTotals totals{
      .decode_items = 16, .decode_context_tokens = 16 * 500, .emitting_items = 16};
  return model.Of(totals, totals.decode_context_tokens);
}

EnergySpec Bytes() { return {.joules_per_byte = 1, .source = {}}; }
EnergySpec Flops() { return {.joules_per_flop = 1, .source = {}}; }
EnergySpec LinkBytes() { return {.joules_per_link_byte = 1, .source = {}}; }

// Both groups read attention's weights for each of two micro-batches, and the head's once.
TEST(FfnPoolEnergyTest, BytesOfAttention) {
  const double weights = kLayers * kAttentionNumbers * 2 + kNormBytes;
  const double entries = (4 * 500 + 4) * kEntryBytes * kLayers;  // read, and written
  const double expected = 2 * (2 * (weights + entries) + kHeadNumbers * 2);
  EXPECT_NEAR(JoulesOfStep({Bytes(), {}}, 4).attention, expected, 1e-9 * expected);
}

// 16 tokens in all: products, keys times queries and values times weights, logits.
TEST(FfnPoolEnergyTest, OperationsOfAttention) {
  const double products = 16 * kLayers * 2 * kAttentionNumbers;
  const double pairs = 16 * 500 * kLayers * 2 * 32 * (128 + 128);
  const double logits = 16 * 2 * kHeadNumbers;
  const double expected = products + pairs + logits;
  // Norms count among the numbers of a layer: 2 x 4,096 of 42 million.
  EXPECT_NEAR(JoulesOfStep({Flops(), {}}, 4).attention, expected, 3e-4 * expected);
}

// Eight tokens of a micro-batch are 16 rows. Four devices have two experts and four rows each: they
// reach 1 - (1 / 2)^4 of the experts. Eight devices have one expert each, and read it.
TEST(FfnPoolEnergyTest, BytesOfExperts) {
  const double experts = 8 * kLayers * kExpertNumbers * 2;
  // The gate's weights are a column for each expert: 8 x 4,096 of 1.4e9 numbers.
  EXPECT_NEAR(JoulesOfStep({{}, Bytes()}, 4).ffn, 2 * experts * 15 / 16, 1e-4 * experts);
  EXPECT_NEAR(JoulesOfStep({{}, Bytes()}, 8).ffn, 2 * experts, 1e-4 * experts);
}

TEST(FfnPoolEnergyTest, OperationsOfExperts) {
  const double expected = 16 * 2 * kLayers * 2 * kExpertNumbers;
  for (const std::int32_t devices : {4, 8})
    EXPECT_NEAR(JoulesOfStep({{}, Flops()}, devices).ffn, expected, 1e-4 * expected) << devices;
}

// A token misses the two experts of a device with 6/8 x 5/7: it visits 4 x (1 - 30/56) devices,
// with 8 bits a number and a scale of 32 bits for each 128, and gets back 16 bits a number.
TEST(FfnPoolEnergyTest, BytesBetweenTheSides) {
  const double visits = 16 * 4 * (1 - 30.0 / 56) * kLayers * 4096;
  EXPECT_NEAR(JoulesOfStep({LinkBytes(), {}}, 4).attention, visits * (1 + 4.0 / 128),
              1e-9 * visits);
  EXPECT_NEAR(JoulesOfStep({{}, LinkBytes()}, 4).ffn, visits * 2, 1e-9 * visits);
}

// Attention's device has room for 100 W of work in 10 ms, and gets more; the pool gets none, and
// its room does not help. Four devices of the pool have 700 W each.
TEST(FfnPoolEnergyTest, EachSideKeepsItsOwnLimit) {
  SystemConfig system = Experiment("ffn { hardware: 'b200' devices: 4 }").system;
  system.hardware_spec.energy = {
      .base_watts = 200, .limit_watts = 300, .joules_per_flop = 1, .source = {}};
  system.ffn->hardware_spec.energy = {.base_watts = 300, .limit_watts = 1000, .source = {}};
  const StepTotals totals{
      .decode_items = 16, .decode_context_tokens = 16 * 500, .emitting_items = 16};
  const MeteredWork work = WorkOf(system)(totals, totals.decode_context_tokens, 0.01);
  EXPECT_NEAR(work.joules, 100 * 0.01, 1e-12);
  EXPECT_NEAR(work.limited_share, 1.0 / 5, 1e-12);
  system.hardware_spec.energy->joules_per_flop = 0;
  system.ffn->hardware_spec.energy->joules_per_flop = 1;
  const MeteredWork other = WorkOf(system)(totals, totals.decode_context_tokens, 0.01);
  EXPECT_NEAR(other.joules, 4 * 700 * 0.01, 1e-12);
  EXPECT_NEAR(other.limited_share, 4.0 / 5, 1e-12);
}

// Work costs nothing: joules that are not named would be those of the device's sheet.
std::string Sheet(int watts, int limit, int price) {
  return fmt::format(
      "hardware_spec {{ energy {{ idle_watts: {} base_watts: {} limit_watts: {} source: 'test' "
      "joules_per_flop: 0 joules_per_byte: 0 joules_per_activation_byte: 0 "
      "joules_per_routed_byte: 0 joules_per_link_byte: 0 }} "
      "price {{ usd_per_hour: {} date: '2026-11' source: 'test' }} }}",
      watts, watts, limit, price);
}

// Devices that take the same power with and without a step: two of attention with 200 W for $2 and
// four of the pool with 300 W for $5, in each replica.
TEST(FfnPoolEnergyTest, BothPoolsOfAllReplicasCount) {
  for (const int replicas : {1, 2}) {
    const ExperimentConfig config =
        Experiment("replicas: " + std::to_string(replicas) + " " + Sheet(200, 700, 2) +
                   " ffn { devices: 4 attention_groups: 2 " + Sheet(300, 1000, 5) + " }");
    RunControl control;
    const Summary summary = Simulate(Resolve(config), control).summary;
    const double watts = replicas * (2 * 200 + 4 * 300);
    EXPECT_NEAR(summary.Number("mean_power_w"), watts, 1e-6 * watts);
    EXPECT_NEAR(summary.Number("provisioned_power_w"), replicas * (2 * 700 + 4 * 1000), 1e-6);
    const double hours = summary.Number("energy_joules") / watts / 3600;
    EXPECT_NEAR(summary.Number("device_hours"), replicas * 6 * hours, 1e-9 * hours);
    EXPECT_NEAR(summary.Number("cost_usd"), replicas * (2 * 2 + 4 * 5) * hours, 1e-9 * hours);
    // 40 answers of 50 tokens.
    EXPECT_NEAR(summary.Number("energy_per_output_token_j"), summary.Number("energy_joules") / 2000,
                1e-9 * summary.Number("energy_joules"));
  }
}

}  // namespace
}  // namespace twin::run
