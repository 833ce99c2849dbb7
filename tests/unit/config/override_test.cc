#include "config/override.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "config/cost.pb.h"
#include "config/experiment.pb.h"
#include "config/policy.pb.h"
#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& assignment, google::protobuf::Message& message) {
  try {
    ApplyOverride(assignment, message);
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

std::string ErrorOf(const std::string& assignment) {
  proto::Policy policy;
  return ErrorOf(assignment, policy);
}

TEST(OverrideTest, SetsANestedScalar) {
  proto::Policy policy;
  ApplyOverride("vllm_v0.max_num_seqs=64", policy);
  ApplyOverride("vllm_v0.watermark = 0.5", policy);
  ApplyOverride("vllm_v0.policy=priority", policy);
  ApplyOverride("vllm_v0.enable_chunked_prefill=true", policy);
  EXPECT_EQ(policy.vllm_v0().max_num_seqs(), 64);
  EXPECT_EQ(policy.vllm_v0().watermark(), 0.5);
  EXPECT_EQ(policy.vllm_v0().policy(), proto::VllmV0Policy::priority);
  EXPECT_TRUE(policy.vllm_v0().enable_chunked_prefill());
}

TEST(OverrideTest, ANameStandsForItsValueInAListOfNamesWithValues) {
  proto::Policy policy;
  ApplyOverride("own.path=/p/fair.so", policy);
  ApplyOverride("own.parameters.share=0.5", policy);
  ApplyOverride("own.parameters.mode = \"a b\"", policy);
  ApplyOverride("own.parameters.share=1", policy);
  EXPECT_EQ(policy.own().ShortDebugString(),
            "path: \"/p/fair.so\" parameters { name: \"share\" value: \"1\" } "
            "parameters { name: \"mode\" value: \"a b\" }");
  ApplyOverride("!own.parameters.share", policy);
  ApplyOverride("!own.parameters.none", policy);
  EXPECT_EQ(policy.own().parameters_size(), 1);
  EXPECT_EQ(policy.own().parameters(0).name(), "mode");
  ApplyOverride("own.parameters[0].value=c", policy);
  EXPECT_EQ(policy.own().parameters(0).value(), "c");
  EXPECT_THAT(ErrorOf("own.parameters.share+=1", policy), HasSubstr("is one value"));
  EXPECT_THAT(ErrorOf("own.parameters.share[0]=1", policy), HasSubstr("is one value"));
}

TEST(OverrideTest, AMemberOfAOneofReplacesTheOtherAsAWhole) {
  proto::Policy policy;
  policy.mutable_orca()->set_max_bs(3);
  ApplyOverride("vllm_v1={max_num_seqs: 64}", policy);
  EXPECT_EQ(policy.kind_case(), proto::Policy::kVllmV1);
  EXPECT_EQ(policy.vllm_v1().max_num_seqs(), 64);
}

TEST(OverrideTest, APathLeadsIntoAMemberOfAOneofOfWhichNothingIsSet) {
  proto::Experiment experiment;
  ApplyOverride("policy.vllm_v1.max_num_seqs=64", experiment);
  EXPECT_EQ(experiment.policy().vllm_v1().max_num_seqs(), 64);
}

TEST(OverrideTest, NamesTheMemberThatIsSetAndTheWayToReplaceIt) {
  proto::Experiment experiment;
  experiment.mutable_policy()->mutable_sarathi()->set_chunk_size(512);
  const std::string change = "policy.vllm_v1.max_num_batched_tokens=512";
  EXPECT_EQ(ErrorOf(change, experiment),
            "--set " + change +
                ": policy is sarathi, not vllm_v1; allowed: policy.sarathi, or --set "
                "'policy.vllm_v1={ ... }', which replaces sarathi");
  EXPECT_EQ(experiment.policy().sarathi().chunk_size(), 512);
  experiment.mutable_system()->add_replica_groups()->mutable_cost()->mutable_constant();
  EXPECT_THAT(ErrorOf("system.replica_groups[0].cost.linear.base_s=1", experiment),
              HasSubstr("system.replica_groups[0].cost is constant, not linear"));
}

// Every oneof of an experiment, from the path of its message on.
void ForEachOneof(const google::protobuf::Descriptor& type, const std::string& path,
                  const std::function<void(const std::string&,
                                           const google::protobuf::OneofDescriptor&)>& visit) {
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) visit(path, *type.oneof_decl(i));
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    if (field.message_type() == nullptr || field.is_repeated()) continue;
    ForEachOneof(*field.message_type(), path + (path.empty() ? "" : ".") + field.name(), visit);
  }
}

