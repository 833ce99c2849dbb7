#include "config/overlay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/policy.pb.h"
#include "config/text_message.h"
#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::HasSubstr;

constexpr const char* kWayOut = "a new file";

proto::Policy Parsed(const std::string& text) {
  proto::Policy policy;
  ParseText(text, {"test"}, policy);
  return policy;
}

TEST(OverlayTest, KeepsTheFieldsThatTheUpperLeavesOpen) {
  proto::Policy lower = Parsed("vllm_v0 { max_num_seqs: 8 max_model_len: 64 }");
  Overlay(Parsed("vllm_v0 { max_num_seqs: 16 watermark: 0 }"), lower, kWayOut);
  EXPECT_EQ(lower.vllm_v0().max_num_seqs(), 16);
  EXPECT_EQ(lower.vllm_v0().max_model_len(), 64);
  EXPECT_TRUE(lower.vllm_v0().has_watermark());
}

TEST(OverlayTest, RefusesAnotherMemberOfAOneof) {
  proto::Policy lower = Parsed("vllm_v0 { max_num_seqs: 8 }");
  try {
    Overlay(Parsed("orca { max_bs: 2 }"), lower, kWayOut);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is laid over vllm_v0, not over orca; allowed: fields of "
                                        "vllm_v0, or a new file"));
  }
  EXPECT_EQ(PrintText(lower), PrintText(Parsed("vllm_v0 { max_num_seqs: 8 }")));
}

std::string RuleError(const std::string& text) {
  try {
    CheckRules(Parsed(text), "run.textproto");
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

TEST(RulesTest, NameFieldBoundAndValue) {
  EXPECT_EQ(RuleError("vllm_v0 { max_num_seqs: 0 }"),
            "run.textproto: vllm_v0.max_num_seqs: must be at least 1, is 0");
  EXPECT_EQ(RuleError("vllm_v0 { watermark: 1.5 }"),
            "run.textproto: vllm_v0.watermark: must be at most 1, is 1.5");
  EXPECT_THAT(RuleError("vllm_v0 { watermark: nan }"), HasSubstr("must be finite"));
  EXPECT_THAT(RuleError("vllm_v0 { policy: 7 }"), HasSubstr("vllm_v0.policy: no value \"7\""));
  EXPECT_EQ(RuleError("vllm_v0 { watermark: 1 max_num_seqs: 1 }"), "");
}

}  // namespace
}  // namespace twin
