#include "sim/devices/profile_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "sim/cost/registry.h"
#include "sim/devices/product_curve.h"
#include "sim/devices/stage_cache.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kBlockBytes = 1 << 20;

// A ridge at 1000 rows: 1 PFLOP/s over 1 TB/s and 2 bytes of a weight.
ProfileCostConfig Config() {
  ProfileCostConfig config;
  config.heat_factor = 0.2;
  config.heat_tau_s = 0.040;
  config.decode_heat_factor = 0.05;
  config.compute_in_place = 1;
  config.graph_gap_s = 1e-3;
  config.eager_gap_s = 0.5e-3;
  config.hidden_gap_s = 0.4e-3;
  config.layer_launch_s = 0;
  config.host_s = 2e-3;
  config.host_per_item_s = 1e-5;
  return config;
}

ProfileCost Cost(const ProfileCostConfig& config = Config(), const Parallelism& parallelism = {}) {
  return {config, ModelPreset("llama-3-8b"), IdealHardware(), parallelism, kBlockBytes};
}

StepPlan Decodes(std::int64_t items) {
  StepPlan plan;
  plan.work.resize(static_cast<std::size_t>(items));
  plan.totals = {
      .decode_items = items, .decode_context_tokens = 1000 * items, .emitting_items = items};
  return plan;
}

StepPlan Chunk(std::int64_t tokens, std::int64_t decodes) {
  StepPlan plan = Decodes(decodes);
  plan.work.resize(static_cast<std::size_t>(decodes) + 1);
  plan.totals.prefill_tokens = tokens;
  plan.totals.prefill_items = 1;
  plan.totals.prefill_context_tokens = tokens;
  plan.totals.prefill_attention_pairs = tokens * (tokens + 1) / 2;
  plan.totals.emitting_items += 1;
  return plan;
}

double At(const StageTimes& times, OperationClass operation) {
  return times.operations[static_cast<std::size_t>(operation)];
}

// Captured sizes are 1, 2, 4, 8, 16, 24, ...: 9 decodes compute the products of 16, with the
// attention of 9.
TEST(ProfileCostTest, DecodesArePaddedToCapturedSizes) {
  const ProfileCost cost = Cost();
  const StageTimes nine = cost.model().Times(Decodes(9).totals, 0, 0, 0);
  const StageTimes sixteen = cost.model().Times(Decodes(16).totals, 0, 0, 0);
  const StageTimes eight = cost.model().Times(Decodes(8).totals, 0, 0, 0);
  EXPECT_EQ(At(nine, OperationClass::kSmall), At(sixteen, OperationClass::kSmall));
  EXPECT_GT(At(nine, OperationClass::kSmall), At(eight, OperationClass::kSmall));
  EXPECT_LT(At(nine, OperationClass::kDecodeAttention),
            At(sixteen, OperationClass::kDecodeAttention));
}

TEST(ProfileCostTest, WithoutGraphsNothingIsPadded) {
  ProfileCostConfig config = Config();
  config.captures_graphs = false;
  const ProfileCost cost = Cost(config);
  const StageTimes nine = cost.model().Times(Decodes(9).totals, 0, 0, 0);
  const StageTimes sixteen = cost.model().Times(Decodes(16).totals, 0, 0, 0);
  EXPECT_LT(At(nine, OperationClass::kSmall), At(sixteen, OperationClass::kSmall));
  EXPECT_DOUBLE_EQ(nine.gap, 1e-3);  // that of graphs, which is more than eager_gap_s
}

// The ablation of the longest context.
TEST(ProfileCostTest, WithTheMeanContextTheLongestDoesNotMatter) {
  ProfileCostConfig config = Config();
  config.mean_context = true;
  const ProfileCost cost = Cost(config);
  StepPlan even = Decodes(64);
  StepPlan skewed = Decodes(64);
  even.totals.decode_context_max = 1000;
  skewed.totals.decode_context_max = 40000;
  EXPECT_EQ(At(cost.model().Times(skewed.totals, 0, 0, 0), OperationClass::kDecodeAttention),
            At(cost.model().Times(even.totals, 0, 0, 0), OperationClass::kDecodeAttention));
}

