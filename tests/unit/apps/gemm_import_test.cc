// Profiles of matrix products from measured tables: recovered coefficients, tables, files.
#include "apps/predict/gemm_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/predict/gemm_fit.h"
#include "apps/predict/import_databases.h"
#include "apps/predict/launch_rows.h"
#include "apps/predict/moe_import.h"
#include "apps/predict/profile_output.h"
#include "apps/predict/simplex_search.h"
#include "config/hardware_file.h"
#include "config/profile_folder.h"
#include "core/input_error.h"
#include "sim/devices/operations/gemm_closed_form.h"
#include "sim/devices/operations/gemm_model.h"
#include "sim/devices/operations/moe_model.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

constexpr std::int64_t kTokens[] = {1, 8, 64, 256, 1024, 4096};
constexpr std::int64_t kSizes[] = {1024, 2048, 4096, 8192};

// Rows of a device whose flops fraction is 0.6 and whose latency is 4 us, 5 % slow at n = 4096.
GemmRows SyntheticRows(const HardwareSpec& hardware) {
  sim::GemmCoefficients c;
  c.flops_fraction = 0.6;
  c.latency_s = 4e-6;
  GemmRows rows;
  rows.versions = {"vllm 1.0"};
  for (const std::int64_t m : kTokens) {
    for (const std::int64_t n : kSizes) {
      for (const std::int64_t k : kSizes) {
        GemmRow row{.m = m, .n = n, .k = k};
        row.seconds = sim::GemmClosedForm(hardware, c, {.m = m, .n = n, .k = k});
        if (n == 4096) row.seconds *= 1.05;
        rows.rows.push_back(row);
      }
    }
  }
  return rows;
}

// vLLM's fp8_block was measured without a graph: 55 us whatever the size, until kernels take more.
TEST(LaunchRowsTest, TimesOfLaunchesAreLeftOutAndReported) {
  GemmRows rows;
  for (const double size : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0}) {
    const auto m = static_cast<std::int64_t>(size);
    const double seconds = 4e-6 + size * 1e-6;
    for (const auto library : {sim::KernelLibrary::kVllm, sim::KernelLibrary::kSglang}) {
      rows.rows.push_back({.library = library, .m = m, .n = 64, .k = 64, .seconds = seconds});
    }
    rows.rows.push_back({.library = sim::KernelLibrary::kVllm,
                         .format = sim::GemmFormat::kFp8Block,
                         .m = m,
                         .n = 64,
                         .k = 64,
                         .seconds = std::max(55e-6, seconds)});
  }
  const std::vector<std::string> report = ExcludeLaunchRows(rows);
  ASSERT_EQ(report.size(), 1U);
  EXPECT_EQ(report[0], "vllm fp8_block: 7 rows left out, times of launches (floor 55 us)");
  EXPECT_EQ(rows.rows.size(), 23U);
}

TEST(SimplexSearchTest, FindsTheMinimumOfAValley) {
  // Rosenbrock's function: 0 at (1, 1).
  const std::vector<double> best =
      SearchMinimum({{-2, -1, 2}, {-1, 0.5, 3}}, 2000, [](const std::vector<double>& x) {
        return 100 * std::pow(x[1] - x[0] * x[0], 2) + std::pow(1 - x[0], 2);
      });
  EXPECT_NEAR(best[0], 1, 0.02);
  EXPECT_NEAR(best[1], 1, 0.04);
}

TEST(GemmImportTest, TheFitRecoversWhatTheRowsDetermine) {
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  const GemmRows rows = SyntheticRows(hardware);
  const sim::GemmFit fit = FitGemm(hardware, rows.rows, RunControl());
  EXPECT_NEAR(fit.coefficients.flops_fraction, 0.6, 0.04);
  EXPECT_NEAR(fit.coefficients.latency_s, 4e-6, 0.5e-6);
  EXPECT_LT(fit.log_sd, 0.06);
}

// The exponent that an import finds in 49 (n, k) of a device that has `exponent`.
double ImportedWholeWaves(double exponent) {
  const HardwareSpec hardware = HardwarePreset("l40s");
  sim::GemmCoefficients c;
  c.whole_waves = exponent;
  GemmRows rows;
  for (const std::int64_t m : {1, 32, 128, 192, 256, 257, 512, 513, 768, 1024, 1025, 2048}) {
    for (const std::int64_t n : {1024, 1536, 2560, 3584, 5120, 7168, 8192}) {
      for (const std::int64_t k : {1024, 1536, 2560, 3584, 5120, 7168, 8192}) {
        rows.rows.push_back(
            {.m = m, .n = n, .k = k, .seconds = GemmClosedForm(hardware, c, {m, n, k})});
      }
    }
  }
  RunControl control;
  return ImportGemm(hardware, rows, control).profile.fits.front().coefficients.whole_waves;
}

TEST(GemmImportTest, FindsHowMuchTimesFollowWholeWaves) {
  EXPECT_NEAR(ImportedWholeWaves(0.6), 0.6, 0.15);
  EXPECT_LE(ImportedWholeWaves(0), 0.1);
}

