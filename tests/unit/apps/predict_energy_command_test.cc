// twinserve predict energy: power by hand, of devices with round numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "core/files/csv.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;

constexpr const char* kHeader =
    "id,task,model,gpu,gpus,weights,max_num_seqs,mean_batch,mean_output_tokens,"
    "output_tokens_per_s,note\n";
constexpr const char* kLlama = "meta-llama/Llama-3.1-8B-Instruct";

// Every step takes 10 ms, and nothing else takes time.
class PredictEnergyCommandTest : public testing::ExperimentFolderTest {
 protected:
  CommandOutcome Predict(const std::string& rows, const std::string& energy) {
    Write("in.csv", kHeader + rows);
    // Joules that are not named would be the data sheet's.
    std::string joules = energy;
    for (const std::string name :
         {"joules_per_flop", "joules_per_byte", "joules_per_activation_byte",
          "joules_per_routed_byte", "joules_per_link_byte"}) {
      if (energy.find(name + ":") == std::string::npos) joules += " " + name + ": 0";
    }
    return Run({"predict", "energy", "--in", "in.csv", "--out", "out.csv", "--set",
                "cost=constant { host_s: 0 step_s: 0.01 }", "--set",
                "system.boundary={ request_s { mean_s: 0 } response_s { mean_s: 0 } "
                "client_reaction_s { mean_s: 0 } }",
                "--set",
                "system.hardware_spec.energy={ base_watts: 200 limit_watts: 700 source: "
                "\"by hand\" " +
                    joules + " }"});
  }

  std::vector<std::map<std::string, std::string>> Told() {
    CsvTable table((scratch_.path() / "out.csv").string());
    std::vector<std::map<std::string, std::string>> rows;
    while (table.Next()) {
      auto& row = rows.emplace_back();
      for (std::size_t i = 0; i < table.columns().size(); ++i) {
        row[table.columns()[i]] = std::string(table.cells()[i]);
      }
    }
    return rows;
  }

  static double Number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }
};

// 64 requests at 100 + 0.6 x 600 tokens in steps of 64 / 6,400 s. A step reads 15.01 GB of weights,
// 64 x 461 cache entries of 131,072 bytes, 3.87 GB, and for 64 / 600 prompts 200 entries each:
// 1.888 J at 100 pJ a byte. The simulated step is 10 ms and 64 x 59.4 us.
TEST_F(PredictEnergyCommandTest, PowerIsBasePowerAndTheWorkOfTheStepOverItsTime) {
  const std::string row =
      std::string("a,lm-arena-chat,") + kLlama + ",H100,1,bf16,64,64,600,6400,x\n";
  ASSERT_EQ(Predict(row, "joules_per_byte: 1e-10").exit_code, 0);
  const auto told = Told();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].at("note"), "x");
  EXPECT_EQ(told[0].at("refused"), "");
  EXPECT_EQ(told[0].at("prompt_tokens"), "100");
  EXPECT_NEAR(Number(told[0].at("predicted_power_w")), 388.8, 0.5);
  EXPECT_NEAR(Number(told[0].at("predicted_itl_ms")), 13.80, 0.01);
  EXPECT_NEAR(Number(told[0].at("predicted_power_w_simulated")), 200 + 1.888 / 0.0138, 1);
}

TEST_F(PredictEnergyCommandTest, PowerEndsAtTheLimitOfEachDevice) {
  const std::string row = std::string("a,gpqa,") + kLlama + ",B200,2,bf16,64,64,600,6400,\n";
  ASSERT_EQ(Predict(row, "joules_per_byte: 1e-9").exit_code, 0);
  EXPECT_EQ(Told()[0].at("predicted_power_w"), "1400");
}

TEST_F(PredictEnergyCommandTest, ARowThatCannotBePredictedGetsOneReason) {
  const std::string rows =
      std::string("a,image-chat,") + kLlama + ",H100,1,bf16,64,64,600,6400,\n" +
      "b,gpqa,no/such-model,H100,1,bf16,64,64,600,6400,\n" + "c,gpqa," + kLlama +
      ",H100,1,bf16,64,x,600,6400,\n" + "d,gpqa," + kLlama + ",H100,1,bf16,64,64,600,6400,\n";
  const CommandOutcome outcome = Predict(rows, "");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("4 rows, 3 of them refused"));
  const auto told = Told();
  EXPECT_THAT(told[0].at("refused"), HasSubstr("task: image-chat has no known prompts"));
  EXPECT_THAT(told[1].at("refused"), HasSubstr("such-model"));
  EXPECT_THAT(told[2].at("refused"), HasSubstr("mean_batch"));
  EXPECT_EQ(told[2].at("predicted_power_w"), "");
  EXPECT_EQ(told[3].at("predicted_power_w"), "200");
}

TEST_F(PredictEnergyCommandTest, ADeviceOfUnknownEnergyIsRefused) {
  Write("in.csv", std::string(kHeader) + "a,gpqa," + kLlama + ",A100,1,bf16,64,64,600,6400,\n");
  ASSERT_EQ(Run({"predict", "energy", "--in", "in.csv", "--out", "out.csv"}).exit_code, 0);
  EXPECT_THAT(Told()[0].at("refused"), HasSubstr("a100-80gb-sxm says nothing of energy"));
}

TEST_F(PredictEnergyCommandTest, ATableWithoutAColumnIsRefused) {
  Write("in.csv", "id,task\na,gpqa\n");
  const CommandOutcome outcome = Run({"predict", "energy", "--in", "in.csv", "--out", "out.csv"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("model"));
}

}  // namespace
}  // namespace twin::apps