// The fitted terms of the H100 hide more behind a long step than the gap: runs were refused because
// the gap, as a part of the step, was negative.
TEST(ProfileCostTest, AStepThatOverlapsWithALongOneIsShorterThanItsOperations) {
  ProfileCostConfig config = Config();
  config.graph_gap_s = 0.1e-3;
  config.hidden_gap_s = 0.3e-3;
  config.decode_heat_factor = 0;
  const ProfileCost cost = Cost(config);
  DeviceState state;
  state.last_step = milliseconds(500);
  const StepPlan plan = Decodes(8);
  const StageTimes times = cost.model().Times(plan.totals, 0, 0, 0.5);
  ASSERT_LT(times.gap, 0);
  double operations = 0;
  for (const double seconds : times.operations) operations += seconds;
  EXPECT_NEAR(Seconds(cost.StageTime(plan, 0, kTimeZero, state)), operations + times.gap, 1e-8);
}

TEST(ProfileCostTest, CapturedSizesAreThoseOfVllm) {
  const std::vector<std::uint32_t> sizes = CapturedSizes(512);
  EXPECT_EQ(sizes.size(), 3u + 31u + 17u);  // 1 2 4, 8..248 by 8, 256..512 by 16
  EXPECT_EQ(sizes[3], 8u);
  EXPECT_EQ(sizes.back(), 512u);
  EXPECT_EQ(CapturedSizes(5), (std::vector<std::uint32_t>{1, 2, 4}));
  EXPECT_EQ(CapturedSizes(1), (std::vector<std::uint32_t>{1}));
}

// A long step before hides 0.4 of 1 ms of the gap.
TEST(ProfileCostTest, ALongStepHidesHostTime) {
  const ProfileCost cost = Cost();
  const double rested = cost.model().Times(Decodes(8).totals, 0, 0, 0).total();
  EXPECT_DOUBLE_EQ(cost.model().Times(Decodes(8).totals, 0, 0, rested).gap, 1e-3);
  EXPECT_DOUBLE_EQ(cost.model().Times(Decodes(8).totals, 0, 0, 2.1 * rested).gap, 0.6e-3);
}

// Products of 2000 rows are beyond the ridge, those of 8 far below.
TEST(ProfileCostTest, ComputeShareFollowsTheRidge) {
  const ProfileCost cost = Cost();
  const StepModel& model = cost.model();
  EXPECT_EQ(model.ComputeShare(Chunk(2000, 0).totals), 1);
  EXPECT_EQ(model.ComputeShare(Decodes(8).totals), 0);
  EXPECT_NEAR(model.ComputeShare(Chunk(750, 0).totals), 0.5, 1e-12);
}

// On a hot device (E = 1) compute takes 1.2 times as long and the rest 1.05 times; the heat stays.
TEST(ProfileCostTest, HotDevicesAreSlower) {
  const ProfileCost cost = Cost();
  const StepModel& model = cost.model();
  const StageTimes rested = model.Times(Chunk(2000, 4).totals, 0, 0, 0);
  const StageTimes hot = model.Times(Chunk(2000, 4).totals, 0, 1, 0);
  const double compute =
      At(rested, OperationClass::kGemm) + At(rested, OperationClass::kPrefillAttention);
  const double other = rested.total() - rested.gap - rested.clocks - compute;
  EXPECT_NEAR(hot.clocks, 0.2 * compute + 0.05 * other, 1e-12);
  EXPECT_EQ(hot.operations, rested.operations);
}

// T = R + A Em(T): the three passes solve the equation to 0.1 %.
TEST(ProfileCostTest, HeatBuildsUpWithinAStep) {
  const ProfileCost cost = Cost();
  const StageTimes times = cost.model().Times(Chunk(4000, 0).totals, 0, 0, 0);
  const StageTimes hot = cost.model().Times(Chunk(4000, 0).totals, 0, 1, 0);
  const double mean = cost.model().memory().Mean(0, 1, times.total());
  EXPECT_NEAR(times.clocks, hot.clocks * mean, 1e-3 * times.total());
  EXPECT_GT(times.clocks, 0);
}

