// Energy by hand: idle 100 W, base 200 W, limit 700 W, steps of 10 ms.
#include "run/record/energy_meter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace twin {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint At(std::int64_t ms) { return kTimeZero + milliseconds(ms); }

EnergySpec OfDevice() {
  return {.idle_watts = 100, .base_watts = 200, .limit_watts = 700, .source = "by hand"};
}

// Devices whose steps of n decodes take n joules.
MeteredDevices Devices(std::int32_t replicas = 1) {
  return {.replicas = replicas,
          .devices = 1,
          .energy = OfDevice(),
          .price = PriceSpec{.usd_per_hour = 3.6, .date = "2026-03-01", .source = "by hand"},
          .work = [](const StepTotals& totals, std::int64_t, double busy_s) {
            return WithinLimit(static_cast<double>(totals.decode_items), OfDevice(), 1, busy_s);
          }};
}

EnergyMeter Meter(std::vector<MeteredDevices> groups) {
  return {std::move(groups), milliseconds(10), 8};
}

void Step(EnergyMeter& meter, std::int64_t from_ms, std::int64_t to_ms, std::int64_t joules,
          std::int32_t replica = 0) {
  StepPlan plan;
  plan.replica = replica;
  plan.totals.decode_items = joules;
  meter.OnStepEnded({.plan = plan,
                     .planned = At(from_ms),
                     .started = At(from_ms),
                     .finished = At(to_ms),
                     .recomputed_tokens = 0,
                     .outcomes = {}});
}

Summary SummaryOf(EnergyMeter& meter, std::int64_t end_ms) {
  meter.OnLoad(At(0), At(end_ms), {});
  Summary summary;
  meter.Summarise(MetricWriter(summary));
  return summary;
}

void Complete(EnergyMeter& meter, std::int32_t tokens) {
  RequestLife life;
  life.status = RequestStatus::kCompleted;
  life.output_tokens = tokens;
  meter.OnEnded(life);
}

// 2 J of work in 10 ms beside 2 J of base power; 8 J would be 1,000 W and are cut at 700 W; 10 ms
// without a step are 1 J: 4 + 7 + 1 J in 30 ms.
TEST(EnergyMeterTest, AddsBaseWorkAndIdlePowerUpToTheLimit) {
  EnergyMeter meter = Meter({Devices()});
  meter.OnArrived(At(0), {});
  Step(meter, 0, 10, 2);
  Step(meter, 10, 20, 8);
  Complete(meter, 6);
  const Summary summary = SummaryOf(meter, 30);
  EXPECT_NEAR(summary.Number("energy_joules"), 12, 1e-12);
  EXPECT_NEAR(summary.Number("mean_power_w"), 400, 1e-9);
  EXPECT_NEAR(summary.Number("max_power_w"), 700, 1e-9);
  EXPECT_NEAR(summary.Number("idle_energy_share"), 1.0 / 12, 1e-12);
  EXPECT_NEAR(summary.Number("power_limited_share"), 0.5, 1e-12);
  EXPECT_NEAR(summary.Number("energy_per_output_token_j"), 2, 1e-12);
  EXPECT_NEAR(summary.Number("energy_per_request_j"), 12, 1e-12);
  EXPECT_NEAR(summary.Number("provisioned_power_w"), 700, 1e-12);
  EXPECT_NEAR(summary.Number("cost_usd"), 3.6 * 0.03 / 3600, 1e-15);
  EXPECT_NEAR(summary.Number("cost_per_million_output_tokens_usd"), 5, 1e-9);
  const std::vector<double> power = meter.Power(milliseconds(10), 3);
  EXPECT_NEAR(power[0], 400, 1e-9);
  EXPECT_NEAR(power[1], 700, 1e-9);
  EXPECT_NEAR(power[2], 100, 1e-9);
}

// Two steps of a pipeline share 5 ms: base power counts for 15 ms, 3 J, and work for both, 4 J.
TEST(EnergyMeterTest, StepsThatOverlapShareTheBasePower) {
  EnergyMeter meter = Meter({Devices()});
  meter.OnArrived(At(0), {});
  Step(meter, 0, 10, 2);
  Step(meter, 5, 15, 2);
  EXPECT_NEAR(SummaryOf(meter, 15).Number("energy_joules"), 7, 1e-12);
}

TEST(EnergyMeterTest, TwoReplicasWithTheSameLoadTakeTwiceTheEnergy) {
  EnergyMeter meter = Meter({Devices(2)});
  meter.OnArrived(At(0), {});
  for (const std::int32_t replica : {0, 1}) Step(meter, 0, 10, 2, replica);
  Complete(meter, 4);
  const Summary summary = SummaryOf(meter, 10);
  EXPECT_NEAR(summary.Number("energy_joules"), 8, 1e-12);
  EXPECT_NEAR(summary.Number("energy_per_output_token_j"), 2, 1e-12);
  EXPECT_NEAR(summary.Number("device_hours"), 2 * 0.01 / 3600, 1e-15);
}

// The first group works, the second one idles: 4 and 1 J.
TEST(EnergyMeterTest, GroupsAddUpToTheWhole) {
  EnergyMeter meter = Meter({Devices(), Devices()});
  meter.OnArrived(At(0), {});
  Step(meter, 0, 10, 2);
  const Summary summary = SummaryOf(meter, 10);
  EXPECT_NEAR(summary.Number("group_0_energy_joules"), 4, 1e-12);
  EXPECT_NEAR(summary.Number("group_1_energy_joules"), 1, 1e-12);
  EXPECT_NEAR(summary.Number("energy_joules"), 5, 1e-12);
}

TEST(EnergyMeterTest, SaysNothingOfWhatItDoesNotKnow) {
  MeteredDevices unknown = Devices();
  unknown.energy.reset();
  EnergyMeter meter = Meter({Devices(), unknown});
  meter.OnArrived(At(0), {});
  Step(meter, 0, 10, 2);
  const Summary summary = SummaryOf(meter, 10);
  EXPECT_EQ(summary.Find("energy_joules"), nullptr);
  EXPECT_EQ(summary.Find("mean_power_w"), nullptr);
  EXPECT_NE(summary.Find("cost_usd"), nullptr);
}

// Idle power that no sheet knows counts as base power, 2 J, and has no share of its own.
TEST(EnergyMeterTest, UnknownIdlePowerIsTheBasePower) {
  MeteredDevices devices = Devices();
  devices.energy->idle_watts = 0;
  EnergyMeter meter = Meter({devices});
  meter.OnArrived(At(0), {});
  Step(meter, 0, 10, 2);
  const Summary summary = SummaryOf(meter, 20);
  EXPECT_NEAR(summary.Number("energy_joules"), 6, 1e-12);
  EXPECT_EQ(summary.Find("idle_energy_share"), nullptr);
}

// 8 windows of 10 ms end at 80 ms; a step until 160 ms needs windows of 20 ms.
TEST(EnergyMeterTest, WindowsDoubleInLongRuns) {
  EnergyMeter meter = Meter({Devices()});
  meter.OnArrived(At(0), {});
  Step(meter, 0, 160, 16);
  const Summary summary = SummaryOf(meter, 160);
  EXPECT_NEAR(summary.Number("energy_joules"), 48, 1e-9);
  EXPECT_NEAR(summary.Number("max_power_w"), 300, 1e-9);
  EXPECT_NEAR(meter.Power(milliseconds(40), 4)[3], 300, 1e-9);
}

}  // namespace
}  // namespace twin
