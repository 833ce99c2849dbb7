// Where no CUDA device can compute: every command says so in one line, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/device_probe.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": true})";

constexpr const char* kExperiment = R"(
world { real { device: CUDA dummy_weights: true } }
workload { requests: 3 arrivals { kind: all_at_once } shape {
  prompt { kind: fixed value: 4 } output { kind: fixed value: 4 } } }
policy { vllm_v1 {} }
system { model: "./config.json" hardware: "h200-sxm"
         model_shape { weight_dtype: bf16 kv_dtype: bf16 } }
cost { constant { step_s: 1 } }
)";

class CudaRefusalTest : public testing::ExperimentFolderTest {
 protected:
  CudaRefusalTest() : cuda_(exec::ProbeCuda()) {
    Write("config.json", kConfig);
    Write("p.ndjson", "{\"prompt\": 0, \"token_ids\": [1]}\n");
    Write("e.textproto", kExperiment);
  }

  void SetUp() override {
    if (cuda_.usable()) GTEST_SKIP() << "there is a CUDA device";
  }

  // Bad usage in a build that never computes on a device; elsewhere the machine lacks one.
  [[nodiscard]] int exit_code() const { return cuda_.runtime_version == 0 ? 2 : 1; }

  exec::CudaStatus cuda_;
};

TEST_F(CudaRefusalTest, EveryCommandSaysSoInOneLine) {
  const std::set<std::string> before = Files();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"run", "e.textproto", "--out", "run"},
           {"validate", "e.textproto", "--out", "validation"},
           {"generate", "--model", ".", "--prompts", "p.ndjson", "--out", "g.ndjson", "--device",
            "cuda"},
           {"bench", "--model", ".", "--dummy-weights", "--device", "cuda"},
           {"profile", "--model", ".", "--dummy-weights", "--device", "cuda", "--out", "p.csv"},
           {"doctor", "--device", "cuda"}}) {
    const CommandOutcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, exit_code()) << words[0] << ": " << outcome.err;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(cuda_.reason));
    EXPECT_THAT(outcome.err, HasSubstr("cpu"));
  }
  EXPECT_EQ(Files(), before);
}

TEST_F(CudaRefusalTest, FormatsThatNoDeviceComputesWithAreTheLesserEvil) {
  // The device is what is said first: without it no format helps.
  const CommandOutcome outcome =
      Run({"run", "e.textproto", "--set", "system.model_shape.weight_dtype=int8"});
  EXPECT_THAT(outcome.err, HasSubstr(cuda_.reason));
}

}  // namespace
}  // namespace twin::apps