TEST(ProfileCostTest, AdvanceMovesTheStateAndRestsWhileIdle) {
  const ProfileCost cost = Cost();
  DeviceState state;
  const TimePoint begin = kTimeZero + milliseconds(10);
  const TimePoint end = begin + milliseconds(40);
  cost.Advance(Chunk(2000, 0), begin, end, state);
  EXPECT_NEAR(state.heat, 1 - std::exp(-1.0), 1e-12);
  EXPECT_EQ(state.changed, end);
  EXPECT_EQ(state.last_step, milliseconds(40));
  cost.Advance(Decodes(1), end + milliseconds(40), end + milliseconds(80), state);
  EXPECT_NEAR(state.heat, (1 - std::exp(-1.0)) * std::exp(-2.0), 1e-12);
}

TEST(ProfileCostTest, PartsSumToTheStageTime) {
  const ProfileCost cost = Cost();
  DeviceState state{.heat = 0.7, .changed = kTimeZero, .last_step = milliseconds(3)};
  const TimePoint begin = kTimeZero + milliseconds(1);
  for (const StepPlan& plan : {Decodes(3), Chunk(700, 20), Chunk(5000, 0)}) {
    const StepParts parts = *cost.Parts(plan, begin, state);
    EXPECT_EQ(parts.device(), cost.StageTime(plan, 0, begin, state));
    EXPECT_EQ(parts[StepPart::kSchedule], cost.HostTime(plan));
    EXPECT_GT(parts[StepPart::kClocks], Duration{0});
    EXPECT_EQ((*cost.Parts(plan))[StepPart::kGemm], parts[StepPart::kGemm]);
  }
}

TEST(ProfileCostTest, DeviceTimesAreThoseOfRestedDevices) {
  const ProfileCost cost = Cost(Config(), {.tensor = 2, .pipeline = 2});
  std::vector<Duration> times(2);
  cost.DeviceTimes(Chunk(2000, 4), times);
  EXPECT_EQ(times[0], cost.StageTime(Chunk(2000, 4), 0, kTimeZero, {}));
  EXPECT_EQ(times[1], cost.StageTime(Chunk(2000, 4), 1, kTimeZero, {}));
  EXPECT_GT(times[1], times[0]);  // the LM head
}

// An engine that waits for each step shows what its graphs would, and more.
TEST(ProfileCostTest, DecodesWithoutGraphsTakeNoLessThanWithThem) {
  ProfileCostConfig config = Config();
  const double graphs = Cost(config).model().Times(Decodes(8).totals, 0, 0, 0).total();
  config.captures_graphs = false;
  EXPECT_EQ(Cost(config).model().Times(Decodes(8).totals, 0, 0, 0).total(), graphs);
  config.eager_gap_s = 2e-3;
  EXPECT_NEAR(Cost(config).model().Times(Decodes(8).totals, 0, 0, 0).total(), graphs + 1e-3, 1e-12);
}

TEST(ProfileCostTest, WholeExpertsNeedARankEachAtTheMost) {
  ProfileCostConfig config = Config();
  config.expert_parallel = true;
  const ModelSpec mixture = ModelPreset("mixtral-8x7b");  // 8 experts
  EXPECT_NO_THROW(Validate(config, mixture, {.tensor = 8}));
  EXPECT_THROW(Validate(config, mixture, {.tensor = 16}), InputError);
  EXPECT_THROW(Validate(config, ModelPreset("llama-3-8b"), {.tensor = 2}), InputError);
}

// Log-normal errors around the median: different seeds differ, one seed repeats itself.
TEST(ProfileCostTest, DrawnErrorsSpreadAroundTheMedian) {
  const double median = Cost().model().Times(Chunk(2000, 4).totals, 0, 0, 0).total();
  ProfileCostConfig config = Config();
  int below = 0;
  double first = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    config.draw_seed = seed;
    const double drawn = Cost(config).model().Times(Chunk(2000, 4).totals, 0, 0, 0).total();
    if (seed == 1) first = drawn;
    if (drawn < median) ++below;
    EXPECT_NE(drawn, median);
  }
  EXPECT_GT(below, 8);
  EXPECT_LT(below, 32);
  config.draw_seed = 1;
  EXPECT_EQ(Cost(config).model().Times(Chunk(2000, 4).totals, 0, 0, 0).total(), first);
}

