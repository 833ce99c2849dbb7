// Settings that are valid but hardly meant are warned of, and large outputs are announced.
#include "lab/config_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/output_size.h"

namespace twin::lab {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kExperiment = R"(
workload {
  requests: 100
  arrivals { kind: poisson rate: 2 }
  shape { prompt { kind: uniform min: 1 max: 100 } output { kind: fixed value: 10 } }
}
policy { vllm_v1 { max_model_len: 512 } }
system { model: "llama-3-8b" hardware: "h100-sxm" memory { max_model_length: 512 } }
)";

ExperimentConfig Config() { return ParseExperiment(kExperiment, "e", "/"); }

std::vector<std::string> WarningsFor(const ExperimentConfig& config) {
  return WarningsOf(Resolve(config));
}

TEST(ConfigWarningsTest, AnOrdinaryExperimentHasNone) {
  EXPECT_THAT(WarningsFor(Config()), IsEmpty());
}

TEST(ConfigWarningsTest, PredictionsThatNoPolicyReads) {
  ExperimentConfig config = Config();
  config.workload.prediction.kind = PredictionConfig::Kind::kOracle;
  EXPECT_THAT(WarningsFor(config),
              ElementsAre("workload.prediction has no effect: policy.vllm_v1 does not read "
                          "predictions"));
}

TEST(ConfigWarningsTest, ADeviceThatIsKnownByItsDataSheetAlone) {
  std::string text = kExperiment;
  text += "cost { profile {} }";
  EXPECT_THAT(WarningsFor(ParseExperiment(text, "e", "/")), IsEmpty());
  text.replace(text.find("h100-sxm"), 8, "a40");
  EXPECT_THAT(WarningsFor(ParseExperiment(text, "e", "/")),
              ElementsAre("cost.profile: a40 has no measurements of matrix products and attention: "
                          "their times come from the data sheet, with wide intervals (twinserve "
                          "compare --draws)"));
}

TEST(ConfigWarningsTest, AServerOfAVersionThatIsNotListed) {
  ExperimentConfig config = Config();
  config.system.server = "vllm-0.19.0";
  EXPECT_THAT(WarningsFor(config), IsEmpty());
  config.system.server_asked = "vLLM 0.20.1";
  EXPECT_THAT(WarningsFor(config),
              ElementsAre("system.server: vLLM 0.20.1 is not listed; vllm-0.19.0 stands in for it "
                          "(defaults, decisions and boundary of 0.15.1)"));
}

TEST(ConfigWarningsTest, SharedPrefixesLongerThanTheContext) {
  ExperimentConfig config = Config();
  config.workload.shape.shared_prefix = {.prompts = 3, .tokens = 512, .zipf_exponent = 1};
  EXPECT_THAT(WarningsFor(config),
              ElementsAre("workload.shape.shared_prefix.tokens is 512, but a request may have 512 "
                          "tokens: all are rejected"));
  config.workload.shape.shared_prefix.tokens = 511;
  EXPECT_THAT(WarningsFor(config), IsEmpty());
}

// Prompts of 1 to 100 tokens with outputs of 10: those of 91 and more do not fit in 100, 10 %.
TEST(ConfigWarningsTest, PromptsThatAreCutToTheContext) {
  ExperimentConfig config = Config();
  config.workload.shape.sessions.context_tokens_max = 100;
  const std::vector<std::string> warnings = WarningsFor(config);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("workload.shape.sessions.context_tokens_max is 100"),
                                 HasSubstr("of the first prompts")));
  const auto about = warnings[0].find("about ");
  EXPECT_NEAR(std::stod(warnings[0].substr(about + 6)), 10, 2);
  config.workload.shape.sessions.context_tokens_max = 110;
  EXPECT_THAT(WarningsFor(config), IsEmpty());
}

TEST(ConfigWarningsTest, BlocksBeyondTheMemoryOfTheDevice) {
  ExperimentConfig config = Config();
  // Llama 3 8B: 16.06 GB of weights; a block of 16 tokens has 2 MiB. An H100 has 85.9 GB.
  config.system.memory.blocks_override = 34'000;
  EXPECT_THAT(WarningsFor(config), ElementsAre(HasSubstr("blocks_override gives 34000 blocks")));
  config.system.memory.blocks_override = 33'000;
  EXPECT_THAT(WarningsFor(config), IsEmpty());
}

TEST(ConfigWarningsTest, ContextsBeyondThePositionsOfTheModel) {
  ExperimentConfig config = Config();
  std::get<VllmV1Config>(config.policy).max_model_len = 8193;
  EXPECT_THAT(WarningsFor(config),
              ElementsAre(AllOf(HasSubstr("8193"), HasSubstr("the model has 8192 positions"))));
}

TEST(ConfigWarningsTest, FormatsThatTheDeviceDoesNotComputeWith) {
  ExperimentConfig config = Config();
  config.system.model_spec.weight_dtype = DType::kFp8;
  EXPECT_THAT(WarningsFor(config), IsEmpty());
  config.system.hardware_spec.peak_fp8_flops = 0;
  EXPECT_THAT(WarningsFor(config), ElementsAre(HasSubstr("weight_dtype is fp8")));
}

TEST(OutputSizeTest, LargeRunsAnnounceTheirSizeAndHowToShrinkIt) {
  ExperimentConfig config = Config();
  config.workload.requests = 100'000;
  EXPECT_EQ(LargeOutputNote(config), std::nullopt);
  config.workload.requests = 1'000'000;
  // 1e6 requests of 2000 + 1200 + 900 + 140 bytes.
  EXPECT_EQ(LargeOutputNote(config),
            "the run directory will take about 4.2 GB (4.2 kB per request); to make it smaller: "
            "--set outputs.record=false --set outputs.perfetto=false --set "
            "outputs.steps_csv=false --set outputs.requests_csv=false");
  config.outputs = {.requests_csv = true,
                    .steps_csv = false,
                    .series_csv = true,
                    .record = false,
                    .compress_record = false,
                    .perfetto = false};
  EXPECT_THAT(LargeOutputNote(config).value_or(""),
              AllOf(HasSubstr("0.14 GB"), Not(HasSubstr("perfetto"))));
  config.outputs.requests_csv = false;
  EXPECT_EQ(LargeOutputNote(config), std::nullopt);
}

}  // namespace
}  // namespace twin::lab
