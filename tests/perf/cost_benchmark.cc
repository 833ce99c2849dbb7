// What one question to a cost model costs; the target for the roofline is below 60 ns a step.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <vector>

#include "config/models/model_names.h"
#include "sim/cost/registry.h"
#include "sim/cost/roofline_cost.h"
#include "sim/devices/profile_cost.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

constexpr std::int64_t kBlockBytes = 2 << 20;

// Steps of varying totals, so that branches are not learnt by heart: decodes only, and every fourth
// one with a prefill chunk.
std::vector<StepPlan> Steps() {
  constexpr std::int64_t kSteps = 64;
  std::vector<StepPlan> steps(kSteps);
  for (std::int64_t i = 0; i < kSteps; ++i) {
    const std::int64_t items = 1 + i * 7 % 128;
    StepTotals& totals = steps[static_cast<std::size_t>(i)].totals;
    totals = {.decode_items = items,
              .decode_context_tokens = items * (500 + 13 * i),
              .emitting_items = items};
    if (i % 4 == 0) {
      const std::int64_t chunk = 512 + i;
      totals.prefill_tokens = chunk;
      totals.prefill_items = 1;
      totals.prefill_context_tokens = chunk;
      totals.prefill_attention_pairs = chunk * (chunk + 1) / 2;
    }
  }
  return steps;
}

void PriceSteps(benchmark::State& state, const StepCost& cost) {
  const std::vector<StepPlan> steps = Steps();
  std::vector<Duration> times(static_cast<std::size_t>(cost.stages()));
  const std::unique_ptr<StepTimer> timer = cost.Timer();
  std::size_t i = 0;
  for (auto _ : state) {
    timer->DeviceTimes(steps[i], times);
    benchmark::DoNotOptimize(times.data());
    i = (i + 1) % steps.size();
  }
  state.counters["steps_per_second"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

std::unique_ptr<StepCost> Make(const CostConfig& config, const char* model,
                               const Parallelism& parallelism = {}) {
  return MakeStepCost(config, ModelPreset(model), IdealHardware(), parallelism, kBlockBytes);
}

void BM_ConstantStep(benchmark::State& state) {
  PriceSteps(state, *Make(ConstantCostConfig{}, "llama-3-8b"));
}
BENCHMARK(BM_ConstantStep);

void BM_LinearStep(benchmark::State& state) {
  PriceSteps(state, *Make(LinearCostConfig{.base_s = 1e-3}, "llama-3-8b"));
}
BENCHMARK(BM_LinearStep);

void BM_RooflineStep(benchmark::State& state) {
  PriceSteps(state, *Make(RooflineCostConfig{}, "llama-3-8b"));
}
BENCHMARK(BM_RooflineStep);

void BM_RooflineStepOfATensorParallelModel(benchmark::State& state) {
  PriceSteps(state, *Make(RooflineCostConfig{}, "llama-3-70b", {.tensor = 8}));
}
BENCHMARK(BM_RooflineStepOfATensorParallelModel);

void BM_RooflineStepOfFourStages(benchmark::State& state) {
  PriceSteps(state, *Make(RooflineCostConfig{}, "llama-3-70b", {.pipeline = 4}));
}
BENCHMARK(BM_RooflineStepOfFourStages);

void BM_RooflineStepOfAMixture(benchmark::State& state) {
  PriceSteps(state, *Make(RooflineCostConfig{.gemm_tile_tokens = 128}, "mixtral-8x7b"));
}
BENCHMARK(BM_RooflineStepOfAMixture);

void BM_RooflineStepWithOverlappedAttention(benchmark::State& state) {
  PriceSteps(state, *Make(RooflineCostConfig{.overlaps_attention = true}, "llama-3-8b"));
}
BENCHMARK(BM_RooflineStepWithOverlappedAttention);

// The target is below 2 us a step of 64 sequences, after the first of its size.
void BM_ProfileStep(benchmark::State& state) {
  PriceSteps(state, *Make(ProfileCostConfig{}, "llama-3-8b"));
}
BENCHMARK(BM_ProfileStep);

void BM_ProfileStepWithAState(benchmark::State& state) {
  const ProfileCost cost(ProfileCostConfig{}, ModelPreset("llama-3-8b"), IdealHardware(), {},
                         kBlockBytes);
  const std::vector<StepPlan> steps = Steps();
  const std::unique_ptr<StepTimer> timer = cost.Timer();
  DeviceState device;
  std::size_t i = 0;
  for (auto _ : state) {
    const TimePoint begin = device.changed;
    const Duration time = timer->StageTime(steps[i], 0, begin, device);
    cost.Advance(steps[i], begin, begin + time, device);
    benchmark::DoNotOptimize(device);
    i = (i + 1) % steps.size();
  }
}
BENCHMARK(BM_ProfileStepWithAState);

void BM_RooflineBreakdown(benchmark::State& state) {
  const RooflineCost cost(RooflineCostConfig{}, ModelPreset("llama-3-8b"), IdealHardware(), {},
                          kBlockBytes);
  const std::vector<StepPlan> steps = Steps();
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cost.Breakdown(steps[i].totals, 0));
    i = (i + 1) % steps.size();
  }
}
BENCHMARK(BM_RooflineBreakdown);

}  // namespace
}  // namespace twin::sim
