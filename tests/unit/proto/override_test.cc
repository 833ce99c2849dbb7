#include "proto/override.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/input_error.h"
#include "proto/cost.pb.h"
#include "proto/policy.pb.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& assignment) {
  proto::Policy policy;
  try {
    ApplyOverride(assignment, policy);
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
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

TEST(OverrideTest, NamingAMemberOfAOneofSelectsIt) {
  proto::Policy policy;
  policy.mutable_orca()->set_max_bs(3);
  ApplyOverride("vllm_v1.max_num_seqs=64", policy);
  EXPECT_EQ(policy.kind_case(), proto::Policy::kVllmV1);
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
