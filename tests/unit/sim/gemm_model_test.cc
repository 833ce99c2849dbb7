// Times of matrix products: the closed form by hand, tables, interpolation, and their intervals.
#include "sim/devices/operations/gemm_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/input_error.h"
#include "sim/devices/operations/gemm_table.h"
#include "sim/devices/operations/kriging.h"
#include "sim/devices/product_curve.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Peak rates, whole waves, no latency, no L2: 1 PFLOP/s on 100 SMs, 1 TB/s.
GemmCoefficients IdealCoefficients() {
  return {.flops_fraction = 1,
          .bandwidth_fraction = 1,
          .latency_s = 0,
          .tile_loss = 0,
          .wave_s = 0,
          .saturating_tiles = 0.01,
          .split_s = 1,
          .l2_bytes_per_s = 1e20,
          .overlap = 100,
          .wave_rounding = 1,
          .weight_copies = 1,
          .resident_bytes_per_s = 1e20};
}

constexpr double kPercent = 0.01;

TEST(GemmClosedFormTest, ComputeBoundProductsTakeWholeWavesOfTiles) {
  // 2,560 x 2,560 in 256 x 256 tiles: 100 tiles, one wave. 2 x 2560^2 x 8192 flops at 1 PFLOP/s.
  const GemmCoefficients ideal = IdealCoefficients();
  const double wave = 2.0 * 2560 * 2560 * 8192 / 1e15;
  EXPECT_NEAR(GemmClosedForm(IdealHardware(), ideal, {.m = 2560, .n = 2560, .k = 8192}), wave,
              kPercent * wave);
  // Ten times the rows: ten waves.
  EXPECT_NEAR(GemmClosedForm(IdealHardware(), ideal, {.m = 25600, .n = 2560, .k = 8192}), 10 * wave,
              10 * kPercent * wave);
}

TEST(GemmClosedFormTest, OneColumnBeyondATileCostsMore) {
  GemmCoefficients ideal = IdealCoefficients();
  ideal.tile_loss = 60;  // small tiles are slow
  const auto seconds = [&](std::int64_t n) {
    return GemmClosedForm(IdealHardware(), ideal, {.m = 2560, .n = n, .k = 8192});
  };
  EXPECT_GT(seconds(2561), 1.1 * seconds(2560));
  EXPECT_NEAR(seconds(2559), seconds(2560), kPercent * seconds(2560));
}

TEST(GemmClosedFormTest, SmallProductsTakeTheTimeToReadTheWeights) {
  // 8192 x 8192 bf16 weights at 1 TB/s: 134.2 us; activations add 0.03 %.
  const double seconds =
      GemmClosedForm(IdealHardware(), IdealCoefficients(), {.m = 1, .n = 8192, .k = 8192});
  EXPECT_NEAR(seconds, 134.2e-6, kPercent * 134.2e-6);
  // 4-bit weights: a quarter.
  EXPECT_NEAR(GemmClosedForm(IdealHardware(), IdealCoefficients(),
                             {.m = 1, .n = 8192, .k = 8192, .format = GemmFormat::kInt4}),
              seconds / 4, 2 * kPercent * seconds / 4);
}

// fp32 is computed by CUDA cores, 0.1 PFLOP/s here, and takes 4 bytes.
TEST(GemmClosedFormTest, Fp32ProductsReadTwiceTheBytesAndRunAtTheFp32Peak) {
  const auto seconds = [](std::int64_t m, GemmFormat format) {
    return GemmClosedForm(IdealHardware(), IdealCoefficients(),
                          {.m = m, .n = 8192, .k = 8192, .format = format});
  };
  const double bytes = seconds(1, GemmFormat::kBf16);
  EXPECT_NEAR(seconds(1, GemmFormat::kFp32), 2 * bytes, 2 * kPercent * bytes);
  const double compute = seconds(8192, GemmFormat::kBf16);
  EXPECT_NEAR(seconds(8192, GemmFormat::kFp32), 10 * compute, 10 * kPercent * compute);
}

TEST(GemmClosedFormTest, WeightsThatFitIntoTheCacheAreReadFromIt) {
  HardwareSpec hardware = IdealHardware();
  hardware.l2_bytes = 1'000'000'000;
  GemmCoefficients c = IdealCoefficients();
  c.resident_bytes_per_s = 1e11;  // 10 TB/s on 100 SMs
  EXPECT_NEAR(GemmClosedForm(hardware, c, {.m = 1, .n = 8192, .k = 8192}), 13.4e-6, 0.3e-6);
  c.weight_copies = 20;  // 2.7 GB
  EXPECT_NEAR(GemmClosedForm(hardware, c, {.m = 1, .n = 8192, .k = 8192}), 134.2e-6, 1.4e-6);
}

