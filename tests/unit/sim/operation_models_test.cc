// Latent, sparse and linear attention, mixtures by library: work by hand, tables, fallbacks.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "sim/devices/operations/experts_model.h"
#include "sim/devices/operations/latent_attention_model.h"
#include "sim/devices/operations/measured_operation.h"
#include "sim/devices/operations/operation_kinds.h"
#include "sim/devices/operations/operation_table.h"
#include "sim/devices/operations/recurrent_model.h"
#include "sim/devices/operations/sparse_attention_model.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

constexpr LatentSizes kR1{};
constexpr double kHeads = 128;

// DeepSeek-R1, 8,192 keys: 2 (576 + 512) operations for each head and key, 576 bytes of fp8.
TEST(LatentWorkTest, ADecodeReadsTheLatentCacheOnceForAllHeads) {
  const OperationWork fp8 = LatentGenerationWork(kR1, kHeads, 1, 8192, 1);
  EXPECT_DOUBLE_EQ(fp8.flops, 2176.0 * 8192 * 128);
  EXPECT_NEAR(fp8.flops, 2.282e9, 1e6);
  const double queries = 2 * kHeads * 1088;  // in, 576, and out, 512, of two bytes
  EXPECT_DOUBLE_EQ(fp8.bytes - queries, 4'718'592);
  const OperationWork bf16 = LatentGenerationWork(kR1, kHeads, 1, 8192, 2);
  EXPECT_DOUBLE_EQ(bf16.bytes - queries, 9'437'184);
}

// 2 x 128 heads x (192 + 128) for each of 8192 x 8193 / 2 pairs.
TEST(LatentWorkTest, APromptHasKeysAndValuesOfItsOwnForEachHead) {
  const OperationWork work = LatentContextWork(kR1, kHeads, 8192, 8192, 8192.0 * 8193 / 2);
  EXPECT_NEAR(work.flops, 2.749e12, 1e9);
}

// One product of 128 heads and 64 tokens: 2 x 64 x 128 x 512 x 128, weights of 16.8 MB in bf16.
TEST(LatentWorkTest, AbsorbedProductsReadTheirWeightsOnce) {
  const OperationWork work = AbsorbedProductWork(kR1, kHeads, 64, GemmFormat::kBf16);
  EXPECT_DOUBLE_EQ(work.flops, 2.0 * 64 * 128 * 512 * 128);
  EXPECT_DOUBLE_EQ(work.bytes, 2.0 * 128 * 512 * 128 + 2.0 * 64 * 128 * 640);
}

// 256 (1 - (1 - 8/256)^16) = 101.96, and so on.
TEST(ExpertsModelTest, FewTokensTouchFewExperts) {
  EXPECT_NEAR(DistinctExperts(256, 8, 16), 101.96, 0.01);
  EXPECT_NEAR(DistinctExperts(256, 8, 64), 222.4, 0.1);
  EXPECT_NEAR(DistinctExperts(128, 4, 16), 50.98, 0.01);
}

// The ideal device: 1 TB/s. 64 tokens touch 222.4 experts of 3 x 7168 x 2048 bytes.
TEST(ExpertsModelTest, WithoutATableTheWeightsOfTouchedExpertsAreRead) {
  const ExpertsModel model(IdealHardware(), {7168, 2048, 8, 256, 1, 1}, GemmFormat::kFp8Block,
                           KernelLibrary::kVllm);
  EXPECT_FALSE(model.measured());
  EXPECT_NEAR(model(64).seconds, 222.4 * 44'040'192 / 1e12, 3e-4);
  // A rank of 8 holds and reads an eighth.
  const ExpertsModel rank(IdealHardware(), {7168, 2048, 8, 256, 1, 8}, GemmFormat::kFp8Block,
                          KernelLibrary::kVllm);
  EXPECT_NEAR(rank(64).seconds, model(64).seconds / 8, 4e-5);
}

// A table of experts in blocks of fp8 whose calls take `ratio` x their closed form.
OperationTable TableOf(const std::string& kind, KernelLibrary library, const std::string& kernel,
                       const std::vector<double>& shape, double ratio) {
  return {.kind = kind,
          .library = library,
          .variant = "fp8_block power_law_1.01 " + kernel,
          .coefficients = {},
          .rows = {PrintOperationRow({shape, {std::log(ratio)}}, {{1}, {1}, {64}})}};
}

