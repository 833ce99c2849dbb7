#include "config/cost_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "sim/cost/fitted_config.h"
#include "tests/support/unique_name.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

sim::FittedCostConfig Config() {
  sim::FittedCostConfig c;
  c.model = "m";
  c.parameters = 124439808;
  c.weight_dtype = DType::kBf16;
  c.kv_dtype = DType::kBf16;
  c.machine = "a machine";
  c.threads = 2;
  c.commit = "abc";
  c.decode_buckets = {1, 2, 4};
  c.gemm_layers = {{1, 0.1}, {2, 0.15}};
  c.gemm_head = {{1, 0.01}};
  c.gemm_decode_factor = 1.25;
  c.gemm_prefill_factor = 0.75;
  c.attention.per_prefill_pair_s = 3.5e-9;
  c.other = {{1, 0.001}};
  c.build = {1e-6, 2e-7, 3e-8};
  c.per_swapped_block_s = 1e-5;
  c.tokens_max = 2;
  return c;
}

class CostFileTest : public ::testing::Test {
 protected:
  CostFileTest()
      : folder_(std::filesystem::temp_directory_path() / twin::testing::UniqueName("cost_file")) {
    std::filesystem::create_directories(folder_);
  }
  ~CostFileTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  ExperimentConfig Read(const std::string& cost) const {
    return ParseExperiment(
        "policy { vllm_v1 {} } system { model: \"gpt2\" hardware: \"h100-sxm\" } "
        "workload { requests: 3 classes { arrivals { kind: gamma rate: 1 } shape { prompt { kind: "
        "uniform min: 1 max: 6 } output { kind: uniform min: 1 max: 6 } } } } cost { fitted { " +
            cost + " } }",
        "e.textproto", folder_);
  }

  std::filesystem::path folder_;
};

TEST_F(CostFileTest, GivesBackWhatWasWritten) {
  Write("c.textproto", WriteFittedCost(Config()));
  EXPECT_EQ(ReadFittedCostFile(folder_ / "c.textproto"), Config());
}

TEST_F(CostFileTest, AnExperimentHoldsWhatItsPathSaysAndNoPath) {
  Write("c.textproto", WriteFittedCost(Config()));
  const ExperimentConfig read = Read("path: \"c.textproto\" gemm_decode_factor: 2");
  sim::FittedCostConfig expected = Config();
  expected.gemm_decode_factor = 2;
  EXPECT_EQ(read.cost, sim::CostConfig(expected));
  const std::string resolved = WriteResolved(read);
  EXPECT_THAT(resolved, Not(HasSubstr("c.textproto")));
  std::filesystem::remove(folder_ / "c.textproto");
  EXPECT_EQ(ParseExperiment(resolved, "r.textproto", folder_).cost, sim::CostConfig(expected));
}

TEST_F(CostFileTest, RefusesDamagedFilesNamingFileAndPlace) {
  Write("c.textproto", "gemm_layers { at: 1 seconds: x }\n");
  EXPECT_THAT([&] { Read("path: \"c.textproto\""); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("c.textproto:1:"), HasSubstr("seconds"))));
  Write("c.textproto", "gemm_layers { at: 1 seconds: 1 }\ngemm_layers { at: 2 seconds: -1 }\n");
  EXPECT_THAT([&] { Read("path: \"c.textproto\""); },
              ThrowsMessage<InputError>(HasSubstr("gemm_layers[1].seconds: must be at least 0")));
  Write("c.textproto", "path: \"d.textproto\"\n");
  EXPECT_THAT([&] { Read("path: \"c.textproto\""); },
              ThrowsMessage<InputError>(HasSubstr("can only stand in an experiment")));
  EXPECT_THAT([&] { Read("path: \"absent.textproto\""); },
              ThrowsMessage<InputError>(HasSubstr("absent.textproto")));
}

}  // namespace
}  // namespace twin
