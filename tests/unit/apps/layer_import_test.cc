// Profiles of attention and collectives from measured tables: aiconfigurator, LLMServingSim, Vidur.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "apps/predict/attention_import.h"
#include "apps/predict/collective_import.h"
#include "apps/predict/import_databases.h"
#include "apps/predict/layer_attention_import.h"
#include "apps/predict/memory_bound_fit.h"
#include "config/hardware_file.h"
#include "config/profile_folder.h"
#include "config/text_message.h"
#include "core/input_error.h"
#include "sim/devices/operations/attention_model.h"
#include "sim/devices/operations/collective_model.h"
#include "sim/devices/operations/gemm_model.h"
#include "tests/support/unique_name.h"
#include "tests/unit/run/reports.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class LayerImportTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("layer_import_test");
};

TEST_F(LayerImportTest, MeasuredAttentionIsReproduced) {
  std::string text =
      "backend,version,attn_dtype,kv_dtype,num_heads,num_kv_heads,head_dim,window,batch,kv_len,"
      "latency_us\n";
  // 10 us and 1 us for each 4,096 tokens, for two pairs of heads.
  for (const char* heads : {"32,8", "16,4"}) {
    for (const int batch : {1, 8, 64}) {
      for (const int length : {512, 1024, 2048, 4096}) {
        text += "vllm,1.0,bfloat16,bfloat16," + std::string(heads) + ",128,0," +
                std::to_string(batch) + "," + std::to_string(length) + "," +
                std::to_string(10 + batch * length / 4096.0) + "\n";
      }
    }
  }
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  sim::AttentionProfile profile;
  const AttentionImport import =
      ImportAttention(hardware, sim::AttentionKind::kGeneration,
                      Write("generation_attention_x.csv", text), profile, RunControl());
  EXPECT_EQ(import.versions, std::vector<std::string>{"vllm 1.0"});
  ASSERT_EQ(profile.tables.size(), 1U);
  const sim::AttentionModel model(hardware, {.query_heads = 32, .kv_heads = 8, .head_dim = 128},
                                  sim::KernelLibrary::kVllm, profile);
  const sim::GenerationAttention work{
      .requests = 64, .context_tokens = 64 * 2048, .context_tokens_max = 2048, .cold = false};
  EXPECT_NEAR(model(work).seconds, 42e-6, 2e-6);
  Write("bad.csv",
        "backend,version,attn_dtype,kv_dtype,num_heads,num_kv_heads,head_dim,window,batch,kv_len,"
        "latency_us\nvllm,1.0,bfloat16,bfloat16,30,8,128,0,1,512,9\n");
  EXPECT_THROW(ImportAttention(hardware, sim::AttentionKind::kGeneration,
                               (folder_ / "bad.csv").string(), profile, RunControl()),
               InputError);
}

// Decodes of 20 pairs of heads with caches of both formats. Seven pairs of the second format were
// kept once, and the others predicted from them.
TEST_F(LayerImportTest, EveryMeasuredPairOfHeadsIsKept) {
  std::string text =
      "backend,version,attn_dtype,kv_dtype,num_heads,num_kv_heads,head_dim,window,batch,kv_len,"
      "latency_us\n";
  for (const char* cache : {"bfloat16", "fp8"}) {
    for (int heads = 1; heads <= 20; ++heads) {
      for (const int batch : {1, 8}) {
        for (const int length : {512, 2048}) {
          text += fmt::format("vllm,1.0,bfloat16,{},{},1,128,0,{},{},{}\n", cache, heads, batch,
                              length, 10 + heads + batch * length / 4096.0);
        }
      }
    }
  }
  const std::string file = Write("generation_attention_x.csv", text);
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  sim::AttentionProfile profile;
  const AttentionImport import =
      ImportAttention(hardware, sim::AttentionKind::kGeneration, file, profile, RunControl());
  EXPECT_THAT(import.report.front(), HasSubstr("generation vllm bf16/bf16 128 0: 80, "));
  ASSERT_EQ(profile.tables.size(), 2U);
  for (const sim::AttentionTable& table : profile.tables) {
    EXPECT_EQ(table.rows.size(), 20U) << Name(table.kv_dtype);
  }
}