TEST(GemmClosedFormTest, WholeWavesCountByTheirExponentWhereComputeDecides) {
  GemmCoefficients smooth = IdealCoefficients();
  smooth.wave_rounding = 0;
  GemmCoefficients half = smooth;
  half.whole_waves = 0.5;
  GemmCoefficients whole = smooth;
  whole.whole_waves = 1;
  HardwareSpec hardware = IdealHardware();
  hardware.memory_bandwidth_bytes_per_s = 1e15;
  const auto ratio = [&](const GemmCoefficients& c, const GemmShape& shape) {
    return GemmClosedForm(hardware, c, shape) / GemmClosedForm(hardware, smooth, shape);
  };
  // 10 x 10 tiles of 128 x 128 fill 100 SMs.
  EXPECT_NEAR(ratio(whole, {.m = 1280, .n = 1280, .k = 8192}), 1, kPercent);
  // One row more. Best are 21 x 20 tiles of 64 x 64 in 5 waves: 5 x 100 x 64^2 / (1281 x 1280).
  constexpr double kFiveWaves = 1.249;
  EXPECT_NEAR(ratio(whole, {.m = 1281, .n = 1280, .k = 8192}), kFiveWaves, kPercent);
  EXPECT_NEAR(ratio(half, {.m = 1281, .n = 1280, .k = 8192}), std::sqrt(kFiveWaves), kPercent);
  // The memory decides.
  hardware = IdealHardware();
  EXPECT_NEAR(ratio(whole, {.m = 1, .n = 8192, .k = 8192}), 1, kPercent);
}

TEST(GemmTableTest, CurvesAreEncodedWithinTheirStep) {
  const std::vector<double> values = {0.5, 0.51, 0.49, -0.3, -0.3, 1.1, 0};
  const std::string text = EncodeGemmCurve(values);
  ASSERT_EQ(text.size(), values.size());
  EXPECT_TRUE(IsGemmCurve(text));
  const std::vector<double> decoded = DecodeGemmCurve(text);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double step = std::abs(values[i] - (i == 0 ? 0 : decoded[i - 1]));
    EXPECT_NEAR(decoded[i], values[i], 0.004 + 0.05 * step) << i;
  }
  EXPECT_FALSE(IsGemmCurve("ab\\"));
  EXPECT_FALSE(IsGemmCurve("a b"));
}

TEST(KrigingTest, TwoEquallyNearPointsCountEqually) {
  const auto at = [](std::size_t i) { return i == 0 ? -1.0 : 1.0; };
  const KrigingWeights weights = Krige(
      2, 2, {}, [&](std::size_t i) { return std::exp(-std::abs(at(i))); },
      [&](std::size_t i, std::size_t j) { return std::exp(-std::abs(at(i) - at(j))); });
  ASSERT_EQ(weights.count, 2U);
  EXPECT_NEAR(weights.weights[0], 0.5, 1e-12);
  EXPECT_NEAR(weights.weights[1], 0.5, 1e-12);
  // By hand: (1 + e^-2) / 2 + mu = e^-1, variance = 1 - e^-1 - mu = 1.5 + e^-2 / 2 - 2 e^-1.
  EXPECT_NEAR(weights.variance, 1.5 + std::exp(-2) / 2 - 2 * std::exp(-1), 1e-12);
}

TEST(GemmTokenWeightsTest, CurvesOfOneTableShareTheWeightsOfEachM) {
  GemmTable table;
  table.m = {1, 16, 128, 1024};
  const GemmTokenWeights weights(table.m);
  const std::vector<double> rising = {0, 0.1, 0.2, 0.3};
  const std::vector<double> falling = {0.4, 0.2, 0.1, 0};
  for (const std::int64_t m : {16, 100, 5000}) {
    for (const std::vector<double>& curve : {rising, falling}) {
      const GemmRatio shared = weights.RatioAt(curve, m);
      const GemmRatio own = GemmTokenWeights(table.m).RatioAt(curve, m);
      EXPECT_EQ(shared.log_ratio, own.log_ratio) << m;
      EXPECT_EQ(shared.variance, own.variance) << m;
    }
  }
  EXPECT_EQ(weights.size(), 3U);
}

