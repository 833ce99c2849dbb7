// twinserve predict steps, predict breakdown and fit --steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;

class PredictStepsCommandTest : public testing::ExperimentFolderTest {
 protected:
  CommandOutcome Predict(const std::string& table) {
    Write("in.csv", table);
    return Run({"predict", "steps", "--hardware", "h100-sxm", "--model", "qwen3-14b", "--in",
                "in.csv", "--out", "out.csv"});
  }

  std::vector<std::string> Lines(const std::string& file) {
    std::ifstream in(scratch_.path() / file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  // The last three fields of each row: median, low, high.
  std::vector<std::vector<double>> Predicted() {
    std::vector<std::vector<double>> rows;
    const std::vector<std::string> lines = Lines("out.csv");
    for (std::size_t i = 1; i < lines.size(); ++i) {
      std::istringstream in(lines[i]);
      std::vector<double> fields;
      for (std::string field; std::getline(in, field, ',');) {
        fields.push_back(std::strtod(field.c_str(), nullptr));
      }
      rows.emplace_back(fields.end() - 3, fields.end());
    }
    return rows;
  }
};

TEST_F(PredictStepsCommandTest, AddsThreeColumnsAndKeepsTheOthers) {
  const std::string header = "note,decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens";
  const CommandOutcome outcome = Predict(header + "\na,8,8400,0,0\nb,8,8400,1,986\n");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Lines("out.csv")[0], header + ",predicted_us,predicted_low_us,predicted_high_us");
  EXPECT_EQ(Lines("out.csv")[1].rfind("a,8,8400,0,0,", 0), 0U);
  for (const std::vector<double>& us : Predicted()) {
    EXPECT_GT(us[1], 0);
    EXPECT_LT(us[1], us[0]);
    EXPECT_LT(us[0], us[2]);
  }
  EXPECT_GT(Predicted()[1][0], 2 * Predicted()[0][0]);
}

// The weights of Qwen3-14B are 29 GB, of which 28 GB are read: at 3.35 TB/s more than 8 ms. Twice
// that is more than any recorded step of 8 decodes took.
TEST_F(PredictStepsCommandTest, ADecodeStepReadsTheWeights) {
  ASSERT_EQ(Predict("decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens\n"
                    "8,8400,0,0\n")
                .exit_code,
            0);
  EXPECT_GT(Predicted()[0][0], 8000);
  EXPECT_LT(Predicted()[0][0], 16000);
}

// Recorders that count prompts where they end have steps of chunks alone, which used to take 0 us.
TEST_F(PredictStepsCommandTest, TokensWithoutAPromptThatEndsAreAChunk) {
  ASSERT_EQ(Predict("decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens\n"
                    "8,8400,0,2048\n8,8400,1,2048\n")
                .exit_code,
            0);
  EXPECT_NEAR(Predicted()[0][0], Predicted()[1][0], 1e-2 * Predicted()[1][0]);
}

TEST_F(PredictStepsCommandTest, ABadDutyIsNamedWithFileAndLine) {
  const CommandOutcome outcome = Predict(
      "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens,duty\n8,8400,0,0,warm\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("in.csv:2: duty: found 'warm'; allowed: a number, 0 or more"));
}

TEST_F(PredictStepsCommandTest, AModelMayBeACheckpointOrAFile) {
  Write("in.csv", "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens\n8,8400,0,0\n");
  Write("config.json", R"({"model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 17408,
      "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 8,
      "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16"})");
  std::vector<double> us;
  for (const char* model : {"qwen3-14b", "Qwen/Qwen3-14B", "./config.json"}) {
    const CommandOutcome outcome = Run({"predict", "steps", "--hardware", "H100-SXM", "--model",
                                        model, "--in", "in.csv", "--out", "out.csv"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    us.push_back(Predicted()[0][0]);
  }
  EXPECT_EQ(us[1], us[0]);
  // Fitted terms are those of the dense models in general, not of Qwen3-14B.
  EXPECT_NEAR(us[2], us[0], 0.05 * us[0]);
}

TEST_F(PredictStepsCommandTest, DutyMakesPromptsSlower) {
  ASSERT_EQ(Predict("decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens,duty\n"
                    "0,0,1,1000,0\n0,0,1,1000,0.5\n0,0,1,1000,1\n")
                .exit_code,
            0);
  EXPECT_GT(Predicted()[1][0], 1.01 * Predicted()[0][0]);
  EXPECT_GT(Predicted()[2][0], 1.01 * Predicted()[1][0]);
}

// Back to back, the second and third prompt meet a warmer device; after a second of rest, the
// fourth takes as long as the first.
TEST_F(PredictStepsCommandTest, RowsWithTimesAreOneRun) {
  ASSERT_EQ(Predict("t_us,decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens\n"
                    "40000,0,0,1,1000\n80000,0,0,1,1000\n120000,0,0,1,1000\n2000000,0,0,1,1000\n")
                .exit_code,
            0);
  const std::vector<std::vector<double>> us = Predicted();
  EXPECT_GT(us[1][0], 1.01 * us[0][0]);
  EXPECT_GT(us[2][0], us[1][0]);
  EXPECT_NEAR(us[3][0], us[0][0], 1e-3 * us[0][0]);
}

TEST_F(PredictStepsCommandTest, RefusesTablesWithoutTheirColumns) {
  const CommandOutcome outcome = Predict("decode_reqs,prefill_reqs,prefill_tokens\n8,0,0\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("decode_context_tokens"));
}

TEST_F(PredictStepsCommandTest, BreaksAStepDown) {
  const CommandOutcome outcome =
      Run({"predict", "breakdown", "--hardware", "h100-sxm", "--model", "llama-3-70b", "--tensor",
           "4", "--decodes", "8", "--decode-context", "8000"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* name : {"gemm", "decode_attention", "collective", "lm_head", "gap", "total"}) {
    EXPECT_THAT(outcome.out, HasSubstr(name));
  }
  const CommandOutcome nothing =
      Run({"predict", "breakdown", "--hardware", "h100-sxm", "--model", "llama-3-70b"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("describes no step"));
}

// Decode steps that take as long as predicted, but for a gap that is 1 ms longer, are explained by
// the gap; collectives do not occur, and nothing is fitted to the step that is held out.
TEST_F(PredictStepsCommandTest, FitFindsTheGapOfRecordedSteps) {
  if (Run({"fit"}).needs_another_build()) GTEST_SKIP() << "no fit";
  std::string table = "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens\n";
  for (int n = 1; n <= 128; ++n)
    table += std::to_string(n) + "," + std::to_string(1000 * n) + ",0,0\n";
  ASSERT_EQ(Predict(table).exit_code, 0);
  std::string recorded = "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens,iter_us\n";
  for (int n = 1; n <= 128; ++n) {
    recorded += std::to_string(n) + "," + std::to_string(1000 * n) + ",0,0," +
                std::to_string(Predicted()[static_cast<std::size_t>(n - 1)][0] + 1000) + "\n";
  }
  Write("steps.csv", recorded);
  Write("sets.csv", "file,model,tensor,use\nsteps.csv,qwen3-14b,1,fit\n");
  const CommandOutcome outcome = Run({"fit", "--steps", "sets.csv", "--data", ".", "--hardware",
                                      "h100-sxm", "--out", "steps.textproto"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("graph_gap_s"));
  std::string fitted;
  for (const std::string& line : Lines("steps.textproto")) fitted += line + "\n";
  const std::size_t at = fitted.find("graph_gap_s");
  ASSERT_NE(at, std::string::npos) << fitted;
  const double gap = std::strtod(fitted.c_str() + fitted.find("value:", at) + 6, nullptr);
  // The gap that was added, and the profile's own, less than 1.2 ms.
  EXPECT_GT(gap, 1.0e-3);
  EXPECT_LT(gap, 2.2e-3);
  // What the steps determine is said with the largest of them.
  EXPECT_THAT(fitted, HasSubstr("model: \"qwen3-14b\""));
  EXPECT_THAT(fitted, HasSubstr("decodes_max: 128"));
  EXPECT_THAT(fitted, HasSubstr("context_tokens_max: 128000"));
}

TEST_F(PredictStepsCommandTest, HeatIsFromZeroToOne) {
  const std::string header = "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens,duty\n";
  EXPECT_EQ(Predict(header + "8,8400,0,0,1\n").exit_code, 0);
  const CommandOutcome outcome = Predict(header + "8,8400,0,0,1.5\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("in.csv:2: duty: found '1.5'; allowed: a number from 0 to 1"));
}

// Recorded steps of Qwen3-8B take 5 % longer than predicted. Its table is for ratios: no term
// moves, and its steps take as much longer. 40 steps of each size count beside 5 without any error:
// 40 / 45 ln 1.05 = 0.0434.
TEST_F(PredictStepsCommandTest, RatiosOfAModelMoveItsStepsAndNoTerm) {
  if (Run({"fit"}).needs_another_build()) GTEST_SKIP() << "no fit";
  const std::string header = "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens";
  const std::vector<int> sizes = {8, 16, 32, 64};
  std::string steps;
  for (const int n : sizes) steps += std::to_string(n) + "," + std::to_string(500 * n) + ",0,0\n";
  const auto predict = [&](const std::string& model, const std::vector<std::string>& more) {
    Write("in.csv", header + "\n" + steps);
    std::vector<std::string> arguments = {"predict", "steps", "--hardware", "h100-sxm", "--model",
                                          model,     "--in",  "in.csv",     "--out",    "out.csv"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(Run(arguments).exit_code, 0);
    return Predicted();
  };
  const auto record = [&](const std::string& model, double factor) {
    std::string table = header + ",iter_us\n";
    const std::vector<std::vector<double>> us = predict(model, {"--profile", "device"});
    for (int repeat = 0; repeat < 40; ++repeat) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        table += std::to_string(sizes[i]) + "," + std::to_string(500 * sizes[i]) + ",0,0," +
                 std::to_string(factor * us[i][0]) + "\n";
      }
    }
    Write(model + ".csv", table);
  };
  std::filesystem::create_directory(scratch_.path() / "device");
  Write("device/steps.textproto", "");
  const std::vector<std::vector<double>> before = predict("qwen3-8b", {"--profile", "device"});
  record("qwen3-14b", 1);
  record("qwen3-8b", 1.05);
  Write("sets.csv", "file,model,tensor,use\nqwen3-14b.csv,qwen3-14b,1,fit\n");
  const auto fit = [&] {
    return Run({"fit", "--steps", "sets.csv", "--data", ".", "--hardware", "h100-sxm",
                "--device-profile", "device", "--out", "device/steps.textproto"});
  };
  ASSERT_EQ(fit().exit_code, 0);
  const std::vector<std::vector<double>> terms = predict("qwen3-8b", {"--profile", "device"});
  Write("sets.csv",
        "file,model,tensor,use\nqwen3-14b.csv,qwen3-14b,1,fit\nqwen3-8b.csv,qwen3-8b,1,ratios\n");
  const CommandOutcome outcome = fit();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<std::vector<double>> after = predict("qwen3-8b", {"--profile", "device"});
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // Against the terms of the fit, which differ a little from those that the steps were made of.
    const double missing = std::log(1.05 * before[i][0] / terms[i][0]);
    // The gap between steps, about 1 % of them, has no ratio of its own: theirs make up for it.
    EXPECT_NEAR(std::log(after[i][0] / terms[i][0]), 40.0 / 45 * missing, 0.01 * missing);
  }
}

// Terms without a single step to fit were once written as fitted, with the narrowest spread.
TEST_F(PredictStepsCommandTest, StepsThatCannotBeFittedAreRefusedWithTheirFile) {
  if (Run({"fit"}).needs_another_build()) GTEST_SKIP() << "no fit";
  const auto refusal = [this](const std::string& sets, const std::string& steps) {
    Write("steps.csv", steps);
    Write("sets.csv", "file,model,tensor,use\nsteps.csv," + sets + "\n");
    const CommandOutcome outcome = Run({"fit", "--steps", "sets.csv", "--data", ".", "--hardware",
                                        "h100-sxm", "--out", "steps.textproto"});
    EXPECT_NE(outcome.exit_code, 0);
    return outcome.err;
  };
  const std::string header = "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens";
  const std::string times = header + ",iter_us,clean\n";
  EXPECT_THAT(refusal("qwen3-14b,1,fit", header + ",iter_ms\n8,800,0,0,11\n"),
              HasSubstr("steps.csv: has no measured step; allowed: one row or more with iter_us"));
  EXPECT_THAT(refusal("qwen3-14b,1,fit", times + "8,800,0,0,11000,False\n"),
              HasSubstr("has no measured step"));
  EXPECT_THAT(refusal("qwen3-14b,1,fit", times + "8,800,0,0,11000,maybe\n"),
              HasSubstr("steps.csv:2: clean: found 'maybe'"));
  EXPECT_THAT(refusal("qwen3-14b,1,judge", times + "8,800,0,0,11000,1\n"),
              HasSubstr("sets.csv: has no table to fit"));
  EXPECT_THAT(refusal("qwen3-15b,1,fit", times + "8,800,0,0,11000,1\n"),
              HasSubstr("sets.csv: steps: model: unknown model 'qwen3-15b'"));
  EXPECT_THAT(refusal("qwen3-14b,3,fit", times + "8,800,0,0,11000,1\n"),
              HasSubstr("sets.csv: steps: model qwen3-14b: query_heads 40 does not divide"));
}

// A hundred steps say how far a model's recordings are off on average; one does not.
TEST_F(PredictStepsCommandTest, AFewStepsMakeNoModelSure) {
  if (Run({"fit"}).needs_another_build()) GTEST_SKIP() << "no fit";
  Write("steps.csv",
        "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens,iter_us\n8,800,0,0,11000\n");
  Write("sets.csv", "file,model,tensor,use\nsteps.csv,qwen3-14b,1,fit\n");
  ASSERT_EQ(Run({"fit", "--steps", "sets.csv", "--data", ".", "--hardware", "h100-sxm", "--out",
                 "steps.textproto"})
                .exit_code,
            0);
  for (const std::string& line : Lines("steps.textproto")) {
    EXPECT_EQ(line.find("models"), std::string::npos) << line;
  }
}

TEST_F(PredictStepsCommandTest, ARunIsBrokenDownWithoutOptionsOfAStep) {
  const CommandOutcome outcome = Run({"predict", "breakdown", "run", "--decodes", "3"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("RUN excludes --decodes"));
  EXPECT_THAT(Run({"predict", "breakdown", "run"}).err, HasSubstr("run: is no folder"));
}

}  // namespace
}  // namespace twin::apps