// They were cut without a word.
TEST_F(LayerImportTest, MeasurementsTooFarFromTheClosedFormAreReported) {
  std::string text =
      "backend,version,attn_dtype,kv_dtype,num_heads,num_kv_heads,head_dim,window,batch,kv_len,"
      "latency_us\n";
  for (const int batch : {1, 8, 64}) {
    for (const int length : {512, 1024, 2048, 4096}) {
      const double usual = 10 + batch * length / 4096.0;
      const double measured = batch == 8 && length == 1024 ? 50 * usual : usual;
      text +=
          fmt::format("vllm,1.0,bfloat16,bfloat16,32,8,128,0,{},{},{}\n", batch, length, measured);
    }
  }
  sim::AttentionProfile profile;
  const AttentionImport import =
      ImportAttention(HardwarePreset("h100-sxm"), sim::AttentionKind::kGeneration,
                      Write("generation_attention_cut.csv", text), profile, RunControl());
  ASSERT_EQ(import.warnings.size(), 1U);
  EXPECT_THAT(import.warnings.front(),
              ::testing::HasSubstr("generation vllm bf16/bf16 128 0: measurements cut"));
}

TEST_F(LayerImportTest, VersionsOfACollectiveBecomeTheirGeometricMean) {
  const std::string path = Write("comm_x.csv",
                                 "impl,version,op,dtype,num_gpus,bytes,latency_us\n"
                                 "nccl,1.0,all_reduce,half,2,1024,8\n"
                                 "nccl,2.0,all_reduce,half,2,1024,18\n"
                                 "nccl,1.0,all_reduce,half,2,4096,20\n"
                                 "vllm_eager,1.0,all_reduce,half,2,1024,99\n");
  const CollectiveImport import = ImportCollectives(path, RunControl());
  EXPECT_EQ(import.versions, (std::vector<std::string>{"nccl 1.0", "nccl 2.0"}));
  ASSERT_EQ(import.profile.curves.size(), 1U);
  EXPECT_THAT(import.profile.curves[0].microseconds, ::testing::ElementsAre(12, 20));
  // ln 18 / 8 is 0.81: half of it on either side, at one of two payloads.
  EXPECT_NEAR(import.profile.curves[0].spread, 0.405 / std::sqrt(2), 0.002);
}

// A message takes no longer than larger ones: 8, 32 and 9 us are 8, 8.49 and 9. The largest has no
// larger one beside it, and 11 is no spike between 9 and 40.
TEST_F(LayerImportTest, SpikesOfACollectiveAreDrawnFromTheirNeighbors) {
  const std::string path = Write("comm_x.csv",
                                 "impl,version,op,dtype,num_gpus,bytes,latency_us\n"
                                 "nccl,1.0,all_reduce,half,2,1024,8\n"
                                 "nccl,1.0,all_reduce,half,2,2048,32\n"
                                 "nccl,1.0,all_reduce,half,2,4096,9\n"
                                 "nccl,1.0,all_reduce,half,2,8192,11\n"
                                 "nccl,1.0,all_reduce,half,2,16384,40\n");
  EXPECT_THAT(ImportCollectives(path, RunControl()).profile.curves.at(0).microseconds,
              ::testing::ElementsAre(8, ::testing::DoubleNear(8.485, 1e-9), 9, 11, 40));
}

