// Products that a benchmark measured with calls back to back, in steps.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "config/models/model_names.h"
#include "sim/devices/operations/gemm_table.h"
#include "sim/devices/step_model.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

constexpr double kHeatFactor = 0.2;
constexpr double kTauSeconds = 0.040;

// One measured product, 8,192 x 8,192 x 8,192, which takes 1.5 times its closed form.
DeviceProfile Profile(BackToBackCalls calls) {
  DeviceProfile device;
  device.gemm.fits.emplace_back();
  GemmTable& table = device.gemm.tables.emplace_back();
  table.calls = calls;
  table.m = table.n = table.k = {8192};
  table.curves = {EncodeGemmCurve(std::vector<double>{std::log(1.5)})};
  table.shape_sd = table.m_sd = {0.1, 0.1, 0.1};
  return device;
}

StepModel Model(BackToBackCalls calls, double heat_factor = kHeatFactor) {
  StepModelConfig config;
  config.terms.heat_factor.value = heat_factor;
  config.terms.heat_tau_s.value = kTauSeconds;
  return {config, ModelPreset("llama-3-8b"), IdealHardware(), {}, Profile(calls)};
}

StepTotals Prompt(std::int64_t tokens) {
  return {.prefill_tokens = tokens,
          .prefill_items = 1,
          .prefill_context_tokens = tokens,
          .prefill_attention_pairs = tokens * (tokens + 1) / 2,
          .emitting_items = 1};
}

ByOperation<double> Operations(const StepModel& model, std::int64_t tokens) {
  return model.Times(Prompt(tokens), 0, 0, 0).operations;
}

double Products(const StepModel& model, std::int64_t tokens) {
  return Operations(model, tokens)[static_cast<std::size_t>(OperationClass::kGemm)];
}

// The mean of 1 - exp(-t / tau) from 3 to 9 calls of d:
// 1 - tau / 6d (exp(-3d / tau) - exp(-9d / tau)).
double MeanHeat(double call) {
  const double calls = call / kTauSeconds;
  return 1 - (std::exp(-3 * calls) - std::exp(-9 * calls)) / (6 * calls);
}

// The four products of a layer of Llama 3 8B: each counts with its time, and rests on its share of
// the measured call.
double MeasuredCall(std::int64_t rows) {
  const GemmModel gemm(IdealHardware(), Profile({}).gemm);
  double seconds = 0;
  double weighted = 0;
  const auto add = [&](std::int64_t n, std::int64_t k, double share) {
    const double one = gemm({.m = rows, .n = n, .k = k}).seconds;
    seconds += one;
    weighted += one * one * share;
  };
  add(6144, 4096, 1);
  add(4096, 4096, 1);
  add(28672, 4096, 8192.0 / 28672);
  add(4096, 14336, 8192.0 / 14336);
  return weighted / seconds;
}

TEST(WarmMeasurementsTest, ARestedDeviceIsFasterThanTheMeasuredOne) {
  const StepModel warm = Model({.untimed = 3, .timed = 6});
  const StepModel rested = Model({});
  const double slowdown = 1 + kHeatFactor * MeanHeat(MeasuredCall(8192));
  EXPECT_GT(slowdown, 1.02);
  EXPECT_NEAR(Products(warm, 8192), Products(rested, 8192) / slowdown,
              1e-9 * Products(rested, 8192));
}

TEST(WarmMeasurementsTest, OnlyProductsWereMeasuredLikeThat) {
  ByOperation<double> warm = Operations(Model({.untimed = 3, .timed = 6}), 8192);
  const ByOperation<double> rested = Operations(Model({}), 8192);
  constexpr auto kGemm = static_cast<std::size_t>(OperationClass::kGemm);
  EXPECT_LT(warm[kGemm], rested[kGemm]);
  warm[kGemm] = rested[kGemm];
  EXPECT_EQ(warm, rested);
}

TEST(WarmMeasurementsTest, ADeviceThatNeverHeatsUpWasNotWarm) {
  EXPECT_EQ(Products(Model({.untimed = 3, .timed = 6}, 0), 8192), Products(Model({}, 0), 8192));
}

// Products of few rows read memory, which heat does not slow down as much.
TEST(WarmMeasurementsTest, ProductsThatReadWeightsStayAsMeasured) {
  EXPECT_EQ(Products(Model({.untimed = 3, .timed = 6}), 64), Products(Model({}), 64));
}

}  // namespace
}  // namespace twin::sim