TEST(OverrideTest, RefusesAPathIntoEveryMemberOfAOneofBesideTheOneThatIsSet) {
  int refused = 0;
  ForEachOneof(*proto::Experiment::descriptor(), "",
               [&](const std::string& path, const google::protobuf::OneofDescriptor& oneof) {
                 const std::string set = oneof.field(0)->name();
                 for (int i = 1; i < oneof.field_count(); ++i) {
                   const google::protobuf::FieldDescriptor& member = *oneof.field(i);
                   proto::Experiment experiment;
                   ApplyOverride(path + "." + set + "={}", experiment);
                   const std::string into =
                       path + "." + member.name() + "." + member.message_type()->field(0)->name();
                   EXPECT_THAT(ErrorOf(into + "=1", experiment), HasSubstr(path + " is " + set))
                       << into;
                   ++refused;
                 }
               });
  // Two further worlds, 16 policies and 5 cost models, which a pool of FFN devices may have, too.
  EXPECT_EQ(refused, 2 + 16 + 2 * 5);
}

TEST(OverrideTest, OffersAFieldOfThatNameFromElsewhere) {
  proto::Experiment experiment;
  EXPECT_THAT(ErrorOf("system.weight_dtype=fp8", experiment),
              StartsWith("--set system.weight_dtype=fp8: no field \"weight_dtype\" in System; "
                         "there is system.model_shape.weight_dtype"));
  EXPECT_THAT(ErrorOf("system.rate=3", experiment), HasSubstr("there is workload.arrivals.rate"));
  EXPECT_THAT(ErrorOf("workload.rate=3", experiment), HasSubstr("there is workload.arrivals.rate"));
}

TEST(OverrideTest, UnsetTakesAFieldBack) {
  proto::Policy policy;
  ApplyOverride("vllm_v1.max_num_seqs=64", policy);
  ApplyOverride("vllm_v1.release=v0_33_0", policy);
  ApplyOverride("!vllm_v1.max_num_seqs", policy);
  EXPECT_FALSE(policy.vllm_v1().has_max_num_seqs());
  EXPECT_TRUE(policy.vllm_v1().has_release());
  ApplyOverride("!vllm_v1", policy);
  EXPECT_EQ(policy.kind_case(), proto::Policy::KIND_NOT_SET);
}

TEST(OverrideTest, UnsetOfAFieldThatIsNotSetMakesNothing) {
  proto::Policy policy;
  ApplyOverride("!vllm_v1.max_num_seqs", policy);
  EXPECT_EQ(policy.kind_case(), proto::Policy::KIND_NOT_SET);
}

TEST(OverrideTest, UnsetRemovesOneElementAndKeepsTheOrderOfTheOthers) {
  proto::FittedCost cost;
  ApplyOverride("decode_buckets=[1, 2, 4, 8]", cost);
  ApplyOverride("!decode_buckets[1]", cost);
  EXPECT_EQ(cost.ShortDebugString(), "decode_buckets: 1 decode_buckets: 4 decode_buckets: 8");
  ApplyOverride("!decode_buckets", cost);
  EXPECT_EQ(cost.decode_buckets_size(), 0);
}