TEST(GemmImportTest, TheWrittenFileGivesBackTheMeasuredTimes) {
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  GemmRows rows = SyntheticRows(hardware);
  rows.calls = {{sim::KernelLibrary::kVllm, {.untimed = 3, .timed = 6}}};
  RunControl control;
  const GemmImport import = ImportGemm(hardware, rows, control);
  ASSERT_EQ(import.profile.tables.size(), 1U);
  EXPECT_EQ(import.profile.tables[0].calls, (sim::BackToBackCalls{.untimed = 3, .timed = 6}));
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("gemm_import_test");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "gemm.textproto") << WriteGemmImport(import, rows, "Synthetic.");
  const sim::DeviceProfile profile = ReadProfileFolder(folder);
  EXPECT_EQ(profile.gemm, import.profile);
  std::filesystem::remove_all(folder);
  const sim::GemmModel model(hardware, profile.gemm);
  for (const GemmRow& row : rows.rows) {
    const double seconds = model({.m = row.m, .n = row.n, .k = row.k}).seconds;
    EXPECT_NEAR(seconds, row.seconds, 0.006 * row.seconds) << row.m << " " << row.n;
  }
}

TEST(ProfileOutputTest, SaysTheSameInLessSpace) {
  EXPECT_EQ(CompactProfileText("# Head.\n"
                               "tables {\n"
                               "  kind: context\n"
                               "  compute_dtype: bf16\n"
                               "  kv_dtype: fp8\n"
                               "  window: 0\n"
                               "  base: -1\n"
                               "  rows: \"a b\"\n"
                               "  rows: \"c d\"\n"
                               "  by_query_heads: false\n"
                               "  spread: 0.1\n"
                               "}\n"
                               "tables {\n"
                               "  generation_kernel {\n"
                               "    splits_single_heads: true\n"
                               "    slots_per_multiprocessor: 2\n"
                               "    packed_group_max: 0\n"
                               "  }\n"
                               "  rows: \"e\"\n"
                               "}\n"),
            "# Head.\n"
            "tables {\n"
            "  kind: context\n"
            "  kv_dtype: fp8\n"
            "rows: [\n"
            "\"a b\",\n"
            "\"c d\"]\n"
            "  spread: 0.1\n"
            "}\n"
            "tables {\n"
            "  generation_kernel {\n"
            "    slots_per_multiprocessor: 2\n"
            "  }\n"
            "rows: [\n"
            "\"e\"]\n"
            "}\n");
}

TEST(ImportLlmServingSimTest, LayersBecomeTheirMatrixProducts) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("lss_test");
  std::filesystem::create_directories(folder);
  const std::string stem = "profile_rtx4090_llama-3.1-8b_";
  std::ofstream dense(folder / (stem + "dense.csv"));
  dense << "tp,layer,tokens,time_us\n";
  for (const int m : {1, 16, 256, 1024}) {
    for (const char* layer : {"qkv_proj", "o_proj", "gate_up_proj", "down_proj", "act_fn"}) {
      dense << "1," << layer << "," << m << "," << 100 + m << "\n";
    }
  }
  dense.close();
  RunControl control;
  ImportLlmServingSim(folder, folder / "out", control);
  const sim::GemmProfile gemm = ReadProfileFolder(folder / "out" / "rtx-4090").gemm;
  std::filesystem::remove_all(folder);
  const sim::GemmModel model(HardwarePreset("rtx-4090"), gemm);
  // Of Llama 3.1 8B: 32 and 2 x 8 heads of 128, and 2 x 14,336 columns.
  for (const auto& [n, k] : {std::pair{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}}) {
    EXPECT_NEAR(model({.m = 256, .n = n, .k = k}).seconds, 356e-6, 4e-6) << n << " " << k;
  }
}