// Chunks take 20 us and 0.1 per token; decodes alone are quick, but in a call with a chunk each
// takes as long as a tile of the chunk.
TEST_F(LayerImportTest, MixedCallsSayWhatDecodesCostBesideAChunk) {
  const HardwareSpec hardware = HardwarePreset("rtx-4090");
  sim::ContextKernel truth = sim::ContextKernel{};
  truth.launch = 5;
  truth.packs_heads = false;
  truth.multiprocessors = 128;
  std::vector<LayerCall> calls;
  const auto work = [](double requests, double tokens, double context) {
    return sim::AttentionWork{.requests = requests,
                              .tokens = requests * tokens,
                              .context_tokens = requests * context,
                              .pairs = requests * tokens * (context - (tokens - 1) / 2),
                              .context_max = context,
                              .query_heads = 32,
                              .kv_heads = 8,
                              .head_dim = 128};
  };
  for (const std::uint32_t chunk : {64U, 256U, 1024U, 2048U}) {
    LayerCall call{.query_heads = 32, .kv_heads = 8, .chunk = chunk};
    call.microseconds = sim::ContextMicroseconds(truth, work(1, chunk, chunk));
    calls.push_back(call);
    for (const std::uint32_t decodes : {8U, 64U}) {
      call.decodes = decodes;
      call.context = 2048;
      call.microseconds =
          sim::MixedMicroseconds(truth, work(1, chunk, chunk), work(decodes, 1, 2048));
      calls.push_back(call);
    }
  }
  for (const std::uint32_t decodes : {1U, 8U, 64U}) {
    for (const std::uint32_t context : {512U, 2048U}) {
      calls.push_back({.query_heads = 32,
                       .kv_heads = 8,
                       .decodes = decodes,
                       .context = context,
                       .microseconds = 8 + context * 0.01});
    }
  }
  const LayerAttentionImport import =
      ImportLayerAttention(hardware, 128, calls, "here", RunControl());
  ASSERT_EQ(import.profile.tables.size(), 2U);
  EXPECT_FALSE(import.profile.tables[0].context.packs_heads);
  EXPECT_NEAR(import.profile.mixed_factor, 1, 0.25);
  EXPECT_THAT([&] { ImportLayerAttention(hardware, 128, {calls.front()}, "here", RunControl()); },
              ThrowsMessage<InputError>(HasSubstr("lacks calls")));
}

TEST_F(LayerImportTest, VidursTablesBecomeProfiles) {
  std::string dense =
      "gpu,model,tp,n_embd,n_head,n_kv_head,ffn,vocab,gated,num_tokens,attn_pre_proj_us,"
      "attn_post_proj_us,mlp_up_proj_us,mlp_down_proj_us\n";
  for (const int m : {1, 16, 256, 1024}) {
    const std::string us = std::to_string(100 + m);
    dense += "a30,x,2,4096,32,8,14336,128256,True," + std::to_string(m) + "," + us + "," + us +
             "," + us + "," + (m == 16 ? "" : us) + "\n";
    dense += "x40,x,2,4096,32,8,14336,128256,True," + std::to_string(m) + ",1,1,1,1\n";
  }
  Write("dense_ops.csv", dense);
  std::string attention =
      "gpu,model,tp,n_q_head_total,n_kv_head_total,n_embd,backend,is_prefill,batch_size,"
      "prefill_chunk,kv_cache_len,attn_prefill_us,attn_decode_us,attn_kv_cache_save_us\n";
  for (const int length : {64, 256, 1024}) {
    attention += "a30,x,1,32,8,4096,FLASHINFER,1,1," + std::to_string(length) + ",0," +
                 std::to_string(20 + length / 4) + ",,\n";
    attention += "a30,x,1,32,8,4096,FLASHINFER,0,4,0," + std::to_string(length) + ",," +
                 std::to_string(10 + length / 64) + ",\n";
  }
  Write("attention.csv", attention);
  Write("network.csv",
        "system,op,num_workers,devices_per_node,bytes,latency_us\n"
        "h100_dgx,send_recv,2,2,2048,5\nh100_dgx,send_recv,2,2,2100,9\n"
        "h100_dgx,send_recv,2,2,1048576,12\nh100_dgx,send_recv,2,1,2048,50\n");
  RunControl control;
  ImportVidur(folder_, folder_ / "out", control);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "h100-sxm"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "out"), {}), 2);
  const sim::DeviceProfile a30 = ReadProfileFolder(folder_ / "out" / "a30");
  const HardwareSpec hardware = HardwarePreset("a30");
  // (16 + 2 x 4) heads of 128; 2 x 7,168 columns.
  const sim::GemmModel gemm(hardware, a30.gemm);
  EXPECT_NEAR(gemm({.m = 256, .n = 3072, .k = 4096}).seconds, 356e-6, 10e-6);
  EXPECT_NEAR(gemm({.m = 256, .n = 14336, .k = 4096}).seconds, 356e-6, 10e-6);
  const sim::AttentionModel model(hardware, {.query_heads = 32, .kv_heads = 8, .head_dim = 128},
                                  sim::KernelLibrary::kVllm, a30.attention);
  EXPECT_NEAR(model(sim::ContextAttention{.chunks = 1,
                                          .tokens = 256,
                                          .context_tokens = 256,
                                          .pairs = 256 * 257 / 2.0,
                                          .context_tokens_max = 256})
                  .seconds,
              84e-6, 4e-6);
  const sim::CollectiveModel links(HardwarePreset("h100-sxm"), sim::KernelLibrary::kVllm,
                                   ReadProfileFolder(folder_ / "out" / "h100-sxm").collectives);
  EXPECT_NEAR(links(sim::Collective::kSend, 2, 2048).seconds, 5e-6, 1e-9);
  EXPECT_NEAR(links(sim::Collective::kSend, 2, 1048576).seconds, 12e-6, 1e-9);
}

