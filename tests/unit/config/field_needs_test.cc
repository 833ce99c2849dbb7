#include "config/field_needs.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/experiment.pb.h"
#include "config/experiment_config.h"
#include "config/options.pb.h"
#include "config/text_message.h"

namespace twin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kExperiment = R"(
workload {
  requests: 100
  arrivals { kind: poisson rate: 2 }
  shape { prompt { kind: fixed value: 10 } output { kind: fixed value: 10 } }
}
system { model: "llama-3-8b" hardware: "h100-sxm" }
cost { constant { step_s: 0.01 } }
)";

constexpr const char* kV1 = "policy={ vllm_v1 {} }";

// What a user reads of the experiment with these changes.
std::vector<std::string> Unread(const std::vector<std::string>& changes) {
  const ExperimentTemplate experiment = ExperimentTemplate::FromText(kExperiment, "test");
  return SettingsWithoutEffect(experiment.With(changes, "/"));
}

std::string NoEffect(const std::string& field, const std::string& need) {
  return field + " has no effect: it needs " + need;
}

TEST(SettingsWithoutEffectTest, AnExperimentWhoseFieldsAreAllReadHasNone) {
  EXPECT_THAT(Unread({kV1, "policy.vllm_v1.watermark=0.1", "system.memory.utilization=0.8"}),
              IsEmpty());
}

TEST(SettingsWithoutEffectTest, AFieldOfAnotherKindIsNamedWithWhatItNeeds) {
  EXPECT_THAT(
      Unread({kV1, "workload.max_output={ value: 10 }"}),
      ElementsAre(NoEffect("workload.max_output.value", "workload.max_output.kind: fixed")));
  EXPECT_THAT(Unread({kV1, "workload.shape.prompt.sigma=2"}),
              ElementsAre(NoEffect("workload.shape.prompt.sigma",
                                   "workload.shape.prompt.kind: lognormal")));
  EXPECT_THAT(Unread({kV1, "workload.shape.sessions.think.mean_s=2"}),
              ElementsAre(NoEffect("workload.shape.sessions.think",
                                   "workload.shape.sessions.turns.kind other than none")));
}

TEST(SettingsWithoutEffectTest, ParametersThatARuleOfThePolicyDoesNotRead) {
  EXPECT_THAT(Unread({"policy={ vllm_v1 { release: v0_15_1 watermark: 0.1 "
                      "max_num_active_seqs: 4 } }"}),
              ElementsAre(NoEffect("policy.vllm_v1.watermark",
                                   "policy.vllm_v1.release other than v0_15_1 or v0_19_0 or "
                                   "v0_23_0"),
                          NoEffect("policy.vllm_v1.max_num_active_seqs",
                                   "policy.vllm_v1.release: v0_31_0 or v0_33_0")));
  EXPECT_THAT(Unread({"policy={ static { padded: true max_model_len: 99 } }"}),
              ElementsAre(NoEffect("policy.static.max_model_len", "no policy.static.padded")));
  EXPECT_THAT(Unread({"policy={ sglang { schedule_policy: lpm radix_cache: false } }"}),
              ElementsAre(NoEffect("policy.sglang.schedule_policy",
                                   "policy.sglang.schedule_policy other than lpm or "
                                   "policy.sglang.radix_cache")));
  EXPECT_THAT(Unread({"policy={ sarathi { low_chunk_size: 64 } }"}),
              ElementsAre(NoEffect("policy.sarathi.low_chunk_size",
                                   "policy.sarathi.enable_dynamic_chunking_schedule")));
}

TEST(SettingsWithoutEffectTest, ARouterOfOneReplica) {
  const std::string router = "system.router={ kind: LEAST_KV telemetry_delay_ms: 5 }";
  EXPECT_THAT(Unread({kV1, router}),
              ElementsAre(NoEffect("system.router", "system.replicas above 1")));
  EXPECT_THAT(Unread({kV1, router, "system.replicas=2"}), IsEmpty());
  EXPECT_THAT(
      Unread({kV1, router, "system.replicas=2", "system.router.overlap_weight=3"}),
      ElementsAre(NoEffect("system.router.overlap_weight", "system.router.kind: KV_OVERLAP")));
}

TEST(SettingsWithoutEffectTest, MemoryThatDoesNotSizeTheCache) {
  EXPECT_THAT(
      Unread({kV1, "system.memory={ blocks_override: 1000 utilization: 0.5 swap_bytes: 7 }"}),
      ElementsAre(NoEffect("system.memory.utilization", "no system.memory.blocks_override"),
                  NoEffect("system.memory.swap_bytes", "system.memory.rule: vllm_v0 or sarathi")));
}

// A resolved experiment sets every field; those that nothing reads have the values that they have
// anyway.
TEST(SettingsWithoutEffectTest, AResolvedExperimentHasNone) {
  for (const char* const policy : {"vllm_v1 { release: v0_15_1 }", "static { padded: true }",
                                   "sglang { radix_cache: false }", "fastserve {}", "orca {}"}) {
    const ExperimentTemplate asked = ExperimentTemplate::FromText(kExperiment, "test");
    const std::string resolved = WriteResolved(
        asked.With(std::vector<std::string>{std::string("policy={ ") + policy + " }"}, "/"));
    EXPECT_THAT(SettingsWithoutEffect(ExperimentTemplate::FromText(resolved, "test").With({}, "/")),
                IsEmpty())
        << policy;
  }
}

// Every need of the schema is about fields that exist: UnmetNeeds() CHECKs it.
void SetAll(google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.real_containing_oneof() != nullptr && field.index_in_oneof() > 0) continue;
    if (field.message_type() != nullptr) {
      SetAll(field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                 : *reflection.MutableMessage(&message, &field));
    } else if (!field.is_repeated() && field.enum_type() != nullptr) {
      reflection.SetEnum(&message, &field, field.enum_type()->value(0));
    } else if (!field.is_repeated() &&
               field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT32) {
      reflection.SetInt32(&message, &field, 0);
    } else if (!field.is_repeated() &&
               field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE) {
      reflection.SetDouble(&message, &field, 0);
    } else if (!field.is_repeated() &&
               field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL) {
      reflection.SetBool(&message, &field, false);
    }
  }
}

TEST(UnmetNeedsTest, EveryNeedNamesFieldsOfTheSchema) {
  const google::protobuf::Descriptor& policies = *proto::Policy::descriptor();
  for (int i = 0; i < policies.field_count(); ++i) {
    proto::Experiment experiment;
    SetAll(experiment);
    google::protobuf::Message& policy = *experiment.mutable_policy();
    SetAll(*policy.GetReflection()->MutableMessage(&policy, policies.field(i)));
    EXPECT_FALSE(UnmetNeeds(experiment, experiment).empty()) << policies.field(i)->name();
  }
  for (const char* const text : {"cost { profile { captured_size_max: 8 } }",
                                 "world { real { device: cuda threads: 3 } }"}) {
    proto::Experiment experiment;
    ParseText(text, {"test"}, experiment);
    EXPECT_EQ(UnmetNeeds(experiment, experiment).size(), 1U) << text;
  }
}

}  // namespace
}  // namespace twin
