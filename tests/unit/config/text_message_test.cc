#include "config/text_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "config/policy.pb.h"
#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The error line for a policy text; empty if it is accepted.
std::string ErrorOf(const std::string& text) {
  proto::Policy policy;
  try {
    ParseText(text, {"run.textproto"}, policy);
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

TEST(TextMessageTest, ReadsWhatIsRight) {
  proto::Policy policy;
  ParseText("# A comment.\nvllm_v0 { max_num_seqs: 8 policy: priority watermark: 0.25 }", {"f"},
            policy);
  EXPECT_EQ(policy.kind_case(), proto::Policy::kVllmV0);
  EXPECT_EQ(policy.vllm_v0().max_num_seqs(), 8);
  EXPECT_EQ(policy.vllm_v0().policy(), proto::VllmV0Policy::priority);
  EXPECT_EQ(policy.vllm_v0().watermark(), 0.25);
  EXPECT_FALSE(policy.vllm_v0().has_max_model_len());
}

TEST(TextMessageTest, ForgetsTheOldContent) {
  proto::Policy policy;
  policy.mutable_orca()->set_max_bs(3);
  ParseText("static {}", {"f"}, policy);
  EXPECT_EQ(policy.kind_case(), proto::Policy::kStatic);
}

TEST(TextMessageTest, NamesPlaceAndNearestNameOfAMisspeltField) {
  const std::string error = ErrorOf("vllm_v0 {\n  max_num_seqs: 8\n  max_model_length: 64\n}");
  EXPECT_THAT(error, StartsWith("run.textproto:3:3: "));
  EXPECT_THAT(error, HasSubstr("no field \"max_model_length\" in VllmV0Policy"));
  EXPECT_THAT(error, HasSubstr("nearest \"max_model_len\""));
  EXPECT_THAT(error, HasSubstr("allowed: max_num_batched_tokens, max_num_seqs"));
  EXPECT_THAT(error, Not(HasSubstr("\n")));
}

TEST(TextMessageTest, ListsTheFieldsOfTheMessage) {
  const std::string error = ErrorOf("orca { colour: 8 }");
  EXPECT_THAT(error, HasSubstr("no field \"colour\" in OrcaPolicy"));
  EXPECT_THAT(error, HasSubstr("allowed: reservation, n_workers, max_bs"));
}

TEST(TextMessageTest, LooksIntoTheRightMessage) {
  // max_bs is Orca's field, not vLLM's.
  EXPECT_THAT(ErrorOf("vllm_v1 { max_bs: 8 }"), HasSubstr("in VllmV1Policy"));
  EXPECT_THAT(ErrorOf("vlm_v1 {}"), HasSubstr("in Policy; nearest \"vllm_v1\""));
}

TEST(TextMessageTest, NamesFieldAndAllowedValuesOfAWrongEnumValue) {
  const std::string error = ErrorOf("vllm_v0 {\n  policy: fcsf\n}");
  EXPECT_THAT(error, StartsWith("run.textproto:2:11: "));
  EXPECT_THAT(error, HasSubstr("vllm_v0.policy: no value \"fcsf\"; nearest \"fcfs\""));
  EXPECT_THAT(error, HasSubstr("allowed: fcfs, priority"));
}

TEST(TextMessageTest, NamesFieldAndTypeOfAWrongValue) {
  EXPECT_THAT(ErrorOf("vllm_v0 { max_num_seqs: \"8\" }"),
              AllOf(StartsWith("run.textproto:1:25: vllm_v0.max_num_seqs: Expected integer"),
                    HasSubstr("the field takes an integer of 32 bits")));
  EXPECT_THAT(ErrorOf("vllm_v0 { max_num_seqs: 3000000000 }"),
              AllOf(HasSubstr("vllm_v0.max_num_seqs: Integer out of range"),
                    HasSubstr("an integer of 32 bits")));
  EXPECT_THAT(ErrorOf("vllm_v0 { enable_chunked_prefill: maybe }"), HasSubstr("true or false"));
  EXPECT_THAT(ErrorOf("vllm_v0 { watermark: high }"), HasSubstr("a number"));
  EXPECT_THAT(ErrorOf("vllm_v0: 3"), HasSubstr("{ ... } with the fields"));
}

TEST(TextMessageTest, RefusesAFieldGivenTwiceAndTwoMembersOfAOneof) {
  EXPECT_THAT(ErrorOf("orca { max_bs: 1 max_bs: 2 }"), HasSubstr("specified multiple times"));
  EXPECT_THAT(ErrorOf("orca {} static {}"), HasSubstr("another member of oneof"));
}

TEST(TextMessageTest, RefusesAnUnfinishedText) {
  EXPECT_THAT(ErrorOf("orca { max_bs: 1"), StartsWith("run.textproto:1:"));
  EXPECT_THAT(ErrorOf("orca {{{{{{{{{{{{{{{{{{{"), StartsWith("run.textproto:1:"));
}

TEST(TextMessageTest, PrintsWhatItReadsBack) {
  proto::Policy policy;
  policy.mutable_sarathi()->set_chunk_size(512);
  policy.mutable_sarathi()->set_watermark(0.1);
  proto::Policy again;
  ParseText(PrintText(policy), {"printed"}, again);
  EXPECT_EQ(again.SerializeAsString(), policy.SerializeAsString());
}

TEST(TextMessageTest, RefusesAFileThatIsNotThereOrAFolder) {
  const auto error_of = [](const std::filesystem::path& path) -> std::string {
    try {
      (void)ReadTextFile(path);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of("no/such/file"), HasSubstr("no/such/file: does not exist"));
  EXPECT_THAT(error_of(std::filesystem::temp_directory_path()), HasSubstr("no regular file"));
}

}  // namespace
}  // namespace twin