TEST(ProfileCostTest, AGpuWithoutRecordedStepsTakesTheTermsOfAnother) {
  const StepTerms fitted = StepTermsFor("l40s", StepEngine::kV1Async, {});
  EXPECT_EQ(fitted.compute_in_place, (StepTerm{0.915, 0.05}));
  EXPECT_LT(fitted.graph_gap_s.value, 1e-4);
  const StepTerms documented = DocumentedStepTerms("l40s", StepEngine::kV0);
  EXPECT_EQ(StepTermsFor("l40s", StepEngine::kV0, {}).graph_gap_s, documented.graph_gap_s);
  EXPECT_EQ(StepTermsFor("cpu-generic", StepEngine::kV1Async, {}),
            DocumentedStepTerms("cpu-generic", StepEngine::kV1Async));
}

// Their hosts launch prompts kernel by kernel; the recorded terms of the device hold otherwise.
TEST(ProfileCostTest, TrtllmAndSglangLaunchPromptsSlowly) {
  for (const StepEngine engine : {StepEngine::kTrtllm, StepEngine::kSglang}) {
    const StepTerms terms = StepTermsFor("l40s", engine, {});
    StepTerms others = StepTermsFor("l40s", StepEngine::kV1Async, {});
    EXPECT_GT(terms.layer_launch_s.value, 5 * others.layer_launch_s.value);
    others.layer_launch_s = terms.layer_launch_s;
    EXPECT_EQ(terms, others);
  }
}

// The 32 layers of llama-3-8b are launched in 32 x 1 ms, and in blocks of fp8, with 14 kernels
// instead of 10, in 32 x 1.4 ms; an engine that compiles layers takes 1 ms for any.
TEST(ProfileCostTest, ShortPromptsTakeAsLongAsTheirLaunches) {
  ModelSpec model = ModelPreset("llama-3-8b");
  model.weight_dtype = DType::kFp8Block;
  const auto seconds = [&](StepEngine engine, const ModelSpec& of) {
    ProfileCostConfig config = Config();
    config.engine = engine;
    config.captures_graphs = false;
    config.layer_launch_s = 1e-3;
    config.heat_factor = 0;
    config.decode_heat_factor = 0;
    const ProfileCost cost(config, of, IdealHardware(), {}, kBlockBytes);
    return cost.model().Times(Chunk(8, 0).totals, 0, 0, 0).total();
  };
  EXPECT_NEAR(seconds(StepEngine::kTrtllm, ModelPreset("llama-3-8b")), 0.032, 1e-9);
  EXPECT_NEAR(seconds(StepEngine::kTrtllm, model), 0.0448, 1e-9);
  EXPECT_NEAR(seconds(StepEngine::kSglang, model), 0.0448, 1e-9);
  EXPECT_NEAR(seconds(StepEngine::kV1Async, model), 0.032, 1e-9);
}

TEST(ProfileCostTest, IntervalsHoldTheMedian) {
  const StepInterval interval = Cost().model().Interval(Chunk(2000, 4).totals, 0.5, 0);
  EXPECT_LT(interval.low, interval.seconds);
  EXPECT_GT(interval.high, interval.seconds);
  EXPECT_NEAR(interval.low * interval.high, interval.seconds * interval.seconds, 1e-12);
}

