// A rope type, with every server: positions derived by hand from the servers' code, which
// served_positions.h names.
#include "config/models/served_positions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>

#include "config/models/hf_config.h"

namespace twin {
namespace {

struct Case {
  const char* name;
  const char* type;        // of the model
  std::int32_t positions;  // max_position_embeddings
  const char* fields;      // further ones, with the scaling
  std::int32_t vllm, vllm_at_start, vllm_before, sglang, tgi, trtllm;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

constexpr const char* kYarn =
    R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0,
    "original_max_position_embeddings": 32768})";

const Case kCases[] = {
    {"None", "llama", 8192, R"("rope_scaling": null)", 8192, 8192, 8192, 8192, 8192, 8192},
    // Qwen3 as its model card tells users to write it: 4 x 32768.
    {"Yarn", "qwen3", 40960, kYarn, 131072, 131072, 131072, 40960, 40960, 40960},
    {"YarnOfTransformers5", "qwen3", 40960,
     R"("rope_parameters": {"rope_theta": 1e6, "rope_type": "yarn", "factor": 4.0,
     "original_max_position_embeddings": 32768})",
     131072, 131072, 131072, 40960, 40960, 40960},
    // SGLang multiplies where the original positions are not told: 4 x 32768.
    {"YarnWithoutOriginal", "qwen2", 32768,
     R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0})", 131072, 131072, 131072, 131072,
     32768, 32768},
    {"YarnOfAnEqualFactorOnThePositions", "qwen2", 32768, kYarn, 131072, 131072, 131072, 32768,
     32768, 32768},
    // lmsys/vicuna-7b-v1.5-16k: 4 x 4096.
    {"Linear", "llama", 4096, R"("rope_scaling": {"type": "linear", "factor": 4.0})", 16384, 16384,
     16384, 16384, 4096, 16384},
    // deepseek-ai/deepseek-coder-6.7b: 4 x 16384.
    {"LinearOf65536", "llama", 16384, R"("rope_scaling": {"type": "linear", "factor": 4.0})", 65536,
     65536, 65536, 65536, 16384, 65536},
    // 1.5 x 4097 = 6145.5: vLLM and SGLang cut, TensorRT-LLM rounds up.
    {"LinearOfAHalf", "llama", 4097, R"("rope_scaling": {"type": "linear", "factor": 1.5})", 6145,
     6145, 6145, 6145, 4097, 6146},
    {"Dynamic", "llama", 4096, R"("rope_scaling": {"type": "dynamic", "factor": 2.0})", 8192, 8192,
     8192, 8192, 4096, 8192},
    // Llama 3.1.
    {"Llama3", "llama", 131072,
     R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
     "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})",
     131072, 131072, 131072, 131072, 131072, 131072},
    // microsoft/Phi-3-mini-128k-instruct.
    {"LongRope", "phi3", 131072,
     R"("original_max_position_embeddings": 4096, "rope_scaling": {"type": "longrope",
     "long_factor": [1.0], "short_factor": [1.0]})",
     131072, 4096, 131072, 131072, 131072, 131072},
    {"LongRopeOfOlderFiles", "phi3", 131072,
     R"("original_max_position_embeddings": 4096, "rope_scaling": {"type": "su"})", 131072, 4096,
     131072, 131072, 131072, 131072},
    {"LongRopeOfTransformers5", "phi3", 131072,
     R"("rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 4096})",
     131072, 4096, 131072, 131072, 131072, 131072},
    // The keys that each server reads, in its order. vLLM: the least of all.
    {"SeqLength", "llama", 8192, R"("seq_length": 4096)", 4096, 4096, 4096, 4096, 8192, 8192},
    {"MaxSeqLen", "llama", 8192, R"("max_seq_len": 4096)", 4096, 4096, 4096, 4096, 8192, 8192},
    {"LongerSeqLength", "llama", 8192, R"("seq_length": 16384)", 8192, 8192, 8192, 16384, 8192,
     8192},
    {"SeveralKeys", "llama", 8192,
     R"("max_sequence_length": 6000, "max_seq_length": 7000, "seq_len": 5000,
     "max_target_positions": 4000, "n_positions": 4500)",
     4000, 4000, 4000, 6000, 8192, 8192},
    // CohereForAI/c4ai-command-r: model_max_length takes the place of all others in vLLM.
    {"ModelMaxLength", "llama", 8192, R"("model_max_length": 131072, "seq_len": 4096)", 131072,
     131072, 131072, 131072, 8192, 8192},
    {"UnlimitedModelMaxLength", "llama", 8192,
     R"("model_max_length": 1000000000000000019884624838656)", 2147483647, 2147483647, 2147483647,
     2147483647, 8192, 8192},
    // 4 x 4096; TensorRT-LLM: 4 x 8192.
    {"LinearOfSeqLength", "llama", 8192,
     R"("seq_length": 4096, "rope_scaling": {"type": "linear", "factor": 4.0})", 16384, 16384,
     16384, 16384, 8192, 32768},
};