TEST(GemmTokenWeightsTest, MemoryIsBoundedAndValuesBeyondItAreEqual) {
  GemmTable table;
  table.m = {1, 16, 128, 1024};
  const GemmTokenWeights weights(table.m);
  const std::vector<double> curve = {0, 0.1, 0.2, 0.3};
  constexpr auto kLast = static_cast<std::int64_t>(GemmTokenWeights::kRememberedMax) + 3;
  for (std::int64_t m = 1; m <= kLast; ++m) (void)weights.RatioAt(curve, m);
  EXPECT_EQ(weights.size(), GemmTokenWeights::kRememberedMax);
  for (const std::int64_t m : {std::int64_t{2}, kLast}) {
    const GemmRatio remembered = weights.RatioAt(curve, m);
    const GemmRatio own = GemmTokenWeights(table.m).RatioAt(curve, m);
    EXPECT_EQ(remembered.log_ratio, own.log_ratio) << m;
    EXPECT_EQ(remembered.variance, own.variance) << m;
  }
  EXPECT_EQ(weights.size(), GemmTokenWeights::kRememberedMax);
}

// Those of one n in one text; a text of one curve is read as well, and so is a curve of nothing.
TEST(GemmTableTest, AProfileHoldsTheCurvesOfOneNInOneText) {
  GemmTable table;
  table.n = {32, 64};
  table.k = {32, 64, 128};
  table.curves = {"PQ", "", "RS", "", "", "TU"};
  const std::vector<std::string> texts = JoinGemmCurves(table);
  EXPECT_EQ(texts, (std::vector<std::string>{"PQ  RS", "  TU"}));
  EXPECT_EQ(SplitGemmCurves(texts), table.curves);
  EXPECT_EQ(SplitGemmCurves(table.curves), table.curves);
  EXPECT_TRUE(SplitGemmCurves({}).empty());
}

// Ratios of 1.1 at n = 1024 and 1.2 at n = 4096, for all k and m.
GemmProfile TwoLevelProfile() {
  GemmProfile profile;
  profile.fits.push_back(
      {.format = GemmFormat::kBf16, .coefficients = IdealCoefficients(), .log_sd = 0.1});
  GemmTable table;
  table.m = {1, 16, 128, 1024};
  table.n = {1024, 4096};
  table.k = {1024, 4096};
  for (const double ratio : {1.1, 1.1, 1.2, 1.2}) {
    table.curves.push_back(EncodeGemmCurve(std::vector<double>(4, std::log(ratio))));
  }
  table.shape_sd = {0.1, 0.1, 0.1};
  table.m_sd = {0.1, 0.1, 0.1};
  profile.tables.push_back(table);
  return profile;
}

double RatioToClosedForm(const GemmModel& model, const GemmShape& shape) {
  return model(shape).seconds / GemmClosedForm(IdealHardware(), IdealCoefficients(), shape);
}

TEST(GemmModelTest, WholeWavesCountOnlyWhereATableHoldsTheRest) {
  GemmProfile profile = TwoLevelProfile();
  profile.fits.front().coefficients.whole_waves = 1;
  GemmCoefficients whole = IdealCoefficients();
  whole.whole_waves = 1;
  const GemmModel model(IdealHardware(), profile);
  const GemmShape measured{.m = 1024, .n = 4096, .k = 4096};
  EXPECT_NEAR(model(measured).seconds, 1.2 * GemmClosedForm(IdealHardware(), whole, measured),
              kPercent * model(measured).seconds);
  // Nobody measured 8-bit weights.
  const GemmShape other{.m = 1024, .n = 4096, .k = 4096, .format = GemmFormat::kInt8};
  EXPECT_EQ(model(other).seconds, GemmClosedForm(IdealHardware(), IdealCoefficients(), other));
}

TEST(GemmModelTest, MeasuredPointsAreReproduced) {
  const GemmModel model(IdealHardware(), TwoLevelProfile());
  EXPECT_NEAR(RatioToClosedForm(model, {.m = 16, .n = 1024, .k = 4096}), 1.1, 0.01);
  EXPECT_NEAR(RatioToClosedForm(model, {.m = 1024, .n = 4096, .k = 1024}), 1.2, 0.01);
}

// SGLang's times, flat but for a ratio of 1.2 at m = 64 and 128, as the trend of vLLM's, which were
// not measured there.
GemmProfile TrendProfile(double share) {
  GemmProfile profile = TwoLevelProfile();
  GemmTable trend = profile.tables.front();
  profile.tables.front().m = {1, 16, 1024};
  profile.tables.front().curves.assign(4, EncodeGemmCurve(std::vector<double>(3, std::log(1.1))));
  profile.tables.front().trend_library = KernelLibrary::kSglang;
  profile.tables.front().trend_share = share;
  trend.library = KernelLibrary::kSglang;
  trend.m = {1, 16, 64, 128, 1024};
  trend.curves.assign(
      4, EncodeGemmCurve(std::vector<double>({0, 0, std::log(1.2), std::log(1.2), 0})));
  profile.tables.push_back(trend);
  return profile;
}