// The second model's products once took the place of the first one's.
TEST(ImportLlmServingSimTest, TwoModelsOfADeviceAndUnknownDevicesAreRefused) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("lss_test");
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name) {
    std::ofstream(folder / name) << "tp,layer,tokens,time_us\n1,qkv_proj,16,20\n";
  };
  const auto refusal = [&]() -> std::string {
    RunControl control;
    try {
      ImportLlmServingSim(folder, folder / "out", control);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  write("profile_x40_llama-3.1-8b_dense.csv");
  EXPECT_NE(refusal().find("holds no table of a device with a data sheet"), std::string::npos);
  write("profile_A40_llama-3.1-8b_dense.csv");
  EXPECT_EQ(refusal(), "");
  EXPECT_TRUE(std::filesystem::exists(folder / "out/a40/gemm.textproto"));
  write("profile_A40_qwen3-8b_dense.csv");
  EXPECT_NE(refusal().find("are both of a40"), std::string::npos);
  std::filesystem::remove_all(folder);
}

// Two rows meet all twelve coefficients, and say nothing about other products.
TEST(GemmImportTest, FewRowsLeaveTheIntervalWide) {
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  GemmRows rows = SyntheticRows(hardware);
  rows.rows.resize(2);
  RunControl control;
  const sim::GemmProfile profile = ImportGemm(hardware, rows, control).profile;
  ASSERT_EQ(profile.fits.size(), 1U);
  EXPECT_GE(profile.fits[0].log_sd, 0.2);
}

TEST(GemmImportTest, AShapeThatLacksAnMIsLeftOutOfTheTable) {
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  GemmRows rows = SyntheticRows(hardware);
  std::erase_if(rows.rows,
                [](const GemmRow& row) { return row.m == 64 && row.n == 1024 && row.k == 2048; });
  RunControl control;
  const sim::GemmProfile profile = ImportGemm(hardware, rows, control).profile;
  ASSERT_EQ(profile.tables.size(), 1U);
  EXPECT_EQ(profile.tables[0].curves[1], "");
  EXPECT_NE(profile.tables[0].curves[0], "");
}

TEST(MoeImportTest, OnlyRanksThatHoldAllExpertsCount) {
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("moe_import_test");
  std::ofstream out(file);
  out << "moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
         "latency_us\n";
  for (const int experts : {32, 64, 128, 256}) {
    for (const int tokens : {1, 4, 16, 64, 256, 1024, 4096}) {
      const sim::MoeShape shape{
          .hidden = 2048, .intermediate = 768, .experts = experts, .experts_per_token = 4};
      const double us = 1e6 * sim::MoeClosedForm(hardware, {}, shape, tokens);
      // Half of the columns on each of two ranks, and a rank with half of the experts.
      out << "bfloat16," << tokens << ",2048,1536,4," << experts << ",2,1," << us << "\n"
          << "bfloat16," << tokens << ",2048,768,4," << experts << ",1,2," << 10 * us << "\n";
    }
  }
  out.close();
  const MoeImport import = ImportMoe(hardware, file.string(), RunControl());
  std::filesystem::remove(file);
  ASSERT_EQ(import.profile.fits.size(), 1U);
  const sim::MoeModel model(
      hardware, {.hidden = 2048, .intermediate = 768, .experts = 100, .experts_per_token = 4},
      import.profile);
  const double expected = sim::MoeClosedForm(
      hardware, {}, {.hidden = 2048, .intermediate = 768, .experts = 100, .experts_per_token = 4},
      100);
  EXPECT_NEAR(model.At(100, sim::MoeRouting::kRandom).seconds, expected, 0.05 * expected);
  ASSERT_EQ(import.profile.tables.size(), 1U);
  EXPECT_EQ(import.profile.tables[0].rows.size(), 4U);
  EXPECT_EQ(import.profile.tables[0].tokens.size(), 7U);
}

// Products of one device, of 3 m and 4 (n, k).
void WriteProducts(const std::filesystem::path& file, const std::string& backend) {
  std::ofstream out(file);
  out << "backend,version,dtype,m,n,k,latency_us\n";
  for (const int m : {16, 256, 1024}) {
    for (const int n : {1024, 2048}) {
      for (const int k : {1024, 2048}) {
        out << backend << ",1.0,bfloat16," << m << "," << n << "," << k << "," << 10 + m * n / 1e5
            << "\n";
      }
    }
  }
}

class ImportAiconfiguratorTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Import() {
    RunControl control;
    ImportAiconfigurator(folder_, folder_ / "out", control);
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("aiconfigurator_test");
};

TEST_F(ImportAiconfiguratorTest, TablesSayHowTheirCallsFollowedEachOther) {
  const auto calls = [&](const std::string& backend) {
    WriteProducts(folder_ / "gemm_h100_sxm.csv", backend);
    Import();
    return ReadProfileFolder(folder_ / "out/h100-sxm").gemm.tables.at(0).calls;
  };
  EXPECT_EQ(calls("vllm"), (sim::BackToBackCalls{.untimed = 3, .timed = 6}));
  EXPECT_EQ(calls("sglang"), (sim::BackToBackCalls{.untimed = 3, .timed = 6}));
  EXPECT_EQ(calls("trtllm"), sim::BackToBackCalls{});
}

TEST_F(ImportAiconfiguratorTest, TwoTablesOfOneDeviceAreRefused) {
  WriteProducts(folder_ / "gemm_h100_sxm.csv", "vllm");
  WriteProducts(folder_ / "gemm_H100-SXM.csv", "vllm");
  EXPECT_THAT([&] { Import(); }, ::testing::ThrowsMessage<InputError>(::testing::HasSubstr(
                                     "are both of h100-sxm; allowed: one table of a kind and "
                                     "device")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(ImportAiconfiguratorTest, AFolderWithoutTablesIsRefused) {
  EXPECT_THROW(Import(), InputError);
  std::ofstream(folder_ / "gemm_h100_sxm.csv") << "backend,dtype,m,n,k,latency_us\n"
                                                  "vllm,bfloat16,1,32,32,0\n";
  EXPECT_THAT([&] { Import(); }, ::testing::ThrowsMessage<InputError>(::testing::HasSubstr(
                                     "gemm_h100_sxm.csv:2: latency_us: found '0'")));
}

}  // namespace
}  // namespace twin::run
