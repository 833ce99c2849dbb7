// Settings of a policy for the release's scheduler in its place.
#include "config/engine_settings.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "config/policy.pb.h"
#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

proto::Policy PolicyOf(const std::string& text) {
  proto::Policy policy;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &policy)) << text;
  return policy;
}

proto::OwnPolicy OwnOf(const std::string& text) { return PolicyOf("own {" + text + "}").own(); }

std::map<std::string, std::string> ParametersOf(const proto::OwnPolicy& own) {
  std::map<std::string, std::string> parameters;
  for (const proto::OwnPolicy::Parameter& parameter : own.parameters()) {
    EXPECT_TRUE(parameters.emplace(parameter.name(), parameter.value()).second) << parameter.name();
  }
  return parameters;
}

TEST(EngineSettingsTest, FieldsOfThePolicyBecomeParameters) {
  proto::OwnPolicy own = OwnOf(R"(engine: "vllm==0.33.0")");
  GiveSettings(PolicyOf("vllm_v1 { max_num_seqs: 64 policy: priority watermark: 0.01 "
                        "enable_prefix_caching: true enable_chunked_prefill: false }"),
               own);
  EXPECT_THAT(ParametersOf(own),
              UnorderedElementsAre(Pair("max_num_seqs", "64"), Pair("policy", "priority"),
                                   Pair("watermark", "0.01"), Pair("enable_prefix_caching", "true"),
                                   Pair("enable_chunked_prefill", "false")));
}

TEST(EngineSettingsTest, ParametersThatWereGivenStay) {
  proto::OwnPolicy own =
      OwnOf(R"(engine: "vllm==0.33.0" parameters { name: "max_num_seqs" value: "8" })");
  GiveSettings(PolicyOf("vllm_v1 { max_num_seqs: 64 }"), own);
  EXPECT_THAT(ParametersOf(own), UnorderedElementsAre(Pair("max_num_seqs", "8")));
}

// The engine then refuses them by their names: it has no such parameter.
TEST(EngineSettingsTest, NoSettingIsLeftOut) {
  proto::OwnPolicy own = OwnOf(R"(engine: "vllm==0.33.0")");
  GiveSettings(PolicyOf("vllm_v1 { order {} pipeline_parallel_size: 2 }"), own);
  EXPECT_THAT(ParametersOf(own),
              UnorderedElementsAre(Pair("order", ""), Pair("pipeline_parallel_size", "2")));
}

TEST(EngineSettingsTest, SettingsOfAnotherPolicyAreRefused) {
  proto::OwnPolicy own = OwnOf(R"(engine: "vllm==0.33.0")");
  EXPECT_THAT([&] { GiveSettings(PolicyOf("orca { max_bs: 4 }"), own); },
              ThrowsMessage<InputError>(
                  HasSubstr("policy.orca.max_bs: cannot be given to the scheduler of vllm==0.33.0; "
                            "allowed: the settings of policy.vllm_v1, or --unset policy.orca")));
  GiveSettings(PolicyOf("orca {}"), own);
  EXPECT_EQ(own.parameters_size(), 0);
}

TEST(EngineSettingsTest, AnotherReleaseIsRefused) {
  proto::OwnPolicy own = OwnOf(R"(engine: "vllm==0.33.0")");
  EXPECT_THAT([&] { GiveSettings(PolicyOf("vllm_v1 { release: v0_15_1 }"), own); },
              ThrowsMessage<InputError>(
                  HasSubstr("policy.vllm_v1.release: is v0_15_1, but vllm==0.33.0 decides; "
                            "allowed: v0_33_0, or without it")));
  GiveSettings(PolicyOf("vllm_v1 { release: v0_33_0 }"), own);
  EXPECT_EQ(own.parameters_size(), 0);
  // It decides as the release before it.
  proto::OwnPolicy between = OwnOf(R"(engine: "vllm==0.32.0")");
  GiveSettings(PolicyOf("vllm_v1 { release: v0_31_0 pipeline_parallel_size: 1 }"), between);
  EXPECT_EQ(between.parameters_size(), 0);
}

// The engine names its release, and a class decides what async_scheduling says.
TEST(EngineSettingsTest, AServerGivesWhatTheEngineLeavesOpen) {
  const proto::Policy server =
      PolicyOf("vllm_v1 { release: v0_33_0 max_num_seqs: 256 async_scheduling: true }");
  proto::OwnPolicy engine = OwnOf(R"(engine: "vllm==0.33.0")");
  GiveServerSettings(server, engine);
  EXPECT_THAT(ParametersOf(engine),
              UnorderedElementsAre(Pair("max_num_seqs", "256"), Pair("async_scheduling", "true")));
  proto::OwnPolicy of_class = OwnOf(R"(engine: "vllm==0.33.0" class: "rules:Mine")");
  GiveServerSettings(server, of_class);
  EXPECT_THAT(ParametersOf(of_class), UnorderedElementsAre(Pair("max_num_seqs", "256")));
}

}  // namespace
}  // namespace twin