TEST(GemmModelTest, TimesBetweenMeasuredMFollowTheTrend) {
  const GemmShape between{.m = 128, .n = 1024, .k = 1024};
  for (const double share : {0.0, 0.5, 1.0}) {
    const GemmModel model(IdealHardware(), TrendProfile(share));
    EXPECT_NEAR(RatioToClosedForm(model, between), 1.1 * std::pow(1.2, share), 0.01) << share;
    EXPECT_NEAR(RatioToClosedForm(model, {.m = 16, .n = 1024, .k = 1024}), 1.1, 0.01) << share;
  }
}

TEST(GemmModelTest, OnlyTheLibraryThatHasATrendFollowsIt) {
  const GemmModel sglang(IdealHardware(), TrendProfile(1), KernelLibrary::kSglang);
  EXPECT_NEAR(RatioToClosedForm(sglang, {.m = 128, .n = 1024, .k = 1024}), 1.2, 0.01);
  // TensorRT-LLM has no table: vLLM's, with its trend.
  const GemmModel other(IdealHardware(), TrendProfile(1), KernelLibrary::kTrtllm);
  EXPECT_NEAR(RatioToClosedForm(other, {.m = 128, .n = 1024, .k = 1024}), 1.32, 0.01);
}

TEST(GemmModelTest, IntervalsAreWiderWhereTheTrendIsUnsureToo) {
  const GemmModel model(IdealHardware(), TrendProfile(1));
  const auto log_sd = [&](std::int64_t m) { return model({.m = m, .n = 1024, .k = 1024}).log_sd; };
  const GemmModel without(IdealHardware(), TrendProfile(0));
  EXPECT_EQ(log_sd(16), without({.m = 16, .n = 1024, .k = 1024}).log_sd);
  EXPECT_EQ(log_sd(128), without({.m = 128, .n = 1024, .k = 1024}).log_sd);
  EXPECT_GT(log_sd(500), without({.m = 500, .n = 1024, .k = 1024}).log_sd);
}

// 8,192 columns rest on a call of 4,096, which takes half of the time, and a quarter with twice the
// rows that were measured.
TEST(GemmModelTest, TimesBeyondTheTableRestOnItsLargestCalls) {
  GemmProfile profile = TwoLevelProfile();
  profile.tables.front().calls = {.untimed = 3, .timed = 6};
  const GemmModel model(IdealHardware(), profile);
  const GemmCurve inside = model.Curve(2048, 2048);
  EXPECT_EQ(inside.calls(), (BackToBackCalls{.untimed = 3, .timed = 6}));
  EXPECT_EQ(inside.MeasuredCall(500), inside(500).seconds);
  const GemmCurve beyond = model.Curve(8192, 2048);
  EXPECT_DOUBLE_EQ(beyond.MeasuredCall(1024), beyond(1024).seconds / 2);
  EXPECT_DOUBLE_EQ(beyond.MeasuredCall(2048), beyond(2048).seconds / 4);
  EXPECT_EQ(GemmModel(IdealHardware()).Curve(2048, 2048).calls(), BackToBackCalls{});
}

TEST(GemmModelTest, OtherSizesLieBetweenTheirNeighbours) {
  const GemmModel model(IdealHardware(), TwoLevelProfile());
  EXPECT_NEAR(RatioToClosedForm(model, {.m = 16, .n = 2048, .k = 2048}), std::sqrt(1.1 * 1.2),
              0.01);
  EXPECT_NEAR(RatioToClosedForm(model, {.m = 500, .n = 1024, .k = 1024}), 1.1, 0.01);
}

// Weights that go on beyond the smallest sizes would go on with the trend as well: 1.1 at n = 1024
// and 1.2 at 4096 would be less than 1.1 at 32.
TEST(GemmModelTest, SizesBelowAllMeasuredOnesTakeTheRatioOfTheSmallest) {
  for (const auto between : {GemmBetweenShapes::kNear, GemmBetweenShapes::kPooled}) {
    GemmProfile profile = TwoLevelProfile();
    profile.tables.front().between_shapes = between;
    const GemmModel model(IdealHardware(), profile);
    EXPECT_NEAR(RatioToClosedForm(model, {.m = 128, .n = 32, .k = 1024}), 1.1, 0.01);
    EXPECT_NEAR(RatioToClosedForm(model, {.m = 128, .n = 4096, .k = 32}), 1.2, 0.01);
    EXPECT_GT(model({.m = 128, .n = 32, .k = 1024}).log_sd,
              model({.m = 128, .n = 512, .k = 1024}).log_sd);
  }
}

