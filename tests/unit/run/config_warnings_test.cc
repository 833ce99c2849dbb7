// Settings that are valid but hardly meant are warned of, and large outputs are announced.
#include "run/config_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "run/output_size.h"
#include "sched/policy/vllm_v1.h"

namespace twin::run {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

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
                          "(defaults of 0.19.0; boundary of 0.15.1; decisions are those of 0.19.0, "
                          "which "
                          "it shares)"));
}

TEST(ConfigWarningsTest, AServerWhoseDecisionsWereNotCompared) {
  ExperimentConfig config = Config();
  config.system.server = "vllm-0.8.5";
  EXPECT_THAT(
      WarningsFor(config),
      ElementsAre("system.server: vllm-0.8.5: decisions are those of another release, 0.15.1"));
  config.system.server = "vllm-0.33.0";
  config.system.server_asked = "vLLM 0.34.0";
  EXPECT_THAT(WarningsFor(config),
              ElementsAre(HasSubstr("decisions are those of another release, 0.33.0)")));
}

// As a user's file, of which it is known what it leaves open.
std::vector<std::string> WarningsOfText(const std::string& text,
                                        std::shared_ptr<const OwnPolicy> own = nullptr) {
  ExperimentTemplate experiment = ExperimentTemplate::FromText(text, "e");
  experiment.ReplacePolicy(std::move(own));
  return WarningsFor(experiment.With({}, "/"));
}

std::string With(const std::string& from, const std::string& to, std::string text = kExperiment) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(ConfigWarningsTest, ARooflineOfADeviceThatWasMeasured) {
  const auto roofline = HasSubstr("although h100-sxm was measured: cost { profile {} }");
  EXPECT_THAT(WarningsOfText(kExperiment), ElementsAre(roofline));
  EXPECT_THAT(WarningsOfText(std::string(kExperiment) + "cost { roofline { host_s: 1e-3 } }"),
              IsEmpty());
  EXPECT_THAT(WarningsOfText(With("h100-sxm", "a40")), IsEmpty());
}

TEST(ConfigWarningsTest, AVllmThatWaitsForItsHostByDefault) {
  const std::string profile = "cost { profile {} }";
  EXPECT_THAT(WarningsOfText(kExperiment + profile),
              ElementsAre(HasSubstr("policy.vllm_v1.async_scheduling is false by default")));
  EXPECT_THAT(WarningsOfText(With("max_model_len: 512", "async_scheduling: false") + profile),
              IsEmpty());
  EXPECT_THAT(WarningsOfText(With("system {", "system { server: 'vLLM 0.33.0'") + profile),
              IsEmpty());
}

TEST(ConfigWarningsTest, AServerBesideThePolicyOfAnotherSystem) {
  EXPECT_THAT(
      WarningsOfText(With("policy { vllm_v1 { max_model_len: 512 } }\nsystem {",
                          "policy { sarathi {} }\nsystem { server: 'vLLM 0.33.0'") +
                     "cost { constant { step_s: 0.01 } }"),
      ElementsAre("system.server: vllm-0.33.0 decides by policy.vllm_v1, but the experiment has "
                  "policy.sarathi: memory and boundary are the server's, decisions are not"));
}

TEST(ConfigWarningsTest, AnOutputLimitThatTellsAPolicyTheLength) {
  const std::string constant = "cost { constant { step_s: 0.01 } }";
  const std::string sjf =
      With("max_model_len: 512", "max_model_len: 512 order { kind: sjf }") + constant;
  EXPECT_THAT(WarningsOfText(sjf), ElementsAre(HasSubstr("which is the true output length")));
  EXPECT_THAT(WarningsOfText(
                  With("requests: 100", "requests: 100 max_output { kind: fixed value: 64 }", sjf)),
              IsEmpty());
  EXPECT_THAT(
      WarningsOfText(With("requests: 100", "requests: 100 prediction { kind: oracle }", sjf)),
      IsEmpty());
  auto own = std::make_shared<OwnPolicy>();
  own->name = "Mine";
  own->traits = VllmV1Config{}.Traits();
  own->traits.name = own->name;
  EXPECT_THAT(WarningsOfText(kExperiment + constant, own),
              ElementsAre(HasSubstr("the output limit that Mine sees is the true output length")));
}

TEST(ConfigWarningsTest, NumbersOfTheDeviceThatNothingReads) {
  const std::string sheet =
      With("hardware: \"h100-sxm\"",
           "hardware: \"h100-sxm\" hardware_spec { gemm_latency_s: 1e-5 "
           "attention_flops_fraction: 0.5 link_latency_s: 1e-5 memory_bytes: 80000000000 }");
  const std::string links = "system.hardware_spec.link_latency_s has no effect";
  EXPECT_THAT(WarningsOfText(sheet + "cost { constant { step_s: 0.01 } }"),
              ElementsAre(StartsWith(
                  "system.hardware_spec.link_latency_s, system.hardware_spec."
                  "attention_flops_fraction, system.hardware_spec.gemm_latency_s have no effect")));
  EXPECT_THAT(WarningsOfText(sheet + "cost { roofline { host_s: 1e-3 } }"),
              ElementsAre(StartsWith(links)));
  EXPECT_THAT(WarningsOfText(sheet + "cost { profile { engine: v1_sync } }"),
              ::testing::Contains(HasSubstr("gemm_latency_s")));
}

// It sets every number of the device to what the data sheet says.
TEST(ConfigWarningsTest, AResolvedExperimentHasNone) {
  const std::string text = std::string(kExperiment) + "cost { constant { step_s: 0.01 } }";
  EXPECT_THAT(WarningsOfText(WriteResolved(ExperimentTemplate::FromText(text, "e").With({}, "/"))),
              IsEmpty());
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
  config.policy.Get<VllmV1Config>().max_model_len = 8193;
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
}  // namespace twin::run