// Several threads ask a model for the first time at once; all get what one thread gets.
TEST(ProfileCostTest, ThreadsShareOneModel) {
  const ProfileCost alone = Cost();
  const ProfileCost shared = Cost();
  std::vector<std::vector<Duration>> times(4);
  std::vector<std::thread> threads;
  for (std::vector<Duration>& mine : times) {
    threads.emplace_back([&shared, &mine] {
      for (std::int64_t n = 1; n < 200; ++n) {
        mine.push_back(shared.StageTime(Chunk(n, n), 0, kTimeZero, {}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::int64_t n = 1; n < 200; ++n) {
    const Duration expected = alone.StageTime(Chunk(n, n), 0, kTimeZero, {});
    for (const std::vector<Duration>& mine : times) {
      EXPECT_EQ(mine[static_cast<std::size_t>(n - 1)], expected);
    }
  }
}

// A sweep resolved every run's operations anew, 0.1 s each.
TEST(ProfileCostTest, RunsOfOneModelShareItsOperations) {
  StageCache cache;
  const auto prepare = [&cache](const char* model, const DeviceProfile& device) {
    return cache.Prepare(ModelPreset(model), IdealHardware(), {}, device, {});
  };
  DeviceProfile terms;
  terms.steps.host_s = StepTerm{1e-3, 0.1};
  DeviceProfile kernels;
  kernels.attention.mixed_factor = 2;
  DeviceProfile tables;
  tables.operations.grids.emplace_back();
  const auto stages = prepare("llama-3-8b", {});
  EXPECT_EQ(prepare("llama-3-8b", terms), stages);
  EXPECT_NE(prepare("llama-3-8b", tables), stages);
  EXPECT_NE(prepare("llama-3-8b", kernels), stages);
  EXPECT_NE(prepare("qwen3-8b", {}), stages);
  EXPECT_EQ(prepare("llama-3-8b", {}), stages);
  EXPECT_NE(StageCache().Prepare(ModelPreset("llama-3-8b"), IdealHardware(), {}, {}, {}), stages);
}

TEST(ProfileCostTest, OperationsThatWereAskedForLongAgoAreForgotten) {
  StageCache cache;
  const auto prepare = [&cache](std::size_t layers) {
    ModelSpec model = ModelPreset("llama-3-8b");
    model.layers = static_cast<std::int32_t>(layers);
    return cache.Prepare(model, IdealHardware(), {}, {}, {});
  };
  const std::weak_ptr<const PreparedStages> first = prepare(1);
  const std::weak_ptr<const PreparedStages> second = prepare(2);
  EXPECT_EQ(prepare(1), first.lock());  // now later than the second
  for (std::size_t i = 3; i <= StageCache::kModels + 1; ++i) (void)prepare(i);
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(second.expired());
}

// Two ranks with 4 of 8 experts each. One row visits 2 experts, both on one rank if it is unlucky:
// the expected most is 1 + sqrt(2 ln 2 x 0.5) = 1.83. Of 8192 rows with 16384 pairs, the fuller
// rank has 0.9 % more than its half.
TEST(ProfileCostTest, WholeExpertsAreUnevenForFewRowsAndEvenForMany) {
  const auto seconds = [](bool whole, std::int64_t rows) {
    const StageOperations stage(ModelPreset("mixtral-8x7b"), IdealHardware(), {.tensor = 2}, 0, {},
                                {.expert_parallel = whole});
    StepLoad load;
    load.rows = rows;
    load.logits = 1;
    return stage.Seconds(load)[static_cast<std::size_t>(OperationClass::kExperts)];
  };
  EXPECT_GT(seconds(true, 1), 1.4 * seconds(false, 1));
  EXPECT_NEAR(seconds(true, 8192) / seconds(false, 8192), 1.0, 0.05);
}

// The table `fp8` of vLLM belongs to a kernel that servers of fp8 checkpoints do not run. Without
// block-wise measurements there is nothing better.
TEST(ProfileCostTest, ExpertsInFp8TakeTheTimeOfTheBlockWiseKernel) {
  ModelSpec model = ModelPreset("qwen3-235b-a22b");
  const auto seconds = [&](DType format, std::vector<MoeFit> fits) {
    model.weight_dtype = format;
    DeviceProfile device;
    device.moe.fits = std::move(fits);
    const StageOperations stage(model, IdealHardware(), {.tensor = 4}, 0, device, {});
    StepLoad load;
    load.rows = 64;
    load.logits = 64;
    return stage.Seconds(load)[static_cast<std::size_t>(OperationClass::kExperts)];
  };
  MoeFit other;
  other.format = GemmFormat::kFp8;
  other.coefficients.bandwidth_fraction = 0.1;
  MoeFit blocks;
  blocks.format = GemmFormat::kFp8Block;
  const MoeFit wide;
  const double expected = seconds(DType::kFp8, {blocks});
  EXPECT_EQ(seconds(DType::kFp8, {wide, other, blocks}), expected);
  EXPECT_GT(seconds(DType::kFp8, {wide, other}), 2 * expected);
  EXPECT_LT(expected, seconds(DType::kBf16, {wide, other, blocks}));
}

// Half of the layers see 1000 keys.
TEST(ProfileCostTest, LayersWithAWindowReadNoMoreThanIt) {
  ModelSpec model = ModelPreset("llama-3-8b");
  const auto seconds = [&](double context) {
    const StageOperations stage(model, IdealHardware(), {}, 0, {}, {});
    StepLoad load;
    load.rows = load.logits = 8;
    load.decodes = {.requests = 8, .context_tokens = 8 * context, .context_tokens_max = context};
    return stage.Seconds(load)[static_cast<std::size_t>(OperationClass::kDecodeAttention)];
  };
  const double near = seconds(1000);
  const double far = seconds(9000);
  model.sliding_window = 1000;
  model.windowed_layers = model.layers / 2;
  EXPECT_DOUBLE_EQ(seconds(1000), near);
  EXPECT_NEAR(seconds(9000), (near + far) / 2, 1e-9);
}

// Layers that return their input cost nothing; a matrix in place of attention is a product.
TEST(ProfileCostTest, EmptyLayersAreFreeAndAMatrixIsAProduct) {
  const ModelSpec model = ModelPreset("llama-3-8b");
  const auto seconds = [](const ModelSpec& spec) {
    StepLoad load;
    load.rows = load.logits = 8;
    load.decodes = {.requests = 8, .context_tokens = 8000, .context_tokens_max = 1000};
    return StageOperations(spec, IdealHardware(), {.tensor = 2}, 0, {}, {}).Seconds(load);
  };
  const auto with = [&](const LayerSpec& other) {
    ModelSpec mixed = model;
    SetLayers({{32, model}, {8, other}}, mixed);
    return seconds(mixed);
  };
  const auto alone = seconds(model);
  LayerSpec other;
  other.norms_per_layer = 0;
  const auto empty = with(other);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_DOUBLE_EQ(empty[i], alone[i]) << i;
  other.linears = 1;
  const auto linear = with(other);
  const auto gemm = static_cast<std::size_t>(OperationClass::kGemm);
  const auto collective = static_cast<std::size_t>(OperationClass::kCollective);
  EXPECT_GT(linear[gemm], empty[gemm]);
  // Ranks sum twice in each of 32 layers and once for the embedding, and once for each matrix.
  EXPECT_NEAR(linear[collective] / empty[collective], 73.0 / 65, 1e-9);
}

// vLLM V0 and twinserve launch prompts kernel by kernel, V1 replays what lies between the attention
// layers.
TEST(ProfileCostTest, OnlyV1ReplaysPiecesOfStepsWithPrompts) {
  ProfileCostConfig config = Config();
  config.engine = StepEngine::kV1Sync;
  EXPECT_DOUBLE_EQ(Cost(config).model().Times(Chunk(200, 0).totals, 0, 0, 0).gap, 1e-3);
  config.engine = StepEngine::kV0;
  EXPECT_DOUBLE_EQ(Cost(config).model().Times(Chunk(200, 0).totals, 0, 0, 0).gap, 0.5e-3);
  config.engine = StepEngine::kTwinserve;
  EXPECT_DOUBLE_EQ(Cost(config).model().Times(Chunk(200, 0).totals, 0, 0, 0).gap, 0.5e-3);
}

// The fastest of all sizes that a library could pad to, each asked once.
TEST(ProfileCostTest, AProductCostsAtMostWhatOneOfMoreRowsDoes) {
  GemmProfile profile;
  const GemmModel gemm(IdealHardware(), profile);
  const GemmCurve curve = gemm.Curve(4096, 4096);
  const ProductCurve product(curve);
  for (const std::int64_t rows : {1, 17, 128, 129, 1000, 1024, 1025, 5000, 20000}) {
    EXPECT_LE(product(rows).seconds, curve(rows).seconds);
    EXPECT_LE(product(rows).seconds, curve((rows + 127) / 128 * 128).seconds);
    EXPECT_EQ(product(rows).seconds, product(rows).seconds);
  }
}

TEST(ProfileCostTest, RefusesTermsThatNoDeviceHas) {
  ProfileCostConfig config = Config();
  config.graph_gap_s = -1;
  EXPECT_THROW(Cost(config), InputError);
  config = Config();
  config.heat_tau_s = 0;
  EXPECT_THROW(Cost(config), InputError);
}

}  // namespace
}  // namespace twin::sim
