#include "sim/devices/operations/attention_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "sim/devices/operations/fit_attention.h"
#include "sim/devices/operations/unmeasured_device.h"

namespace twin::sim {
namespace {

// 100 multiprocessors, 1 TB/s (1e6 bytes per microsecond).
HardwareSpec Device() {
  HardwareSpec hardware;
  hardware.sm_count = 100;
  hardware.peak_bf16_flops = 300e12;
  hardware.memory_bandwidth_bytes_per_s = 1e12;
  return hardware;
}

// Reads 1e6 bytes per microsecond, and a thread block 1e4; nothing else costs time.
GenerationKernel ReadsOnly() {
  GenerationKernel kernel;
  kernel.launch = kernel.per_block = kernel.split = 1e-9;
  kernel.rate = 1e6;
  kernel.l2_rate = 4e6;
  kernel.key = 512 / 1e4;
  kernel.straggler = 512 / 1e4;
  kernel.l2_bytes = 1e6;
  kernel.multiprocessors = 100;
  return kernel;
}

// A tile takes 2 us and 0.01 us a key; nothing else costs time.
ContextKernel TilesOnly(double multiprocessors) {
  ContextKernel kernel;
  kernel.launch = kernel.per_request = 1e-9;
  kernel.write_rate = kernel.query_rate = kernel.l2_rate = 1e15;
  kernel.tile = 2;
  kernel.key = 0.01;
  kernel.sharpness = 6;
  kernel.multiprocessors = multiprocessors;
  return kernel;
}

// `requests` of 128 tokens on 4 query heads and one KV head of 128 numbers.
AttentionWork Prompts(double requests) {
  return {.requests = requests,
          .tokens = requests * 128,
          .context_tokens = requests * 128,
          .pairs = requests * 128 * 129 / 2,
          .context_max = 128,
          .query_heads = 4,
          .kv_heads = 1,
          .head_dim = 128};
}

// `requests` of `length` tokens on one KV head of 128 numbers: 512 bytes per token.
AttentionWork Decodes(double requests, double length) {
  return {.requests = requests,
          .tokens = requests,
          .context_tokens = requests * length,
          .pairs = requests * length,
          .context_max = length,
          .query_heads = 4,
          .kv_heads = 1,
          .head_dim = 128,
          .cold = true};
}

// 100 blocks are one wave: 1,000 keys of 512 bytes at 1e4 bytes per microsecond are 51.2 us, as
// long as all 51.2 MB at the memory's rate. The 101st block waits for a second wave: 102.4 us.
TEST(AttentionModelTest, TheFirstBlockBeyondAWaveOfDecodesTakesAnotherWave) {
  const GenerationKernel kernel = ReadsOnly();
  const double both_equal = 51.2 * std::pow(2, 0.25);
  EXPECT_NEAR(GenerationMicroseconds(kernel, Decodes(100, 1000)), both_equal, 1e-6);
  const double second = GenerationMicroseconds(kernel, Decodes(101, 1000));
  EXPECT_NEAR(second, std::pow(std::pow(102.4, 4) + std::pow(51.712, 4), 0.25), 1e-6);
}

// 10 requests of 1,024 tokens on 100 slots: 8 parts of 128 keys each (not 10: a part has 128 keys
// at least), 128 x 0.0512 = 6.55 us, beside 5.24 us of memory.
TEST(AttentionModelTest, FewDecodesAreSplitOverTheMultiprocessors) {
  const double memory = 10 * 1024 * 512 / 1e6;
  const double chain = 128 * 0.0512;
  EXPECT_NEAR(GenerationMicroseconds(ReadsOnly(), Decodes(10, 1024)),
              std::pow(std::pow(memory, 4) + std::pow(chain, 4), 0.25), 1e-6);
}

// 64 query heads of one KV head: 1 block per request if packed, as for 4 heads. Otherwise 64, which
// read 51.2 kB each: 200 requests are 128 waves of 5.12 us, longer than 655 MB from L2 at 4e6 bytes
// per microsecond (164 us).
TEST(AttentionModelTest, GroupsBeyondTheLargestThatIsPackedReadTheirKeysOncePerHead) {
  AttentionWork work = Decodes(200, 100);
  const double packed = GenerationMicroseconds(ReadsOnly(), work);
  work.query_heads = 64;
  EXPECT_EQ(GenerationMicroseconds(ReadsOnly(), work), packed);
  GenerationKernel kernel = ReadsOnly();
  kernel.packed_group_max = 32;
  const double chain = 128 * 5.12;
  const double again = 200 * 64 * 51200 / 4e6;
  EXPECT_NEAR(GenerationMicroseconds(kernel, work),
              std::pow(std::pow(chain, 4) + std::pow(again, 4), 0.25), 0.01);
  work.query_heads = 32;
  EXPECT_EQ(GenerationMicroseconds(kernel, work), packed);
}

TEST(AttentionModelTest, TheLongestRequestCostsItsKeysAboveTheMeanWhereNothingIsSplit) {
  AttentionWork work = Decodes(90, 1000);
  const double equal = GenerationMicroseconds(ReadsOnly(), work);
  work.context_max = 3000;
  EXPECT_NEAR(GenerationMicroseconds(ReadsOnly(), work) - equal, 2000 * 0.0512, 1e-6);
  AttentionWork split = Decodes(10, 1000);
  const double before = GenerationMicroseconds(ReadsOnly(), split);
  split.context_max = 3000;
  EXPECT_EQ(GenerationMicroseconds(ReadsOnly(), split), before);
}

TEST(AttentionModelTest, AnFp8CacheHasHalfTheBytes) {
  AttentionWork work = Decodes(100, 1000);
  EXPECT_EQ(GenerationBytes(work), 51.2e6);
  const double bf16 = GenerationMicroseconds(ReadsOnly(), work);
  work.kv_bytes = 1;
  EXPECT_EQ(GenerationBytes(work), 25.6e6);
  EXPECT_NEAR(GenerationMicroseconds(ReadsOnly(), work), bf16 / 2, 1e-6);
}

// A window of 512 keys of 4,096: as a context of 512.
TEST(AttentionModelTest, DecodesSeeNoKeysBeyondTheWindow) {
  AttentionWork work = Decodes(100, 4096);
  work.window = 512;
  EXPECT_NEAR(GenerationMicroseconds(ReadsOnly(), work),
              GenerationMicroseconds(ReadsOnly(), Decodes(100, 512)), 1e-6);
}

TEST(AttentionModelTest, OnlyARepeatedCallFindsASmallCacheInL2) {
  AttentionWork work = Decodes(100, 10);
  const double cold = GenerationMicroseconds(ReadsOnly(), work);
  work.cold = false;
  EXPECT_LT(GenerationMicroseconds(ReadsOnly(), work), cold);
}

// Tiles of 128 rows hold 32 tokens of 4 query heads: 128 tokens of 100 requests are 400 tiles with
// a mean of 64.5 + 15.5 keys, and 64 more for the last, partial block. Four to a multiprocessor.
TEST(AttentionModelTest, TilesOfPromptsFillTheMultiprocessors) {
  const ContextKernel kernel = TilesOnly(100);
  AttentionWork work = Prompts(100);
  const double all = 4 * (2 + 0.01 * (64.5 + 15.5 + 64));
  const double longest = 2 + 0.01 * (128 + 64);
  EXPECT_NEAR(ContextMicroseconds(kernel, work),
              std::pow(std::pow(all, 7) + std::pow(longest, 7), 1.0 / 7), 1e-3);
  work.window = 64;
  EXPECT_LT(ContextMicroseconds(kernel, work),
            std::pow(std::pow(all, 7) + std::pow(longest, 7), 1.0 / 7));
}

// Tiles of 64 rows, heads not packed: 128 tokens of 100 requests and 4 query heads are 800 tiles
// with a mean of 64.5 + 31.5 keys, and 64 more. 8 to a multiprocessor, two at a time.
TEST(ContextKernelTest, BlocksOfAMultiprocessorHideEachOthersFixedTime) {
  ContextKernel kernel = TilesOnly(100);
  kernel.packs_heads = false;
  kernel.tile_rows = 64;
  kernel.slots_per_multiprocessor = 2;
  const double all = 8 * (2 / 2.0 + 0.01 * (64.5 + 31.5 + 64));
  const double longest = 2 + 0.01 * (128 + 64);
  EXPECT_NEAR(ContextMicroseconds(kernel, Prompts(100)),
              std::pow(std::pow(all, 7) + std::pow(longest, 7), 1.0 / 7), 1e-3);
}

TEST(ContextKernelTest, DecodesOfAMixedCallAreTilesOfEachQueryHead) {
  ContextKernel kernel = TilesOnly(4);
  kernel.packs_heads = false;
  const AttentionWork chunk = Prompts(1);
  // 100 decodes of 1,000 keys and 4 query heads: 400 tiles of 2 + 0.01 (1000 + 64) on 4 SMs, beside
  // the 4 of the chunk, of 2 + 0.01 (64.5 + 63.5 + 64).
  const double all = (400 * 12.64 + 4 * 3.92) / 4;
  EXPECT_NEAR(MixedMicroseconds(kernel, chunk,
                                [] {
                                  AttentionWork decodes = Decodes(100, 1000);
                                  decodes.query_heads = 4;
                                  return decodes;
                                }()),
              all, 1e-3 * all);
}

TEST(AttentionModelTest, NothingToDoTakesNoTime) {
  const AttentionModel model(Device(), {.query_heads = 32, .kv_heads = 8, .head_dim = 128});
  EXPECT_EQ(model(ContextAttention{}).seconds, 0);
  EXPECT_EQ(model(GenerationAttention{}).seconds, 0);
  EXPECT_EQ(model(ContextAttention{}, GenerationAttention{}).seconds, 0);
}

TEST(AttentionModelTest, AMixedStepTakesLongerThanItsChunks) {
  const ContextAttention chunk{.chunks = 1,
                               .tokens = 512,
                               .context_tokens = 1024,
                               .pairs = 512 * 512 + 512 * 513 / 2.0,
                               .context_tokens_max = 1024};
  const GenerationAttention decodes{.requests = 16, .context_tokens = 16 * 1000};
  const AttentionHeads heads{.query_heads = 32, .kv_heads = 8, .head_dim = 128};
  HardwareSpec wide = Device();
  wide.peak_bf16_flops *= 3;  // its kernels pack heads and split decodes in every call
  const AttentionModel packed(wide, heads);
  EXPECT_GT(packed(chunk, decodes).seconds, packed(chunk).seconds);
  EXPECT_LT(packed(chunk, decodes).seconds, packed(chunk).seconds + 1.1 * packed(decodes).seconds);
  const AttentionModel unpacked(Device(), heads);
  EXPECT_GT(unpacked(chunk, decodes).seconds, unpacked(chunk).seconds + unpacked(decodes).seconds);
}

// Three pairs of heads whose times are twice the closed form: the fourth is, too.
TEST(AttentionModelTest, HeadsThatWereNotMeasuredInheritFromTheirNeighbors) {
  std::vector<AttentionMeasurement> measurements;
  for (const std::int32_t kv_heads : {1, 2, 8}) {
    for (const std::uint32_t batch : {1U, 4U, 16U, 64U}) {
      for (const std::uint32_t length : {64U, 256U, 1024U, 4096U}) {
        AttentionWork work = Decodes(batch, length);
        work.query_heads = 4.0 * kv_heads;
        work.kv_heads = kv_heads;
        work.cold = false;
        const double us = GenerationMicroseconds(GenerationKernelOf(Device()), work);
        measurements.push_back({4 * kv_heads, kv_heads, batch, length, 2 * us});
      }
    }
  }
  AttentionTable key;
  key.kind = AttentionKind::kGeneration;
  key.head_dim = 128;
  const AttentionFit fit = FitAttention(Device(), key, measurements, {});
  EXPECT_LT(fit.held_out_median, 0.02);
  AttentionProfile profile{.grids = {fit.grid}, .tables = {fit.table}};
  Validate(profile);
  const AttentionHeads heads{.query_heads = 16, .kv_heads = 4, .head_dim = 128};
  const AttentionModel fitted(Device(), heads, KernelLibrary::kVllm, profile);
  const AttentionModel unfitted(Device(), heads);
  const GenerationAttention work{
      .requests = 16, .context_tokens = 16 * 1024, .context_tokens_max = 1024, .cold = false};
  EXPECT_NEAR(fitted(work).seconds / unfitted(work).seconds, 2, 0.1);
  EXPECT_LT(fitted(work).log_sd, unfitted(work).log_sd);
}

// 1 and 2 KV heads were measured: calls of at least 128 thread blocks (requests x KV heads) take
// e^0.3 as long as the closed form, those of fewer e^-0.3. So do those of 16 heads.
TEST(AttentionModelTest, HeadsFarFromAllMeasuredOnesTakeCallsWithAsManyThreadBlocks) {
  const AttentionGrid grid{.batches = {1, 2, 4, 8, 16, 32, 64, 128, 256}, .lengths = {1024}};
  std::vector<AttentionRow> rows;
  for (const std::int32_t kv_heads : {1, 2}) {
    AttentionRow row{.query_heads = 4 * kv_heads, .kv_heads = kv_heads};
    for (const std::uint32_t batch : grid.batches) {
      row.log_ratios.push_back(batch * static_cast<std::uint32_t>(kv_heads) >= 128 ? 0.3 : -0.3);
    }
    rows.push_back(row);
  }
  AttentionTable table;
  table.kind = AttentionKind::kGeneration;
  table.head_dim = 128;
  table.batch_scale = 0.35;
  const AttentionCorrection correction(table, grid, rows, 64, 16);
  EXPECT_NEAR(correction(8, 1024).mean, 0.3, 0.01);
  EXPECT_NEAR(correction(4, 1024).mean, -0.3, 0.01);
}

// Two tables of decodes and two of prompts: without a window e^0.3 times the closed form up to
// 4,096 keys and e^0.8 beyond, with a window of 128 keys e^-0.5.
AttentionProfile TwoWindows() {
  AttentionProfile profile;
  profile.grids = {{.batches = {1, 64}, .lengths = {64, 4096, 8192, 65536}}};
  const AttentionRow full{4, 1, {0.3, 0.3, 0.8, 0.8, 0.3, 0.3, 0.8, 0.8}};
  const AttentionRow windowed{4, 1, std::vector<double>(8, -0.5)};
  for (const AttentionKind kind : {AttentionKind::kContext, AttentionKind::kGeneration}) {
    for (const std::int32_t window : {0, 128}) {
      AttentionTable table;
      table.kind = kind;
      table.head_dim = 128;
      table.window = window;
      table.spread = 0.02;
      table.context = TilesOnly(100);
      table.generation = ReadsOnly();
      table.rows = {PrintAttentionRow(profile.grids[0], window == 0 ? full : windowed)};
      profile.tables.push_back(table);
    }
  }
  return profile;
}

GenerationAttention DecodesOf(double length) { return {64, 64 * length, length, false}; }

ContextAttention PromptsOf(double length) {
  return {64, 64 * length, 64 * length, 32 * length * (length + 1), length};
}

// Mistral 7B sees 4,096 keys. Its steps used to take as long as with 128: 19 % too short (H100).
TEST(AttentionModelTest, CallsWithinAnUnmeasuredWindowTakeAsLongAsWithout) {
  HardwareSpec wide = Device();
  wide.peak_bf16_flops *= 3;  // FlashAttention 3
  AttentionHeads heads{.query_heads = 4, .kv_heads = 1, .head_dim = 128};
  const AttentionModel full(wide, heads, KernelLibrary::kVllm, TwoWindows());
  heads.window = 4096;
  const AttentionModel windowed(wide, heads, KernelLibrary::kVllm, TwoWindows());
  EXPECT_EQ(windowed(DecodesOf(1000)).seconds, full(DecodesOf(1000)).seconds);
  EXPECT_EQ(windowed(PromptsOf(1000)).seconds, full(PromptsOf(1000)).seconds);
  EXPECT_GT(windowed(DecodesOf(1000)).log_sd, full(DecodesOf(1000)).log_sd);
  // Longer ones see 4,096 keys, and so do their corrections.
  EXPECT_NEAR(windowed(DecodesOf(50e3)).seconds, full(DecodesOf(4096)).seconds, 1e-12);
}

// FlashAttention 2 decodes with any window in a kernel of its own.
TEST(AttentionModelTest, DecodesOfFlashAttention2TakeTablesWithAWindow) {
  HardwareSpec device = Device();
  device.memory_bandwidth_bytes_per_s *= 2;  // or no table could say 0.6 times the closed form
  AttentionHeads heads{.query_heads = 4, .kv_heads = 1, .head_dim = 128};
  const AttentionModel full(device, heads, KernelLibrary::kVllm, TwoWindows());
  heads.window = 4096;
  const AttentionModel windowed(device, heads, KernelLibrary::kVllm, TwoWindows());
  const double without = full(DecodesOf(1000)).seconds;
  EXPECT_NEAR(std::log(windowed(DecodesOf(1000)).seconds / without), -0.8, 0.02);
  EXPECT_EQ(windowed(PromptsOf(1000)).seconds, full(PromptsOf(1000)).seconds);
}

// Half the head size and a cache in another format used to widen intervals to factors of 60.
TEST(AttentionModelTest, TablesOfOtherKernelsAreNoLessCertainThanNone) {
  const AttentionHeads far{96, 96, 64, DType::kFp8};
  const AttentionModel model(Device(), far, KernelLibrary::kVllm, TwoWindows());
  const AttentionModel unmeasured(Device(), far);
  EXPECT_LT(model(DecodesOf(1000)).log_sd, 1.2 * unmeasured(DecodesOf(1000)).log_sd);
  EXPECT_GT(model(DecodesOf(1000)).log_sd, 0.25);
}

// 400 requests are not split on 200 slots. The longest has 1,000 keys above the mean, of 512 bytes.
TEST(AttentionModelTest, OnlyKernelsThatStartInTheOrderOfTheBatchWaitForTheLongestRequest) {
  const AttentionHeads heads{.query_heads = 4, .kv_heads = 1, .head_dim = 128};
  const auto added_us = [&](const HardwareSpec& device, KernelLibrary library,
                            const AttentionProfile& profile = {}) {
    const AttentionModel model(device, heads, library, profile);
    const GenerationAttention equal{
        .requests = 400, .context_tokens = 400e3, .context_tokens_max = 1000};
    GenerationAttention unequal = equal;
    unequal.context_tokens_max = 2000;
    return 1e6 * (model(unequal).seconds - model(equal).seconds);
  };
  HardwareSpec wide = Device();
  wide.peak_bf16_flops *= 3;
  EXPECT_NEAR(added_us(Device(), KernelLibrary::kVllm), 24, 1e-6);
  EXPECT_EQ(added_us(wide, KernelLibrary::kVllm), 0);
  EXPECT_EQ(added_us(wide, KernelLibrary::kSglang), 0);
  EXPECT_NEAR(added_us(wide, KernelLibrary::kTrtllm), 24, 1e-6);
  EXPECT_NEAR(added_us(wide, KernelLibrary::kVllm, {.straggler_us_per_key = 0.01}), 10, 1e-6);
}

TEST(AttentionModelTest, RowsOfATableReadAsTheyWereWritten) {
  const AttentionGrid grid{.batches = {1, 2, 4}, .lengths = {16, 64}};
  AttentionRow row{.query_heads = 8, .kv_heads = 2};
  const double missing = std::nan("");
  row.log_ratios = {0, 0.1, missing, -0.5, missing, missing};
  const std::string text = PrintAttentionRow(grid, row);
  const AttentionRow read = ParseAttentionRow(grid, text, "test");
  EXPECT_EQ(read.query_heads, 8);
  EXPECT_EQ(read.kv_heads, 2);
  EXPECT_EQ(read.log_ratios[0], 0);
  EXPECT_NEAR(read.log_ratios[1], 0.1, 0.006);
  EXPECT_TRUE(std::isnan(read.log_ratios[2]));
  EXPECT_NEAR(read.log_ratios[3], -0.5, 0.021);
  EXPECT_TRUE(std::isnan(read.log_ratios[5]));
  EXPECT_EQ(PrintAttentionRow(grid, read), text);
}

TEST(AttentionModelTest, RefusesMalformedTables) {
  AttentionTable table;
  table.head_dim = 128;
  const auto refuses = [](const AttentionTable& bad) {
    try {
      Validate(AttentionProfile{.grids = {{{1, 2}, {16, 64}}}, .tables = {bad}});
    } catch (const InputError&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refuses(table));
  for (const char* row : {"8", "8/3 HH", "0/1 HH", "8/2 HHH", "8/2 H\x01", "8/2 H H H"}) {
    AttentionTable bad = table;
    bad.rows = {row};
    EXPECT_TRUE(refuses(bad)) << row;
  }
  AttentionTable bad = table;
  bad.base = 0;  // itself
  EXPECT_TRUE(refuses(bad));
  bad = table;
  bad.grid = 1;
  bad.rows = {"8/2 H"};
  EXPECT_TRUE(refuses(bad));
  bad = table;
  bad.context.key = 0;
  EXPECT_TRUE(refuses(bad));
}

}  // namespace
}  // namespace twin::sim
