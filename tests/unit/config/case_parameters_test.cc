#include "config/case_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/input_error.h"
#include "sched/policy/registry.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& policy, const std::string& params) {
  try {
    (void)ReadCaseParameters(policy, params, "cases.ndjson:3");
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

// Parameters as they stand in the case files of each variant.
TEST(CaseParametersTest, ReadsVllmV0) {
  const PolicyConfig config = ReadCaseParameters(
      "vllm_v0",
      R"({"max_num_batched_tokens":16,"max_num_seqs":4,"max_model_len":64,"watermark":0.25,
          "watermark_blocks":0,"enable_chunked_prefill":true,"preemption_mode":"swap",
          "policy":"priority"})",
      "w");
  VllmV0Config expected;
  expected.max_num_batched_tokens = 16;
  expected.max_num_seqs = 4;
  expected.max_model_len = 64;
  expected.watermark = 0.25;
  expected.enable_chunked_prefill = true;
  expected.preemption_mode = VllmV0Config::PreemptionMode::kSwap;
  expected.policy = QueueOrder::kPriority;
  EXPECT_EQ(config.Get<VllmV0Config>(), expected);
}

TEST(CaseParametersTest, TakesNullAsTheDefault) {
  const PolicyConfig config = ReadCaseParameters("vllm_v0", R"({"preemption_mode":null})", "w");
  EXPECT_EQ(config.Get<VllmV0Config>(), VllmV0Config{});
}

TEST(CaseParametersTest, ReadsTheTwoReleasesOfVllmV1) {
  const std::string params = R"({"max_num_seqs":4,"async_scheduling":true})";
  const auto v15 = ReadCaseParameters("vllm_v1", params, "w").Get<VllmV1Config>();
  const auto v33 = ReadCaseParameters("vllm_v1_033", params, "w").Get<VllmV1Config>();
  EXPECT_EQ(v15.release, VllmV1Release::k0_15_1);
  EXPECT_EQ(v33.release, VllmV1Release::k0_33_0);
  EXPECT_TRUE(v33.async_scheduling);
  EXPECT_EQ(v33.max_num_seqs, 4);
}

TEST(CaseParametersTest, MapsTheBaselinesOfSarathiOntoOrcaAndStaticBatching) {
  const std::string params =
      R"({"max_num_seqs":4,"max_model_len":16,"watermark":0.0,"watermark_blocks":0,
          "pipeline_parallel_size":1})";
  const auto orca = ReadCaseParameters("sarathi_orca", params, "w").Get<OrcaConfig>();
  EXPECT_EQ(orca.reservation, OrcaConfig::Reservation::kModel);
  EXPECT_EQ(orca.max_bs, 4);
  EXPECT_EQ(orca.max_model_len, 16);
  EXPECT_TRUE(orca.prefills_first);
  const auto fixed = ReadCaseParameters("sarathi_static", params, "w").Get<StaticConfig>();
  EXPECT_FALSE(fixed.padded);
  EXPECT_EQ(fixed.max_batch_size, 4);
}

TEST(CaseParametersTest, ReadsOrcaSarathiAndSplitFuse) {
  const auto orca = ReadCaseParameters("orca", R"({"n_workers":2,"max_bs":3,"n_slots":24})", "w")
                        .Get<OrcaConfig>();
  EXPECT_EQ(orca.n_workers, 2);
  const auto sarathi =
      ReadCaseParameters(
          "sarathi",
          R"({"enable_dynamic_chunking_schedule":true,"low_chunk_size":64,"high_chunk_size":128,
          "chunk_schedule_max_tokens":4096,"chunk_schedule_stages":8})",
          "w")
          .Get<SarathiConfig>();
  EXPECT_TRUE(sarathi.enable_dynamic_chunking_schedule);
  EXPECT_EQ(sarathi.high_chunk_size, 128);
  const auto fuse = ReadCaseParameters("mii_splitfuse", R"({"max_ragged_batch_size":8})", "w")
                        .Get<SplitFuseConfig>();
  EXPECT_EQ(fuse.max_ragged_batch_size, 8);
}

TEST(CaseParametersTest, TheVersionSelectsThePolicyOfTgi) {
  const auto two = ReadCaseParameters("tgi", R"({"version":2,"max_waiting_tokens":3})", "w");
  EXPECT_EQ(two.Get<TgiV2Config>().max_waiting_tokens, 3);
  const auto three = ReadCaseParameters("tgi", R"({"version":3,"support_chunking":true})", "w");
  EXPECT_TRUE(three.Get<TgiV3Config>().prefill_chunking);
  EXPECT_THAT(ErrorOf("tgi", R"({"version":4})"), HasSubstr("allowed: version: 2 or version: 3"));
  EXPECT_THAT(ErrorOf("tgi", R"({"version":3,"speculate":2})"), HasSubstr("speculate: 0"));
}

TEST(CaseParametersTest, RefusesUnknownNamesAndWrongValuesNamingThem) {
  EXPECT_THAT(ErrorOf("vllm_v3", "{}"), HasSubstr("cases.ndjson:3: no policy \"vllm_v3\""));
  EXPECT_THAT(ErrorOf("vllm_v0", R"({"max_num_seq":4})"), HasSubstr("nearest \"max_num_seqs\""));
  EXPECT_THAT(ErrorOf("vllm_v0", R"({"policy":"lifo"})"),
              AllOf(HasSubstr("policy takes one of: fcfs, priority"), HasSubstr("\"lifo\"")));
  EXPECT_THAT(ErrorOf("vllm_v0", R"({"max_num_seqs":[4]})"), HasSubstr("an integer of 32 bits"));
  EXPECT_THAT(ErrorOf("vllm_v0", R"({"max_num_seqs":4.5})"), HasSubstr("an integer of 32 bits"));
  EXPECT_THAT(ErrorOf("vllm_v0", R"({"max_num_seqs":0})"), HasSubstr("at least 1, is 0"));
  EXPECT_THAT(ErrorOf("vllm_v0", "[1]"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(ErrorOf("vllm_v0", "{"), HasSubstr("must be a JSON object"));
}

// A case may be decided with limits that the system refuses to start with, but with none that the
// policy cannot work with.
TEST(CaseParametersTest, RefusesWhatThePolicyCannotDecideWith) {
  EXPECT_THAT(ErrorOf("sarathi", R"({"enable_dynamic_chunking_schedule":true})"),
              HasSubstr("low_chunk_size: is 0, must be at least 1"));
  EXPECT_EQ(ErrorOf("vllm_v0", R"({"max_num_batched_tokens":16,"max_model_len":64})"), "");
}

}  // namespace
}  // namespace twin
