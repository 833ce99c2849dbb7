// The host is measured while everything works on it that does in a run.
#include "apps/profile/profile_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "exec/cpu/cpu_model.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "run/files/record_file.h"
#include "tests/support/unique_name.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::run {
namespace {

std::int64_t LinesIn(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
}

TEST(ProfileHostTest, WritesWhatARunWritesWhileItMeasures) {
  const exec::ModelConfig config =
      exec::ParseModelConfig(exec::testing::kLlamaConfig, "config.json");
  kernels::ThreadPool pool(1);
  exec::CpuModel model(config, exec::MakeDummyWeights(config, DType::kFp32, 1, pool), 64, pool);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / twin::testing::UniqueName("profile_host");
  const RunDirectory directory(path);
  const std::vector<ProfileRow> rows = MeasureHost(model, DType::kFp32, 4, 3, directory);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].totals.prefill_items, 3);
  EXPECT_EQ(rows[1].totals.decode_items, 3);
  for (const ProfileRow& row : rows) EXPECT_EQ(row.size, 3);

  // A line of names, then one for each request; of all steps in both files.
  EXPECT_EQ(LinesIn(directory.File("requests.csv")), 1 + 3);
  EXPECT_GT(LinesIn(directory.File("parts.csv")), rows[1].samples);
  EXPECT_EQ(LinesIn(directory.File("parts.csv")), LinesIn(directory.File("steps.csv")));
  EXPECT_GT(LinesIn(directory.File("series.csv")), 1);
  EXPECT_TRUE(std::filesystem::exists(directory.File("trace.pftrace")));
  RecordReader record(directory.File("record.pb"));
  Instant instant;
  while (record.NextInstant(instant)) {
    while (record.NextPlan() != nullptr) {
    }
  }
  EXPECT_GE(record.end().plans, static_cast<std::uint64_t>(rows[1].samples));
}

}  // namespace
}  // namespace twin::run
