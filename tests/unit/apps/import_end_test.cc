// What an import leaves behind if it fails or is stopped, and which tables it leaves out.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "apps/predict/attention_import.h"
#include "apps/predict/gemm_import.h"
#include "apps/predict/import_databases.h"
#include "apps/predict/layer_attention_import.h"
#include "apps/predict/moe_import.h"
#include "config/hardware_file.h"
#include "config/text_message.h"
#include "core/input_error.h"
#include "sim/devices/operations/moe_model.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// Asks to stop when it is asked for the `stop_at`-th time.
class StoppingControl final : public RunControl {
 public:
  explicit StoppingControl(int stop_at = std::numeric_limits<int>::max()) : stop_at_(stop_at) {}

  [[nodiscard]] bool StopRequested() const override { return ++asked_ >= stop_at_; }
  void OnWarning(const std::string& text) override { warnings.push_back(text); }
  [[nodiscard]] int asked() const { return asked_; }

  std::vector<std::string> warnings;

 private:
  int stop_at_;
  mutable int asked_ = 0;
};

constexpr const char* kProducts = "backend,dtype,m,n,k,latency_us\n";
constexpr const char* kCollectives =
    "impl,version,op,num_gpus,bytes,latency_us\n"
    "nccl,1.0,all_reduce,2,1024,8\nnccl,1.0,all_reduce,2,4096,20\n";

class ImportEndTest : public ::testing::Test {
 protected:
  ImportEndTest() { fs::create_directories(folder_); }
  ~ImportEndTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  // Products on a grid of 3 m, 3 n and 3 k.
  static std::string Products() {
    std::string text = kProducts;
    for (const int m : {1, 64, 1024}) {
      for (const int n : {1024, 2048, 4096}) {
        for (const int k : {1024, 2048, 4096}) {
          text += fmt::format("vllm,bfloat16,{},{},{},{}\n", m, n, k, 5 + 1e-9 * m * n * k);
        }
      }
    }
    return text;
  }

  void Import(RunControl& control) const { ImportAiconfigurator(folder_, out_, control); }

  fs::path folder_ = fs::path(::testing::TempDir()) / testing::UniqueName("import_end_test");
  fs::path out_ = folder_ / "out";
};

