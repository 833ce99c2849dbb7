#include "config/models/named_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "tests/support/unique_name.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(NamedModelTest, ANameWithoutASlashIsAPreset) {
  EXPECT_EQ(ReadNamedShape("qwen3-14b", false), ModelPreset("qwen3-14b"));
  EXPECT_THROW(ReadNamedShape("qwen3-15b", false), InputError);
}

// Names as servers and recorded runs give them. An experiment makes them paths.
TEST(NamedModelTest, ACheckpointOfAPresetsShapeIsThatPreset) {
  EXPECT_EQ(ReadNamedShape("Qwen/Qwen3-14B", false), ModelPreset("qwen3-14b"));
  EXPECT_EQ(ReadNamedShape("/experiments/meta-llama/Llama-2-70b-hf", false),
            ModelPreset("llama-2-70b"));
  EXPECT_EQ(ReadNamedShape("nobody/Qwen3-14B", false), ModelPreset("qwen3-14b"));
}

TEST(NamedModelTest, TheNearestModelsHaveTheFamilyAndTheSizeThatWereAskedFor) {
  EXPECT_EQ(NearestModels("meta-llama/Llama-3.9-8B"), "llama-3.1-8b, llama-3-8b");
  EXPECT_THAT(NearestModels("meta-llama/Llama-3.9-9B"), ::testing::StartsWith("llama-3"));
}

TEST(NamedModelTest, ADirectoryOfThatNameGoesBeforeThePreset) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / testing::UniqueName("named_model") / "Qwen";
  std::filesystem::create_directories(folder / "Qwen3-14B");
  EXPECT_THROW(ReadNamedShape((folder / "Qwen3-14B").string(), false), InputError);  // is empty
  std::filesystem::remove_all(folder.parent_path());
}

// It used to be answered with "cannot be opened" alone.
TEST(NamedModelTest, AHubNameIsToldHowToGetItsConfigAndThePresetOfThatModel) {
  EXPECT_THAT([] { ReadNamedShape("Qwen/Qwen3-14B-GGUF", false); },
              ThrowsMessage<InputError>(AllOf(
                  HasSubstr("Qwen/Qwen3-14B-GGUF: no such file or directory, and no preset is "
                            "called Qwen3-14B-GGUF; allowed: the name of a preset"),
                  HasSubstr("hf download Qwen/Qwen3-14B-GGUF config.json --local-dir "
                            "Qwen3-14B-GGUF; the nearest preset is qwen3-14b"))));
  EXPECT_THAT(NoSuchModel("meta-llama/Meta-Llama-3.1-8B-Instruct"),
              EndsWith("; the nearest preset is llama-3.1-8b"));
  EXPECT_THAT(NoSuchModel("codellama/CodeLlama-34b-Instruct-hf/"),
              EndsWith("; the nearest preset is codellama-34b"));
  EXPECT_THAT(NoSuchModel("Qwen/Qwen3-30B-A3B-AWQ"),
              EndsWith("; the nearest preset is qwen3-30b-a3b"));
  EXPECT_THAT(NoSuchModel("openai-community/gpt2-xl"), EndsWith("; the nearest preset is gpt2-xl"));
}

TEST(NamedModelTest, PartsOfAWordAreNoPresetsName) {
  // llama-3.2-11b does not have the shape of the preset that its name holds.
  EXPECT_THAT(NoSuchModel("meta-llama/Llama-3.2-11B-Vision"),
              HasSubstr("the nearest presets are llama-3.2-1b"));
}

// Names at a distance of a few letters are no relatives.
TEST(NamedModelTest, NoPresetIsOfferedThatIsOfAnotherFamily) {
  for (const char* name : {"CohereLabs/aya-8b", "distilbert/distilgpt2", "tiiuae/whisper"}) {
    EXPECT_THAT(NoSuchModel(name), Not(HasSubstr("nearest"))) << name;
  }
  EXPECT_THAT(NoSuchModel("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"),
              HasSubstr("the nearest presets are qwen"));
}

// Such weights used to be simulated as bf16, four times as large, without a word.
TEST(NamedModelTest, QuantisedWeightsWithoutACostModelAreRefusedUntilAFormatIsGiven) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / testing::UniqueName("named_model");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "llama", "hidden_size": 64,
      "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9,
      "max_position_embeddings": 256, "torch_dtype": "float16",
      "quantization_config": {"quant_method": "awq", "bits": 3}})";
  EXPECT_THAT([&] { ReadNamedShape(folder.string(), false); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("weights of method awq with 3 bits are not modelled; "
                                  "allowed: methods fp8, mxfp4, compressed-tensors and "
                                  "modelopt, 4 bits of method gptq"),
                        HasSubstr("system.model_shape.weight_dtype"))));
  EXPECT_EQ(ReadNamedShape(folder.string(), true).weight_dtype, DType::kFp16);
  std::filesystem::remove_all(folder);
}

// A format that is not modelled does not stop an experiment that chooses one.
TEST(NamedModelTest, AFormatMayBeChosenInPlaceOfOneThatIsNotModelled) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / testing::UniqueName("named_model");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "llama", "hidden_size": 64,
      "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9,
      "max_position_embeddings": 256, "torch_dtype": "bfloat16",
      "quantization_config": {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}})";
  EXPECT_THAT([&] { ReadNamedShape(folder.string(), false); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("quant_algo 'W4A8_AWQ' is not modelled"),
                                              HasSubstr("system.model_shape.weight_dtype"))));
  EXPECT_EQ(ReadNamedShape(folder.string(), true).weight_dtype, DType::kBf16);
  std::filesystem::remove_all(folder);
}

// ModelOpt writes formats beside config.json.
TEST(NamedModelTest, FormatsInAFileOfTheirOwnAreRead) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / testing::UniqueName("named_model");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "llama", "hidden_size": 64,
      "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9,
      "max_position_embeddings": 256, "torch_dtype": "bfloat16"})";
  std::ofstream(folder / "hf_quant_config.json") << R"({"producer": {"name": "modelopt"},
      "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
                       "exclude_modules": ["lm_head", "*self_attn*"]}})";
  const ModelSpec shape = ReadNamedShape(folder.string(), false);
  EXPECT_EQ(shape.weight_dtype, DType::kNvfp4);
  EXPECT_EQ(shape.formats.attention, DType::kBf16);
  EXPECT_EQ(shape.formats.dense, std::nullopt);
  EXPECT_EQ(shape.kv_dtype, DType::kFp8);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace twin