// Two kernels of vLLM, one measured with divided experts, one with whole ones, and one of SGLang.
TEST(ExpertsModelTest, KernelsCountWhereTheyWereMeasured) {
  const std::vector<double> divided = {7168, 2048, 8, 256, 2, 1};
  const std::vector<double> whole = {7168, 2048, 8, 256, 1, 2};
  const OperationProfile profile{
      {{{1}, {1}, {64}}},
      {TableOf("moe_vllm", KernelLibrary::kVllm, "triton", divided, 3),
       TableOf("moe_vllm", KernelLibrary::kVllm, "cutlass", whole, 2),
       TableOf("moe_sglang", KernelLibrary::kSglang, "trtllm", {7168, 2048, 8, 256, 4, 1}, 1.5)}};
  const auto ratio = [&](const ExpertSizes& sizes, ExpertsKernel kernel) {
    const ExpertsModel measured(IdealHardware(), sizes, GemmFormat::kFp8Block, KernelLibrary::kVllm,
                                profile, kernel);
    const ExpertsModel closed(IdealHardware(), sizes, GemmFormat::kFp8Block, KernelLibrary::kVllm);
    return measured(64).seconds / closed(64).seconds;
  };
  // Ratios to each other: rows are stored as text, to 5 % a character.
  const double triton = ratio({7168, 2048, 8, 256, 2, 1}, ExpertsKernel::kAny);
  const double cutlass = ratio({7168, 2048, 8, 256, 1, 2}, ExpertsKernel::kAny);
  EXPECT_NEAR(triton / cutlass, 3.0 / 2, 0.1);
  // Another model's experts, divided by two.
  EXPECT_NEAR(ratio({4096, 1536, 8, 128, 2, 1}, ExpertsKernel::kAny) / triton, 1, 0.05);
  // The server is told its kernel.
  EXPECT_NEAR(ratio({7168, 2048, 8, 256, 2, 1}, ExpertsKernel::kCutlass) / cutlass, 1, 0.05);
  EXPECT_NEAR(cutlass / ratio({7168, 2048, 8, 256, 2, 1}, ExpertsKernel::kTrtllmGen), 2 / 1.5, 0.1);
  // Nobody measured such a kernel.
  EXPECT_EQ(ratio({7168, 2048, 8, 256, 2, 1}, ExpertsKernel::kDeepGemm), triton);
}

TEST(LatentAttentionModelTest, WithoutATableTheClosedFormCounts) {
  const LatentAttentionModel model(IdealHardware(),
                                   {.sizes = kR1, .heads = 128, .cache_dtype = DType::kBf16},
                                   KernelLibrary::kSglang);
  // Memory 9.44 MB + 0.28 MB at 1 TB/s and 2.28 GFLOP at 1 PFLOP/s, added as squares.
  const TimeEstimate one = model(GenerationAttention{.requests = 1, .context_tokens = 8192});
  EXPECT_NEAR(one.seconds, std::hypot(9.716e-6, 2.282e-6), 1e-8);
  EXPECT_GT(one.log_sd, 0.2);
  EXPECT_EQ(model(GenerationAttention{}).seconds, 0);
  EXPECT_EQ(model(ContextAttention{}).seconds, 0);
  EXPECT_NEAR(
      model(ContextAttention{
                .chunks = 1, .tokens = 8192, .context_tokens = 8192, .pairs = 8192.0 * 8193 / 2})
          .seconds,
      std::hypot(2.749e-3, 1.342e-3), 1e-6);
  EXPECT_GT(model.AbsorbedProducts(64).seconds, 2 * 2 * 128.0 * 512 * 128 / 1e12);
}

// GDN of Qwen3-Next: 32 heads with states of 128 x 128 in four bytes, read and written.
TEST(RecurrentModelTest, ADecodeReadsAndWritesItsState) {
  const RecurrentModel model(
      IdealHardware(), {.kind = RecurrentKind::kGatedDelta, .key_heads = 16, .value_heads = 32},
      KernelLibrary::kVllm);
  const double state = 32.0 * 128 * 128 * 4;
  EXPECT_NEAR(model.Generation(256).seconds, 256 * 2 * state / 1e12, 1e-4);
  EXPECT_GT(model.Generation(256).seconds, 256 * 2 * state / 1e12);
  EXPECT_EQ(model.Generation(0).seconds, 0);
  EXPECT_GT(model.Context(1, 8192).seconds, model.Context(1, 4096).seconds);
}

// 64 heads of 128 against 8,192 keys: 2 x 64 x 128 x 8192 operations, 132 bytes for a key.
TEST(SparseAttentionModelTest, TheIndexReadsAllKeysAndTheAttentionTheChosen) {
  const OperationWork index = IndexLogitsWork(64, 128, 1, 8192, 8192);
  EXPECT_DOUBLE_EQ(index.flops, 2.0 * 64 * 128 * 8192);
  EXPECT_DOUBLE_EQ(index.bytes, 132.0 * 8192 + 4 * 8192 + 64 * 128);
  const SparseAttentionModel model(IdealHardware(), {.sizes = kR1, .heads = 128},
                                   KernelLibrary::kSglang);
  const auto decode = [](double keys) {
    return GenerationAttention{.requests = 64, .context_tokens = 64 * keys};
  };
  EXPECT_DOUBLE_EQ(model.Attention(decode(4096)).seconds, model.Attention(decode(8192)).seconds);
  EXPECT_GT(model.Index(decode(8192)).seconds, 1.9 * model.Index(decode(4096)).seconds);
}