// Collectives, attention and mixtures were on disk when the products turned out to be damaged.
TEST_F(ImportEndTest, AFailedImportLeavesNothing) {
  Write("comm_h100_sxm.csv", kCollectives);
  Write("gemm_h100_sxm.csv", std::string(kProducts) + "vllm,bfloat16,1,1024\n");
  RunControl control;
  EXPECT_THAT([&] { Import(control); },
              ThrowsMessage<InputError>(HasSubstr("gemm_h100_sxm.csv:2")));
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(ImportEndTest, AFailedImportLeavesAnEarlierOneAsItWas) {
  Write("comm_h100_sxm.csv", kCollectives);
  RunControl control;
  Import(control);
  const std::string before = ReadTextFile(out_ / "h100-sxm/collectives.textproto");
  Write("comm_h100_sxm.csv", std::string(kCollectives) + "nccl,1.0,all_reduce,2,8192,30\n");
  Write("gemm_h100_sxm.csv", std::string(kProducts) + "vllm,bfloat16,1,1024\n");
  EXPECT_THROW(Import(control), InputError);
  EXPECT_EQ(ReadTextFile(out_ / "h100-sxm/collectives.textproto"), before);
  Write("gemm_h100_sxm.csv", Products());
  Import(control);
  EXPECT_NE(ReadTextFile(out_ / "h100-sxm/collectives.textproto"), before);
  EXPECT_TRUE(fs::exists(out_ / "h100-sxm/gemm.textproto"));
}

TEST_F(ImportEndTest, AFailedImportOfVidursTablesLeavesNothing) {
  Write("network.csv",
        "system,op,num_workers,devices_per_node,bytes,latency_us\nh100_dgx,send_recv,2,2,2048,5\n");
  Write("dense_ops.csv", "gpu,tp\nh100,1\n");
  RunControl control;
  EXPECT_THROW(ImportVidur(folder_, out_, control), InputError);
  EXPECT_FALSE(fs::exists(out_));
}

// It ran to its end, minutes later.
TEST_F(ImportEndTest, AnImportStopsWhereverItIsAndLeavesNothing) {
  Write("comm_h100_sxm.csv", kCollectives);
  Write("gemm_h100_sxm.csv", Products());
  StoppingControl whole;
  Import(whole);
  fs::remove_all(out_);
  for (const int share : {1, 30, 60, 100}) {
    StoppingControl control(whole.asked() * share / 100);
    EXPECT_THAT([&] { Import(control); },
                ThrowsMessage<std::runtime_error>("interrupted: no output was written"));
    EXPECT_EQ(control.asked(), whole.asked() * share / 100);
    EXPECT_FALSE(fs::exists(out_)) << share;
  }
}

// Rows alone would be asked about once each.
TEST_F(ImportEndTest, EachFitAsksWhetherToStopManyTimes) {
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  StoppingControl products;
  GemmRows rows;
  for (int m = 1; m <= 4; ++m) rows.rows.push_back({.m = m, .n = 64, .k = 64, .seconds = 1e-6});
  (void)ImportGemm(hardware, rows, products);
  EXPECT_GT(products.asked(), 100);

  StoppingControl experts;
  std::string mixtures =
      "moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
      "latency_us\n";
  for (const int tokens : {1, 8, 64}) {
    const sim::MoeShape shape{
        .hidden = 64, .intermediate = 64, .experts = 8, .experts_per_token = 1};
    mixtures += fmt::format("bfloat16,{},64,64,1,8,1,1,{}\n", tokens,
                            1.2e6 * sim::MoeClosedForm(hardware, {}, shape, tokens));
  }
  (void)ImportMoe(hardware, Write("moe.csv", mixtures), experts);
  EXPECT_GT(experts.asked(), 100);

  std::vector<LayerCall> calls;
  std::string attention =
      "backend,version,attn_dtype,kv_dtype,num_heads,num_kv_heads,head_dim,window,batch,seq_len,"
      "latency_us\n";
  for (const std::int32_t heads : {8, 16}) {
    for (const std::uint32_t length : {64U, 256U}) {
      calls.push_back({.query_heads = heads, .kv_heads = 8, .chunk = length, .microseconds = 9});
      calls.push_back({.query_heads = heads,
                       .kv_heads = 8,
                       .decodes = 4,
                       .context = length,
                       .microseconds = 9});
      attention += fmt::format("vllm,1,bfloat16,bfloat16,{},8,128,0,1,{},9\n", heads, length);
    }
  }
  StoppingControl layers;
  (void)ImportLayerAttention(hardware, 128, calls, "here", layers);
  EXPECT_GT(layers.asked(), 50);
  StoppingControl prompts;
  sim::AttentionProfile profile;
  (void)ImportAttention(hardware, sim::AttentionKind::kContext, Write("a.csv", attention), profile,
                        prompts);
  EXPECT_GT(prompts.asked(), 25);
}

// It failed after the work, with the text of the C++ library.
TEST_F(ImportEndTest, AFolderThatCannotBeMadeIsRefusedBeforeTheWork) {
  Write("gemm_h100_sxm.csv", Products());
  Write("file", "");
  StoppingControl control;
  EXPECT_THAT(
      [&] { ImportAiconfigurator(folder_, folder_ / "file/out", control); },
      ThrowsMessage<InputError>(AllOf(StartsWith((folder_ / "file/out").string()),
                                      HasSubstr("out: cannot be written: Not a directory"))));
  EXPECT_EQ(control.asked(), 0);
}

// "unknown model 'nomodel'" ended the import, without the name of the file.
TEST_F(ImportEndTest, TablesOfUnknownModelsAreLeftOutWithAWarning) {
  const std::string table = "tp,layer,tokens,time_us\n1,qkv_proj,16,20\n";
  Write("profile_A40_llama-3.1-8b_dense.csv", table);
  Write("profile_A40_nomodel_dense.csv", table);
  Write("profile_L40S_nomodel_dense.csv", table);
  StoppingControl control;
  ImportLlmServingSim(folder_, out_, control);
  EXPECT_THAT(control.warnings,
              ElementsAre(StartsWith("profile_A40_nomodel_dense.csv: skipped, model: unknown model "
                                     "'nomodel'; nearest: "),
                          StartsWith("profile_L40S_nomodel_dense.csv: skipped, ")));
  EXPECT_TRUE(fs::exists(out_ / "a40/gemm.textproto"));
  EXPECT_FALSE(fs::exists(out_ / "l40s"));
}

TEST_F(ImportEndTest, TablesOfUnknownModelsAloneAreRefused) {
  Write("profile_A40_nomodel_dense.csv", "tp,layer,tokens,time_us\n1,qkv_proj,16,20\n");
  RunControl control;
  EXPECT_THAT([&] { ImportLlmServingSim(folder_, out_, control); },
              ThrowsMessage<InputError>(HasSubstr("and a known model; allowed: one or more")));
}

}  // namespace
}  // namespace twin::run
