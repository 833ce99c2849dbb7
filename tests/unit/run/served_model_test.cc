// The models that run, generate, bench and profile accept: the same ones.
#include "run/real/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ServedModelTest : public ::testing::Test {
 protected:
  ServedModelTest() {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "config.json") << R"({"model_type": "llama", "hidden_size": 16,
        "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 29, "max_position_embeddings": 128})";
  }
  ~ServedModelTest() override { std::filesystem::remove_all(folder_); }

  void WriteWeights() const { std::ofstream(folder_ / "model.safetensors") << "not read here"; }

  static std::string Refusal(const ModelArgument& argument) {
    try {
      ReadServedModel(argument);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / testing::UniqueName("served_model");
};

// bench, profile and generate used to refuse the path of a config.json, which run accepts.
TEST_F(ServedModelTest, ADirectoryAndItsConfigAreTheSameModel) {
  WriteWeights();
  for (const auto& path : {folder_, folder_ / "config.json", folder_ / ""}) {
    const ComputedModel served = ReadServedModel({.option = "--model", .model = path.string()});
    EXPECT_EQ(served.config.shape.hidden, 16);
    EXPECT_EQ(served.config.shape.name, folder_.filename());
    EXPECT_TRUE(std::filesystem::equivalent(served.weights, folder_));
  }
}

TEST_F(ServedModelTest, APresetStandsInWithDummyWeights) {
  const ComputedModel served = ReadServedModel(
      {.option = "--model", .model = "gpt2", .dummy_weights = true, .dummy_option = "--dummy"});
  EXPECT_EQ(served.config.shape, ModelPreset("gpt2"));
  EXPECT_TRUE(served.weights.empty());
  EXPECT_THAT(Refusal({.option = "--model", .model = "gpt2", .dummy_option = "--dummy-weights"}),
              AllOf(StartsWith("--model: gpt2 is a preset, without weights; allowed: "),
                    HasSubstr("or --dummy-weights")));
}

TEST_F(ServedModelTest, WeightsAreNeededUnlessTheyAreDummies) {
  const ModelArgument argument{.option = "--model", .model = folder_.string()};
  EXPECT_THAT(Refusal(argument), HasSubstr("is a model directory without weights"));
  ModelArgument dummy = argument;
  dummy.dummy_weights = true;
  EXPECT_TRUE(ReadServedModel(dummy).weights.empty());
}

TEST_F(ServedModelTest, AHubNameSuggestsThePreset) {
  EXPECT_THAT(Refusal({.option = "--model", .model = "Qwen/Qwen3-14B"}),
              AllOf(StartsWith("Qwen/Qwen3-14B: no such file or directory"),
                    HasSubstr("the nearest preset is qwen3-14b")));
}

}  // namespace
}  // namespace twin::run