TEST(GemmModelTest, IntervalsWidenWithTheDistanceFromMeasurements) {
  const GemmModel model(IdealHardware(), TwoLevelProfile());
  const double at = model({.m = 16, .n = 1024, .k = 1024}).log_sd;
  const double near = model({.m = 16, .n = 1280, .k = 1024}).log_sd;
  const double far = model({.m = 16, .n = 65536, .k = 1024}).log_sd;
  EXPECT_LT(at, near);
  EXPECT_LT(near, far);
  EXPECT_LT(at, model({.m = 500, .n = 1024, .k = 1024}).log_sd);
  EXPECT_GT(GemmModel(IdealHardware())({.m = 16, .n = 1024, .k = 1024}).log_sd, far);
}

// Over many m, the errors of one (n, k) average out in part.
TEST(GemmModelTest, ARunSeesLessErrorThanASingleProduct) {
  const GemmModel model(IdealHardware(), TwoLevelProfile());
  const TimeEstimate at = model({.m = 16, .n = 1024, .k = 1024});
  const TimeEstimate far = model({.m = 500, .n = 65536, .k = 1024});
  EXPECT_LT(far.lasting_sd, far.log_sd);
  EXPECT_GT(far.lasting_sd, at.lasting_sd);
}

TEST(GemmModelTest, ALibraryWithoutTableTakesVllmsWithAWiderInterval) {
  const GemmShape shape{.m = 16, .n = 1024, .k = 1024};
  const GemmModel vllm(IdealHardware(), TwoLevelProfile());
  const GemmModel other(IdealHardware(), TwoLevelProfile(), KernelLibrary::kTrtllm);
  EXPECT_EQ(other(shape).seconds, vllm(shape).seconds);
  EXPECT_GT(other(shape).log_sd, vllm(shape).log_sd);
}

TEST(GemmModelTest, ColdWeightsAreReadFromMemory) {
  HardwareSpec hardware = IdealHardware();
  hardware.l2_bytes = 1'000'000'000;
  GemmProfile profile;
  profile.fits.push_back(
      {.format = GemmFormat::kBf16, .coefficients = IdealCoefficients(), .log_sd = 0.1});
  const GemmCurve curve = GemmModel(hardware, profile).Curve(8192, 8192);
  EXPECT_LT(curve(1).seconds, 3e-6);  // 16 rows at 1 PFLOP/s: 2.1 us
  EXPECT_NEAR(curve.EstimateFromMemory(1).seconds, 134.2e-6, 1e-6);
  EXPECT_NEAR(ProductCurve(curve)(1).seconds, 134.2e-6, 1e-6);  // of a model
}

TEST(GemmProfileTest, TablesThatDoNotFitTogetherAreRefused) {
  GemmProfile profile = TwoLevelProfile();
  EXPECT_NO_THROW(Validate(profile));
  profile.tables[0].curves[1] = "abc";
  EXPECT_THAT([&] { Validate(profile); },
              ThrowsMessage<InputError>(HasSubstr("tables[0].curves: curve 1 has 3 characters")));
  profile = TwoLevelProfile();
  profile.tables[0].curves.pop_back();
  EXPECT_THAT([&] { Validate(profile); }, ThrowsMessage<InputError>(HasSubstr("allowed: 4, one")));
  profile = TwoLevelProfile();
  profile.tables[0].m = {1, 16, 16, 1024};
  EXPECT_THAT([&] { Validate(profile); },
              ThrowsMessage<InputError>(HasSubstr("tables[0].m: is no")));
  profile = TrendProfile(0.5);
  EXPECT_NO_THROW(Validate(profile));
  profile.tables[1].trend_share = 0.5;
  EXPECT_THAT([&] { Validate(profile); },
              ThrowsMessage<InputError>(HasSubstr("tables[0].trend_library: names no trend")));
  profile = TrendProfile(0.5);
  profile.tables[0].trend_library = KernelLibrary::kVllm;
  EXPECT_THAT([&] { Validate(profile); },
              ThrowsMessage<InputError>(HasSubstr("tables[0].trend_library")));
  profile = TwoLevelProfile();
  profile.fits.clear();
  EXPECT_THAT([&] { Validate(profile); }, ThrowsMessage<InputError>(HasSubstr("has no fit")));
}

}  // namespace
}  // namespace twin::sim
