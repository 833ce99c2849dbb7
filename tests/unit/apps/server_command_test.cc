// Command lines of real servers: which flags they get, and with what the servers do not start.
#include "apps/recommend/server_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "apps/recommend/candidate.h"
#include "config/recommend_config.h"
#include "core/input_error.h"

namespace twin::run {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(ServerCommandTest, SetsWhatWasSimulated) {
  const RecommendConfig request = ParseRecommendation(R"(
    model { name: "llama-3-8b" checkpoint: "meta-llama/Meta-Llama-3-8B Instruct" }
    hardware { name: "h100-sxm" devices: 4 }
    workload { preset: conversation arrivals { kind: poisson rate: 4 } }
    until: "p99_ttft_ms<=1000" max_model_len: 4096)",
                                                      "request", ".");
  const CandidateSpace space(request);
  CostCache costs;
  CandidateSettings choice{.server = "vllm-0.33.0",
                           .layout = {.parallelism = {.tensor = 2, .pipeline = 2}},
                           .weight_dtype = DType::kFp8,
                           .max_num_seqs = 64,
                           .token_budget = 2048,
                           .gpu_memory_utilization = 0.95};
  EXPECT_EQ(ServerCommand(space.Make(choice, costs)),
            "vllm serve 'meta-llama/Meta-Llama-3-8B Instruct' --tensor-parallel-size 2 "
            "--pipeline-parallel-size 2 --quantization fp8 --max-num-batched-tokens 2048 "
            "--max-num-seqs 64 --max-model-len 4096 --gpu-memory-utilization 0.95");
  choice.layout = {};
  choice.weight_dtype = DType::kInt8;
  EXPECT_EQ(ServerCommand(space.Make(choice, costs)),
            "vllm serve \"$INT8_CHECKPOINT\" --tensor-parallel-size 1 --max-num-batched-tokens "
            "2048 --max-num-seqs 64 --max-model-len 4096 --gpu-memory-utilization 0.95");
  choice.layout = {.replicas = 2, .prefill_replicas = 1};
  EXPECT_THAT(ServerCommand(space.Make(choice, costs)),
              EndsWith(" --kv-transfer-config "
                       R"('{"kv_connector":"NixlConnector","kv_role":"kv_both"}')"));
}

// Flags of SGLang 0.5, TGI 2 and 3, and trtllm-serve 1.0 by their own documentation.
class OtherServersTest : public ::testing::Test {
 protected:
  static std::string CommandOf(const char* server, CandidateSettings choice) {
    const RecommendConfig request = ParseRecommendation(
        fmt::format(
            "model {{ name: 'llama-3-8b' checkpoint: 'meta/l3' }} hardware {{ name: 'h100-sxm' "
            "devices: 2 "
            "}} workload {{ preset: conversation arrivals {{ kind: poisson rate: 4 }} }} until: "
            "'p99_ttft_ms<=1000' max_model_len: 4096 settings {{ server: '{}' }}",
            server),
        "request", ".");
    choice.server = server;
    CostCache costs;
    return ServerCommand(CandidateSpace(request).Make(choice, costs));
  }
};

TEST_F(OtherServersTest, SglangTakesChunksAndRunningRequests) {
  EXPECT_EQ(CommandOf("sglang-0.5.23", {.layout = {.parallelism = {.tensor = 2}},
                                        .weight_dtype = DType::kFp8,
                                        .max_num_seqs = 64,
                                        .token_budget = 2048,
                                        .gpu_memory_utilization = 0.9,
                                        .schedule_policy = "lpm"}),
            "python -m sglang.launch_server --model-path meta/l3 --tp-size 2 --quantization fp8 "
            "--chunked-prefill-size 2048 --max-running-requests 64 --schedule-policy lpm "
            "--context-length 4096 --mem-fraction-static 0.9");
}

TEST_F(OtherServersTest, TgiTakesPrefillAndTotalTokens) {
  EXPECT_EQ(CommandOf("tgi-2.0.4", {.layout = {},
                                    .max_num_seqs = 64,
                                    .token_budget = 4096,
                                    .gpu_memory_utilization = 0.95,
                                    .max_batch_total_tokens = 16384,
                                    .waiting_served_ratio = 1.2}),
            "text-generation-launcher --model-id meta/l3 --num-shard 1 --max-batch-prefill-tokens "
            "4096 --max-batch-total-tokens 16384 --max-batch-size 64 --waiting-served-ratio 1.2 "
            "--max-input-tokens 4095 --max-total-tokens 4096 --cuda-memory-fraction 0.95 "
            "--max-concurrent-requests 10000");
  // Its warm-up finds the total; version 3 has no limit of requests.
  EXPECT_EQ(CommandOf("tgi-3.3.7", {.layout = {}, .token_budget = 2048}),
            "text-generation-launcher --model-id meta/l3 --num-shard 1 --max-batch-prefill-tokens "
            "2048 --max-input-tokens 4095 --max-total-tokens 4096 --cuda-memory-fraction 1 "
            "--max-concurrent-requests 10000");
}

TEST_F(OtherServersTest, TensorRtLlmChunksByAFileAndNeedsACheckpointInFp8) {
  EXPECT_EQ(CommandOf("trtllm-1.0.0", {.layout = {.parallelism = {.tensor = 2}},
                                       .weight_dtype = DType::kFp8,
                                       .max_num_seqs = 256,
                                       .token_budget = 2048,
                                       .context_chunking_policy = "FIRST_COME_FIRST_SERVED"}),
            "echo 'enable_chunked_prefill: true' > trtllm.yaml && trtllm-serve "
            "\"$FP8_CHECKPOINT\" --tp_size 2 --max_batch_size 256 --max_num_tokens 2048 "
            "--max_seq_len 4096 --kv_cache_free_gpu_memory_fraction 0.9 --extra_llm_api_options "
            "trtllm.yaml");
}

// The real TGI 2 does not start with a prefill that cannot hold the longest prompt.
TEST_F(OtherServersTest, WithWhatTheRealServerDoesNotStartIsRejected) {
  const auto error = [](const char* server, CandidateSettings choice) -> std::string {
    try {
      (void)CommandOf(server, std::move(choice));
    } catch (const InputError& problem) {
      return problem.what();
    }
    return {};
  };
  EXPECT_THAT(
      error("tgi-2.0.4", {.layout = {}, .token_budget = 2048}),
      HasSubstr("token_budget: is 2048; tgi-2.0.4 does not start with less than its longest "
                "prompt, 4095"));
  EXPECT_THAT(error("trtllm-1.0.0", {.layout = {.parallelism = {.pipeline = 2}}}),
              HasSubstr("pipeline_parallel: is 2; stages of trtllm-1.0.0 are not simulated"));
}

}  // namespace
}  // namespace twin::run