class ServedPositionsTest : public ::testing::TestWithParam<Case> {};

TEST_P(ServedPositionsTest, AreThoseThatEachServerDerives) {
  const Case& one = GetParam();
  const std::string text = std::string(R"({"model_type": ")") + one.type +
                           R"(", "hidden_size": 64, "intermediate_size": 100,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 9,
      "torch_dtype": "bfloat16", "max_position_embeddings": )" +
                           std::to_string(one.positions) + ", " + one.fields + "}";
  const ModelConfig model = ParseHfConfig(text, "config.json");
  EXPECT_EQ(model.shape.max_position, one.positions);
  EXPECT_EQ(FindServedPositions(model, PositionRule::kVllm).most, one.vllm);
  EXPECT_EQ(FindServedPositions(model, PositionRule::kVllm).at_start, one.vllm_at_start);
  EXPECT_EQ(FindServedPositions(model, PositionRule::kVllmBefore0111).most, one.vllm_before);
  EXPECT_EQ(FindServedPositions(model, PositionRule::kVllmBefore0111).at_start, one.vllm_before);
  EXPECT_EQ(FindServedPositions(model, PositionRule::kSglang).most, one.sglang);
  EXPECT_EQ(FindServedPositions(model, PositionRule::kTgi).most, one.tgi);
  EXPECT_EQ(FindServedPositions(model, PositionRule::kTrtLlm).most, one.trtllm);
}

INSTANTIATE_TEST_SUITE_P(RopeTypes, ServedPositionsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Olmo 3 is simulated and not computed; its long context comes from YaRN.
TEST(ServedPositionsOfFamiliesTest, AScalingCountsForFamiliesWithoutAnExecutorToo) {
  const ModelConfig model = ParseHfConfig(
      R"({"model_type": "olmo3", "hidden_size": 64, "intermediate_size": 100, "sliding_window": 64,
      "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 9,
      "max_position_embeddings": 65536, "rope_scaling": {"rope_type": "yarn", "factor": 8.0,
      "original_max_position_embeddings": 16384}})",
      "config.json");
  EXPECT_EQ(FindServedPositions(model, PositionRule::kVllm).most, 131072);  // 8 x 16384
  EXPECT_EQ(FindServedPositions(model, PositionRule::kSglang).most, 65536);
}

// Gemma 3's 131,072 positions hold the factor already: vLLM applies it to other families alone.
TEST(ServedPositionsOfFamiliesTest, VllmAppliesNoFactorToGemma3) {
  const ModelConfig model = ParseHfConfig(
      R"({"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 100,
      "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "vocab_size": 9, "sliding_window": 64, "sliding_window_pattern": 6,
      "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})",
      "config.json");
  EXPECT_EQ(FindServedPositions(model, PositionRule::kVllm).most, 131072);
  EXPECT_EQ(FindServedPositions(model, PositionRule::kSglang).most, 1048576);
}

TEST(LearnedPositionsTest, AreAsManyAsTheirTableHas) {
  ModelConfig gpt2;
  gpt2.shape.max_position = gpt2.shape.learned_positions = 1024;
  for (const PositionRule rule :
       {PositionRule::kVllm, PositionRule::kSglang, PositionRule::kTgi, PositionRule::kTrtLlm}) {
    EXPECT_EQ(FindServedPositions(gpt2, rule).most, 1024);
  }
}

}  // namespace
}  // namespace twin