OperationGrid SmallGrid() { return {{1}, {1, 8}, {128, 256, 512}}; }

TEST(OperationTableTest, ARowKeepsItsRatiosAndItsGaps) {
  const OperationRow row{{16}, {0.25, kNoMeasurement, -0.125, 0.5, 0.5, kNoMeasurement}};
  const OperationRow read = ParseOperationRow(PrintOperationRow(row, SmallGrid()), SmallGrid());
  EXPECT_EQ(read.shape, row.shape);
  for (std::size_t i = 0; i < row.log_ratios.size(); ++i) {
    if (std::isnan(row.log_ratios[i])) {
      EXPECT_TRUE(std::isnan(read.log_ratios[i])) << i;
    } else {
      EXPECT_NEAR(read.log_ratios[i], row.log_ratios[i], 0.02) << i;
    }
  }
}

TEST(OperationTableTest, CallsBetweenThoseMeasuredAreInterpolated) {
  const OperationSurface surface(SmallGrid(), {0, 0.2, 0.4, 1, 1.2, kNoMeasurement});
  EXPECT_DOUBLE_EQ(surface.At(1, 1, 256), 0.2);
  EXPECT_NEAR(surface.At(1, 1, 181), 0.1, 0.002);
  EXPECT_DOUBLE_EQ(surface.At(1, 8, 512), 1.2);  // the nearest call that was measured
  EXPECT_DOUBLE_EQ(surface.At(1, 8, 4096), 1.2);
}

TEST(OperationTableTest, MalformedRowsAreRefused) {
  EXPECT_THROW(ParseOperationRow("16", SmallGrid()), InputError);
  EXPECT_THROW(ParseOperationRow("16:", SmallGrid()), InputError);
  EXPECT_THROW(ParseOperationRow("x: PPP", SmallGrid()), InputError);
  EXPECT_THROW(ParseOperationRow("16: PPPP", SmallGrid()), InputError);
  EXPECT_THROW(ParseOperationRow("16: PPP PPP PPP", SmallGrid()), InputError);
}

// Tables of absorbed decodes that take twice, and four times, as long as their closed form.
OperationProfile TwoTables() {
  OperationProfile profile;
  profile.grids.push_back({{1}, {1}, {1024}});
  for (const double factor : {2.0, 4.0}) {
    OperationTable table;
    table.kind = "mla_generation_kernel";
    table.library = factor == 2 ? KernelLibrary::kSglang : KernelLibrary::kTrtllm;
    table.variant = "fp8 kernel";
    for (const double heads : {8, 32}) {
      table.rows.push_back(PrintOperationRow({{heads}, {std::log(factor)}}, profile.grids[0]));
    }
    profile.tables.push_back(table);
  }
  return profile;
}

TEST(MeasuredOperationTest, TheTableOfTheLibraryCorrectsTheClosedForm) {
  const OperationProfile profile = TwoTables();
  Validate(profile);
  const OperationKind& kind = *OperationKindOf("mla_generation_kernel");
  const std::array call = {1.0, 1024.0};
  const auto seconds = [&](KernelLibrary library, double heads, std::string_view variant) {
    return MeasuredOperation(IdealHardware(), kind, library, variant, {heads}, profile)(call);
  };
  const OperationForm form(IdealHardware(), OperationCoefficients{});
  const double closed = form.Seconds(LatentGenerationWork(kR1, 8, 1, 1024, 1));
  EXPECT_NEAR(seconds(KernelLibrary::kSglang, 8, "fp8").seconds, 2 * closed, 0.1 * closed);
  EXPECT_NEAR(seconds(KernelLibrary::kTrtllm, 8, "fp8").seconds, 4 * closed, 0.2 * closed);
  // Heads between those measured, with a wider interval.
  const double between = form.Seconds(LatentGenerationWork(kR1, 16, 1, 1024, 1));
  EXPECT_NEAR(seconds(KernelLibrary::kSglang, 16, "fp8").seconds, 2 * between, 0.1 * between);
  EXPECT_GT(seconds(KernelLibrary::kSglang, 16, "fp8").log_sd,
            seconds(KernelLibrary::kSglang, 8, "fp8").log_sd);
  // A library without a table takes another's.
  EXPECT_NEAR(seconds(KernelLibrary::kVllm, 8, "fp8").seconds, 2 * closed, 0.1 * closed);
}

TEST(MeasuredOperationTest, ProfilesWithUnknownKindsOrGridsAreRefused) {
  OperationProfile unknown = TwoTables();
  unknown.tables[1].kind = "mla";
  EXPECT_THROW(Validate(unknown), InputError);
  OperationProfile gridless = TwoTables();
  gridless.tables[0].grid = 3;
  EXPECT_THROW(Validate(gridless), InputError);
  OperationProfile sizes = TwoTables();
  sizes.tables[0].rows[0] = "8 8: P";
  EXPECT_THROW(Validate(sizes), InputError);
}

}  // namespace
}  // namespace twin::sim
