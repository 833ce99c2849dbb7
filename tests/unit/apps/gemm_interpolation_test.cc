// What an import of matrix products chooses for the interpolation of its tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "apps/predict/gemm_import.h"
#include "apps/predict/gemm_left_out.h"
#include "config/hardware_file.h"
#include "sim/devices/operations/gemm_closed_form.h"
#include "sim/devices/operations/gemm_model.h"

namespace twin::run {
namespace {

TEST(GemmLeftOutTest, SharesThatGainLessThanAHundredthAreNone) {
  // Errors of +1 and -1, and of 1 - 2 share: none at a half.
  EXPECT_NEAR(BestShare({1, 1}, {-1, -1}), 0.5, 1e-9);
  EXPECT_NEAR(BestShare({1, -1}, {0, 0}), 1, 1e-9);
  EXPECT_EQ(BestShare({1, 1}, {1.5, 1.5}), 0);
  EXPECT_EQ(BestShare({1, 1}, {0.995, 0.995}), 0);
  EXPECT_TRUE(IsGain({1, 1}, {0.98, -0.98}));
  EXPECT_FALSE(IsGain({1, 1}, {0.98, -1.01}));
}

// 49 (n, k) of a device whose times jump by a fifth at m = 128 and back at 1,024: SGLang's at m
// between, vLLM's not.
GemmRows RowsOfTwoLibraries(const HardwareSpec& hardware) {
  GemmRows rows;
  for (const std::int64_t m : {1, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048}) {
    const bool of_both = m == 1 || m == 32 || m == 96 || m == 256 || m >= 768;
    for (const std::int64_t n : {1024, 1536, 2560, 3584, 5120, 7168, 8192}) {
      for (const std::int64_t k : {1024, 1536, 2560, 3584, 5120, 7168, 8192}) {
        GemmRow row{.library = sim::KernelLibrary::kSglang, .m = m, .n = n, .k = k};
        row.seconds = sim::GemmClosedForm(hardware, {}, {m, n, k});
        if (m >= 128 && m < 1024) row.seconds *= 1.2;
        rows.rows.push_back(row);
        row.library = sim::KernelLibrary::kVllm;
        if (of_both) rows.rows.push_back(row);
      }
    }
  }
  return rows;
}

TEST(GemmImportTest, TheLibraryThatWasMeasuredAtMoreMIsTheTrendOfTheOthers) {
  const HardwareSpec hardware = HardwarePreset("a100-80gb-sxm");
  RunControl control;
  const sim::GemmProfile profile =
      ImportGemm(hardware, RowsOfTwoLibraries(hardware), control).profile;
  ASSERT_EQ(profile.tables.size(), 2U);
  const auto& [vllm, sglang] = std::pair(profile.tables[0], profile.tables[1]);
  EXPECT_EQ(vllm.library, sim::KernelLibrary::kVllm);
  EXPECT_EQ(vllm.trend_library, sim::KernelLibrary::kSglang);
  EXPECT_GT(vllm.trend_share, 0.8);
  EXPECT_EQ(sglang.trend_share, 0);
  EXPECT_NO_THROW(sim::Validate(profile));
  // Where the jump is, which vLLM's rows do not say.
  const auto seconds = [&](std::int64_t m, double trend_share) {
    sim::GemmProfile own = profile;
    own.tables[0].trend_share = trend_share;
    return sim::GemmModel(hardware, own)({.m = m, .n = 2560, .k = 2560}).seconds;
  };
  const double measured = 1.2 * sim::GemmClosedForm(hardware, {}, {128, 2560, 2560});
  EXPECT_NEAR(seconds(128, vllm.trend_share), measured, 0.04 * measured);
  EXPECT_LT(seconds(128, 0), 0.95 * measured);
}

// 49 (n, k) whose times are those of the closed form times exp(error(library, row)).
GemmRows RowsWithErrors(const HardwareSpec& hardware,
                        std::initializer_list<sim::KernelLibrary> libraries,
                        const std::function<double(const GemmRow&)>& error) {
  GemmRows rows;
  for (const sim::KernelLibrary library : libraries) {
    for (const std::int64_t n : {1024, 1536, 2560, 3584, 5120, 7168, 8192}) {
      for (const std::int64_t k : {1024, 1536, 2560, 3584, 5120, 7168, 8192}) {
        for (const std::int64_t m : {1, 64, 1024, 4096}) {
          GemmRow row{.library = library, .m = m, .n = n, .k = k};
          row.seconds = sim::GemmClosedForm(hardware, {}, {m, n, k}) * std::exp(error(row));
          rows.rows.push_back(row);
        }
      }
    }
  }
  return rows;
}

std::vector<sim::GemmBetweenShapes> ChosenBetweenShapes(const HardwareSpec& hardware,
                                                        const GemmRows& rows) {
  RunControl control;
  std::vector<sim::GemmBetweenShapes> chosen;
  for (const sim::GemmTable& table : ImportGemm(hardware, rows, control).profile.tables) {
    chosen.push_back(table.between_shapes);
  }
  return chosen;
}

TEST(GemmImportTest, LibrariesWithNoiseOfTheirOwnArePooled) {
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.1);
  const GemmRows rows = RowsWithErrors(
      hardware,
      {sim::KernelLibrary::kVllm, sim::KernelLibrary::kSglang, sim::KernelLibrary::kTrtllm},
      [&](const GemmRow&) { return noise(random); });
  EXPECT_THAT(
      ChosenBetweenShapes(hardware, rows),
      ::testing::ElementsAre(sim::GemmBetweenShapes::kPooled, sim::GemmBetweenShapes::kPooled,
                             sim::GemmBetweenShapes::kPooled));
}

// A library alone has nothing to be pooled with.
TEST(GemmImportTest, ProductsThatErrByTheirNAndByTheirKAreAdditive) {
  const HardwareSpec hardware = HardwarePreset("h100-sxm");
  const std::map<std::int64_t, double> of_size = {{1024, 0.1},   {1536, -0.1}, {2560, 0.05},
                                                  {3584, -0.05}, {5120, 0.1},  {7168, -0.1},
                                                  {8192, 0.05}};
  const GemmRows rows =
      RowsWithErrors(hardware, {sim::KernelLibrary::kVllm},
                     [&](const GemmRow& row) { return of_size.at(row.n) - of_size.at(row.k); });
  EXPECT_THAT(ChosenBetweenShapes(hardware, rows),
              ::testing::ElementsAre(sim::GemmBetweenShapes::kAdditive));
}

}  // namespace
}  // namespace twin::run