TEST(OverrideTest, UnsetSaysWhatItCannotTakeBack) {
  EXPECT_THAT(ErrorOf("!vllm_v1.max_num_sexs"),
              AllOf(StartsWith("--unset vllm_v1.max_num_sexs: no field"),
                    HasSubstr("nearest \"max_num_seqs\"")));
  EXPECT_THAT(ErrorOf("!vllm_v1.max_num_seqs=3"), HasSubstr("has a value"));
  EXPECT_THAT(ErrorOf("!vllm_v1.max_num_seqs.x"), HasSubstr("max_num_seqs has no fields"));
}

TEST(OverrideTest, ReplacesAWholeMessage) {
  proto::Policy policy;
  policy.mutable_orca()->set_max_bs(3);
  ApplyOverride("orca={n_workers: 2}", policy);
  EXPECT_EQ(policy.orca().n_workers(), 2);
  EXPECT_FALSE(policy.orca().has_max_bs());
  ApplyOverride("orca=max_bs: 5", policy);
  EXPECT_EQ(policy.orca().max_bs(), 5);
  EXPECT_FALSE(policy.orca().has_n_workers());
  ApplyOverride("orca={}", policy);
  EXPECT_EQ(policy.kind_case(), proto::Policy::kOrca);
  EXPECT_FALSE(policy.orca().has_max_bs());
}

TEST(OverrideTest, SuggestsTheNearestField) {
  EXPECT_THAT(ErrorOf("vllm_v0.max_num_seq=64"),
              AllOf(StartsWith("--set vllm_v0.max_num_seq=64: no field \"max_num_seq\""),
                    HasSubstr("nearest \"max_num_seqs\"")));
  EXPECT_THAT(ErrorOf("vllm_v2.max_num_seqs=64"), HasSubstr("nearest \"vllm_v0\""));
  EXPECT_THAT(ErrorOf("orca={max_b: 3}"), HasSubstr("nearest \"max_bs\""));
}

TEST(OverrideTest, SaysWhatTheFieldTakes) {
  EXPECT_THAT(ErrorOf("vllm_v0.max_num_seqs=many"), HasSubstr("an integer of 32 bits"));
  EXPECT_THAT(ErrorOf("vllm_v0.policy=lifo"), HasSubstr("allowed: fcfs, priority"));
  EXPECT_THAT(ErrorOf("vllm_v0.max_num_seqs="), HasSubstr("an integer of 32 bits"));
  EXPECT_THAT(ErrorOf("vllm_v0.max_num_seqs.x=3"), HasSubstr("max_num_seqs has no fields"));
}

TEST(OverrideTest, RefusesWhatIsNoAssignment) {
  EXPECT_THAT(ErrorOf("vllm_v0.max_num_seqs"), HasSubstr("is no assignment"));
  EXPECT_THAT(ErrorOf("=3"), HasSubstr("is no assignment"));
  EXPECT_THAT(ErrorOf(".max_num_seqs=3"), HasSubstr("no field \"\""));
}

TEST(OverrideTest, RefusesASecondValueBehindTheFirst) {
  EXPECT_THAT(ErrorOf("orca.max_bs=3 n_workers: 2"), HasSubstr("more than one value"));
  EXPECT_THAT(ErrorOf("orca.max_bs=3 }"), Not(HasSubstr("\n")));
  EXPECT_NE(ErrorOf("orca.max_bs=3 }"), "");
}

TEST(OverrideTest, SaysOneLineWhateverTheNameIs) {
  EXPECT_THAT(ErrorOf("or\nca.max_bs=3"), AllOf(HasSubstr("or\\x0aca"), Not(HasSubstr("\n"))));
}

TEST(OverrideTest, RefusesListSyntaxOnASingleField) {
  EXPECT_THAT(ErrorOf("orca.max_bs[0]=3"), HasSubstr("max_bs is no list"));
  EXPECT_THAT(ErrorOf("orca.max_bs+=3"), HasSubstr("max_bs is no list"));
  EXPECT_THAT(ErrorOf("orca[1].max_bs=3"), HasSubstr("orca is no list"));
  EXPECT_THAT(ErrorOf("orca[x].max_bs=3"), HasSubstr("name[i]"));
}

}  // namespace
}  // namespace twin
