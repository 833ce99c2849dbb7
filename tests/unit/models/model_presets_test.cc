
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "config/models/model_names.h"
#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Published {
  const char* name;
  std::int64_t parameters;
};

TEST(ModelPresetsTest, CapitalsDoNotCount) {
  EXPECT_EQ(ModelPreset("Llama-3.1-8B"), ModelPreset("llama-3.1-8b"));
}

// As Splitwise and Ollama call them.
TEST(ModelPresetsTest, SeparatorsDoNotCount) {
  EXPECT_EQ(ModelPreset("llama2-70b"), ModelPreset("llama-2-70b"));
  EXPECT_EQ(ModelPreset("Llama3.1_8B"), ModelPreset("llama-3.1-8b"));
  EXPECT_THROW(ModelPreset("llama-31-8b"), InputError);
  EXPECT_THROW(ModelPreset("llama-3.1-8b2"), InputError);
  EXPECT_THROW(ModelPreset("llama-3.1-"), InputError);
  EXPECT_THROW(ModelPreset(""), InputError);
}

TEST(ModelPresetsTest, AModelThatNoShapeDescribesIsRefusedWithTheReason) {
  EXPECT_THAT([] { ModelPreset("deepseek-v4-pro"); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("'deepseek-v4-pro' has no preset, as its layers compress keys"),
                        HasSubstr("nearest: "))));
  // No letter case and no organisation hides the reason.
  EXPECT_THAT([] { ModelPreset("ai21labs/Jamba-v0.1"); },
              ThrowsMessage<InputError>(HasSubstr("'ai21labs/Jamba-v0.1' has no preset, as its "
                                                  "state-space layers are of Mamba-1")));
}

class PublishedParametersTest : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedParametersTest, AreMetExactly) {
  EXPECT_EQ(TotalParameters(ModelPreset(GetParam().name)), GetParam().parameters);
}

// Counts as published with the weights (safetensors metadata of the repositories on huggingface.co;
// a tied head counted once).
INSTANTIATE_TEST_SUITE_P(
    Presets, PublishedParametersTest,
    ::testing::Values(
        Published{"gpt2", 124'439'808}, Published{"gpt2-medium", 354'823'168},
        Published{"gpt2-large", 774'030'080}, Published{"gpt2-xl", 1'557'611'200},
        Published{"llama-2-7b", 6'738'415'616}, Published{"llama-2-13b", 13'015'864'320},
        Published{"llama-2-70b", 68'976'648'192}, Published{"codellama-34b", 33'743'970'304},
        Published{"llama-3-8b", 8'030'261'248}, Published{"llama-3.1-8b", 8'030'261'248},
        Published{"llama-3-70b", 70'553'706'496}, Published{"llama-3.1-70b", 70'553'706'496},
        Published{"llama-3.2-1b", 1'235'814'400}, Published{"llama-3.2-3b", 3'212'749'824},
        Published{"mistral-7b", 7'241'732'096}, Published{"mixtral-8x7b", 46'702'792'704},
        Published{"qwen2.5-0.5b", 494'032'768}, Published{"qwen2.5-1.5b", 1'543'714'304},
        Published{"qwen2.5-3b", 3'085'938'688}, Published{"qwen2.5-7b", 7'615'616'512},
        Published{"qwen2.5-14b", 14'770'033'664}, Published{"qwen2.5-32b", 32'763'876'352},
        Published{"qwen2.5-72b", 72'706'203'648}, Published{"qwen3-0.6b", 596'049'920},
        Published{"qwen3-1.7b", 1'720'574'976}, Published{"qwen3-4b", 4'022'468'096},
        Published{"qwen3-8b", 8'190'735'360}, Published{"qwen3-14b", 14'768'307'200},
        Published{"qwen3-32b", 32'762'123'264}, Published{"qwen3-30b-a3b", 30'532'122'624},
        Published{"llama-7b", 6'738'415'616}, Published{"llama-13b", 13'015'864'320},
        Published{"llama-3.1-405b", 405'853'388'800}, Published{"mistral-nemo-12b", 12'247'782'400},
        Published{"mistral-large-2407", 122'610'069'504},
        Published{"mixtral-8x22b", 140'620'634'112}, Published{"yi-6b", 6'061'035'520},
        Published{"opt-13b", 12'853'473'280}, Published{"llama-33b", 32'528'943'616},
        Published{"falcon-180b", 179'522'565'120}, Published{"yi-34b", 34'388'917'248},
        Published{"qwen3-235b-a22b", 235'093'634'560}, Published{"codellama-7b", 6'738'546'688},
        Published{"codellama-13b", 13'016'028'160}, Published{"codellama-70b", 68'976'910'336},
        Published{"internlm-20b", 20'088'714'240}, Published{"qwen-72b", 72'287'920'128},
        Published{"qwen2-7b", 7'615'616'512}, Published{"qwen2-72b", 72'706'203'648},
        Published{"qwen3-coder-480b-a35b", 480'154'875'392},
        // Published: 28,672 more, of the norm behind the embedding.
        Published{"bloom-176b", 176'247'271'424 - 28'672}),
    [](const auto& test) {
      std::string name = test.param.name;
      for (char& c : name) {
        if (c == '-' || c == '.') c = '_';
      }
      return name;
    });

TEST(ModelPresetsTest, EveryNameGivesAValidModelOfThatName) {
  std::set<std::string_view> seen;
  for (const std::string_view name : ModelPresetNames()) {
    const ModelSpec model = ModelPreset(name);
    EXPECT_EQ(model.name, name);
    EXPECT_NO_THROW(Validate(model)) << name;
    EXPECT_TRUE(seen.insert(name).second) << name << " is listed twice";
  }
  EXPECT_EQ(seen.size(), 132u);
}

// vLLM (Kwon et al., SOSP 2023, Table 1) gives 26, 132 and 346 GB for the weights of OPT, Orca (Yu
// et al., OSDI 2022, Table 1) the parameters of its models in the names.
TEST(ModelPresetsTest, LargeModelsHaveTheSizesOfThePapers) {
  const auto billions = [](const char* name) {
    return 1e-9 * static_cast<double>(TotalParameters(ModelPreset(name)));
  };
  EXPECT_NEAR(2 * billions("opt-13b"), 26, 0.5);
  EXPECT_NEAR(2 * billions("opt-66b"), 132, 0.8);
  EXPECT_NEAR(2 * billions("opt-175b"), 346, 5);
  EXPECT_NEAR(billions("gpt-3-13b"), 13, 0.5);
  EXPECT_NEAR(billions("gpt-3-101b"), 101, 0.5);
  EXPECT_NEAR(billions("gpt-3-175b"), 175, 0.5);
  EXPECT_NEAR(billions("gpt-3-341b"), 341, 0.5);
}

TEST(ModelPresetsTest, AnUnknownNameIsRefusedWithTheNearestOnes) {
  EXPECT_THAT([] { ModelPreset("lama-3-8b"); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("unknown model 'lama-3-8b'"), HasSubstr("llama-3-8b"))));
}

TEST(ModelPresetsTest, MixtralComputesWithTwoOfItsEightExperts) {
  // Mistral AI states 12.9 billion active parameters; here: per layer attention 41,943,040, two
  // experts of 176,160,768, router 32,768, norms 8,192, x 32, + 2 x 131,072,000 + 4,096.
  EXPECT_EQ(ActiveParameters(ModelPreset("mixtral-8x7b")), 12'879'925'248);
}

}  // namespace
}  // namespace twin