constexpr const char* kVidurAttention =
    "gpu,tp,n_q_head_total,n_kv_head_total,n_embd,batch_size,prefill_chunk,kv_cache_len,"
    "attn_prefill_us,attn_decode_us\n";

// Prompts of three lengths, and four decodes with three contexts.
std::string VidurCalls(const std::string& heads_and_hidden, int us) {
  std::string rows;
  for (const int length : {64, 256, 1024}) {
    rows += fmt::format("a30,1,{},1,{},0,{},\n", heads_and_hidden, length, us + length / 4);
    rows += fmt::format("a30,1,{},4,0,{},,{}\n", heads_and_hidden, length, us + length / 64);
  }
  return rows;
}

// The first row once decided which head dimension the profile was of, and the others vanished.
TEST_F(LayerImportTest, EveryHeadDimensionOfVidursTablesHasItsOwn) {
  const std::string wide = VidurCalls("32,8,4096", 20);
  const std::string narrow = VidurCalls("32,8,2048", 10);
  std::vector<std::string> profiles;
  for (const std::string& rows : {wide + narrow, narrow + wide}) {
    Write("attention.csv", kVidurAttention + rows);
    RunControl control;
    ImportVidur(folder_, folder_ / "out", control);
    std::ifstream in(folder_ / "out" / "a30" / "attention.textproto");
    profiles.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  EXPECT_EQ(profiles[0], profiles[1]);
  const sim::DeviceProfile a30 = ReadProfileFolder(folder_ / "out" / "a30");
  EXPECT_EQ(a30.attention.tables.size(), 4U);
  for (const auto& [head_dim, us] : {std::pair{64, 10}, std::pair{128, 20}}) {
    const sim::AttentionModel model(HardwarePreset("a30"),
                                    {.query_heads = 32, .kv_heads = 8, .head_dim = head_dim},
                                    sim::KernelLibrary::kVllm, a30.attention);
    const sim::GenerationAttention work{
        .requests = 4, .context_tokens = 4 * 1024, .context_tokens_max = 1024, .cold = false};
    EXPECT_NEAR(model(work).seconds, 1e-6 * (us + 16), 2e-6) << head_dim;
  }
}

TEST_F(LayerImportTest, SkippedRowsOfVidursTablesAreCounted) {
  Write("attention.csv", kVidurAttention + VidurCalls("32,8,4096", 20) +
                             "a30,1,32,8,2048,1,64,0,30,\n"
                             "a30,1,32,8,2048,1,96,0,30,\n"
                             "a30,1,32,8,4096,1,64,0,,\n"
                             "a30,1,32,8,4096,4,0,0,,9\n"
                             "x40,1,32,8,4096,4,0,0,,9\n"
                             "x40,1,32,8,4096,4,0,64,,9\n");
  Write("network.csv",
        "system,op,num_workers,devices_per_node,bytes,latency_us\n"
        "h100_dgx,send_recv,2,2,2048,5\nh100_dgx,send_recv,2,1,2048,50\n");
  Reports control;
  ImportVidur(folder_, folder_ / "out", control);
  using ::testing::EndsWith;
  EXPECT_THAT(control.warnings,
              ::testing::UnorderedElementsAre(
                  EndsWith("network.csv: skipped 1 rows of workers on several nodes"),
                  EndsWith("attention.csv: skipped 1 rows without attn_prefill_us"),
                  EndsWith("attention.csv: skipped 1 rows of decodes without context"),
                  EndsWith("attention.csv: skipped 2 rows of \"x40\", which has no data sheet"),
                  EndsWith("skipped 2 rows of a30 with heads of 64, which have no prompts or no "
                           "decodes")));
}

TEST_F(LayerImportTest, DevicesOfVidursTablesMayHaveAnyNameOfADataSheet) {
  Write("attention.csv", kVidurAttention + VidurCalls("32,8,4096", 20));
  std::string text = ReadTextFile(folder_ / "attention.csv");
  for (std::size_t at = 0; (at = text.find("\na30,", at)) != std::string::npos;) {
    text.replace(at + 1, 3, "NVIDIA A40");
  }
  Write("attention.csv", text);
  RunControl control;
  ImportVidur(folder_, folder_ / "out", control);
  EXPECT_EQ(ReadProfileFolder(folder_ / "out" / "a40").attention.tables.size(), 2U);
}

// It once succeeded and wrote nothing.
TEST_F(LayerImportTest, TablesOfUnknownDevicesAloneAreRefused) {
  Write("attention.csv", std::string(kVidurAttention) + "x40,1,32,8,4096,4,0,64,,9\n");
  RunControl control;
  EXPECT_THAT([&] { ImportVidur(folder_, folder_ / "out", control); },
              ThrowsMessage<InputError>(HasSubstr("holds no row of a device with a data sheet")));
}

// Times of two devices with one data sheet once overwrote each other.
TEST_F(LayerImportTest, TwoDevicesOfOnePresetAndRepeatedPayloadsAreRefused) {
  const std::string header = "system,op,num_workers,devices_per_node,bytes,latency_us\n";
  RunControl control;
  const auto import = [&] { ImportVidur(folder_, folder_ / "out", control); };
  Write("network.csv", header + "a100_dgx,send_recv,2,2,2048,5\na100,send_recv,2,2,4096,5\n");
  EXPECT_THAT(import, ThrowsMessage<InputError>(HasSubstr("\"a100_dgx\" in all rows of a100")));
  Write("network.csv", header + "a100_dgx,send_recv,2,2,2048,5\na100_dgx,send_recv,2,2,2048,6\n");
  EXPECT_THAT(import, ThrowsMessage<InputError>(HasSubstr("one row for each payload")));
}

TEST_F(LayerImportTest, AHiddenSizeThatItsHeadsDoNotDivideIsRefused) {
  Write("attention.csv", kVidurAttention + VidurCalls("32,8,4100", 20));
  RunControl control;
  EXPECT_THAT([&] { ImportVidur(folder_, folder_ / "out", control); },
              ThrowsMessage<InputError>(HasSubstr("a multiple of n_q_head_total")));
}

TEST_F(LayerImportTest, SmallKernelsHaveALatencyAndAShareOfTheBandwidth) {
  const HardwareSpec hardware = HardwarePreset("rtx-4090");
  std::vector<MemoryBoundRow> rows;
  // 2.5 us, and twice the memory's rate: the bytes come from L2.
  for (const double bytes : {1e4, 1e5, 1e6, 1e7, 1e8}) {
    rows.push_back({bytes, 2.5 + 1e6 * bytes / (2 * hardware.memory_bandwidth_bytes_per_s)});
  }
  const sim::MemoryBoundFit fit = FitMemoryBound(hardware, sim::MemoryBoundKernel::kNorm, rows);
  EXPECT_NEAR(fit.latency_us, 2.5, 0.05);
  EXPECT_NEAR(fit.bandwidth_fraction, 2, 0.05);
  EXPECT_LE(fit.spread, 0.03);
}

TEST_F(LayerImportTest, AFolderWithoutVidursTablesIsRefused) {
  RunControl control;
  EXPECT_THAT([&] { ImportVidur(folder_, folder_ / "out", control); },
              ThrowsMessage<InputError>(HasSubstr("dense_ops.csv")));
}

}  // namespace
}  // namespace twin::run
