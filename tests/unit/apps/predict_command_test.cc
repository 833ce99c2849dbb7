// twinserve predict ops: its table, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;

class PredictCommandTest : public testing::ExperimentFolderTest {
 protected:
  CommandOutcome Predict(const std::string& op, const std::string& table) {
    Write("in.csv", table);
    return Run({"predict", "ops", "--hardware", "h100-sxm", "--op", op, "--in", "in.csv", "--out",
                "out.csv"});
  }

  // The lines of out.csv.
  std::vector<std::string> Lines() {
    std::ifstream in(scratch_.path() / "out.csv");
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  // The last `count` fields of a line.
  static std::vector<double> LastFields(const std::string& line, std::size_t count) {
    std::istringstream in(line);
    std::vector<double> fields;
    for (std::string field; std::getline(in, field, ',');) {
      fields.push_back(std::strtod(field.c_str(), nullptr));
    }
    return {fields.end() - static_cast<std::ptrdiff_t>(count), fields.end()};
  }

  void ExpectPrediction(const std::string& op, const std::string& header, const std::string& row) {
    const CommandOutcome outcome = Predict(op, header + "\n" + row + "\n");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::vector<std::string> lines = Lines();
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0], header + ",predicted_us,predicted_low_us,predicted_high_us");
    EXPECT_EQ(lines[1].rfind(row + ",", 0), 0U) << lines[1];
    const std::vector<double> us = LastFields(lines[1], 3);
    EXPECT_GT(us[1], 0);
    EXPECT_LT(us[1], us[0]);
    EXPECT_LT(us[0], us[2]);
  }

  void ExpectRefusal(const std::string& op, const std::string& table, const std::string& what) {
    const CommandOutcome outcome = Predict(op, table);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(what));
    EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "out.csv"));
  }
};

TEST_F(PredictCommandTest, AddsThreeColumnsAndKeepsTheOthers) {
  ExpectPrediction("gemm", "backend,version,dtype,m,n,k,kernel",
                   "sglang,0.5.14,bfloat16,64,4096,4096,linear");
  ExpectPrediction(
      "context_attention",
      "backend,attn_dtype,kv_dtype,num_heads,num_kv_heads,head_dim,window,batch,seq_len",
      "vllm,bfloat16,fp8,32,8,128,0,4,2048");
  ExpectPrediction("generation_attention", "num_heads,num_kv_heads,head_dim,batch,kv_len",
                   "32,8,128,16,1000");
}

TEST_F(PredictCommandTest, EveryRowOfATableIsPredicted) {
  const CommandOutcome outcome = Predict("gemm", "m,n,k\n1,32,32\n2,32,32\n3,32,32\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Lines().size(), 4U);
}

// As torch, vLLM and aiconfigurator call formats, and as programs write numbers.
TEST_F(PredictCommandTest, FormatsAndIntegersHaveSeveralSpellings) {
  ASSERT_EQ(Predict("gemm",
                    "m,n,k,dtype\n64,4096,4096,fp8\n64.0,4096.0,4096.00,FP8_E4M3\n"
                    "64,4096,4096,float8_e4m3fn\n")
                .exit_code,
            0);
  const double us = LastFields(Lines()[1], 3)[0];
  EXPECT_EQ(LastFields(Lines()[2], 3)[0], us);
  EXPECT_EQ(LastFields(Lines()[3], 3)[0], us);
  ExpectPrediction("gemm", "m,n,k,dtype", "64,4096,4096,int4_awq");
  ExpectPrediction("generation_attention", "num_heads,num_kv_heads,head_dim,batch,kv_len,kv_dtype",
                   "32,8,128,16,1000,auto");
}

// Tables as aiconfigurator writes them.
TEST_F(PredictCommandTest, UpstreamNamesOfColumnsAreUnderstood) {
  const auto median = [&](const std::string& op, const std::string& table) {
    EXPECT_EQ(Predict(op, table).exit_code, 0);
    return LastFields(Lines()[1], 3)[0];
  };
  EXPECT_EQ(median("gemm", "framework,gemm_dtype,m,n,k\nTRTLLM,fp8,64,4096,4096\n"),
            median("gemm", "backend,dtype,m,n,k\ntrtllm,fp8,64,4096,4096\n"));
  EXPECT_EQ(median("context_attention",
                   "batch_size,isl,num_heads,num_key_value_heads,head_dim,kv_cache_dtype,"
                   "window_size\n4,2048,32,8,128,fp8,128\n"),
            median("context_attention",
                   "batch,seq_len,num_heads,num_kv_heads,head_dim,kv_dtype,window\n"
                   "4,2048,32,8,128,fp8,128\n"));
}

// A table that was predicted before gets new predictions in place of the old ones.
TEST_F(PredictCommandTest, EarlierPredictionsAreReplaced) {
  ASSERT_EQ(Predict("gemm", "predicted_us,m,n,k,predicted_low_us\n1,64,4096,4096,2\n").exit_code,
            0);
  EXPECT_EQ(Lines()[0], "m,n,k,predicted_us,predicted_low_us,predicted_high_us");
  EXPECT_EQ(Lines()[1].rfind("64,4096,4096,", 0), 0U) << Lines()[1];
}

TEST_F(PredictCommandTest, ATableThatEndsInGzIsCompressed) {
  Write("in.csv", "m,n,k\n64,4096,4096\n");
  ASSERT_EQ(Run({"predict", "ops", "--hardware", "h100-sxm", "--op", "gemm", "--in", "in.csv",
                 "--out", "out.csv.gz"})
                .exit_code,
            0);
  ASSERT_EQ(Run({"predict", "ops", "--hardware", "h100-sxm", "--op", "gemm", "--in", "out.csv.gz",
                 "--out", "out.csv"})
                .exit_code,
            0);
  EXPECT_EQ(Lines().size(), 2U);
  std::ifstream in(scratch_.path() / "out.csv.gz", std::ios::binary);
  EXPECT_EQ(in.get(), 0x1f);
  EXPECT_EQ(in.get(), 0x8b);
}

TEST_F(PredictCommandTest, AMissingColumnIsNamed) {
  ExpectRefusal("gemm", "m,n\n1,2\n",
                "in.csv:1: header: column 'k' is missing; allowed: the "
                "columns m, n, k");
}

TEST_F(PredictCommandTest, ABadValueIsNamedWithItsLineAndField) {
  ExpectRefusal("gemm", "m,n,k\n1,2,3\n1,x,3\n", "in.csv:3: n: found 'x'");
  ExpectRefusal("gemm", "m,n,k\n0,2,3\n", "in.csv:2: m: found '0'");
  ExpectRefusal("gemm", "m,n,k\n64.5,2,3\n", "in.csv:2: m: found '64.5'");
  ExpectRefusal("gemm", "m,n,k\n64.,2,3\n", "in.csv:2: m: found '64.'");
  ExpectRefusal("gemm", "m,n,k,dtype\n1,2,3,fp7\n", "in.csv:2: dtype: found 'fp7'; allowed: bf");
  ExpectRefusal("gemm", "m,n,k,backend\n1,2,3,onnx\n", "backend: found 'onnx'; allowed: vllm");
  ExpectRefusal("gemm", "m,n,k\n1,2\n", "in.csv:2: row: has 2 fields; allowed: 3");
}

}  // namespace
}  // namespace twin::apps
