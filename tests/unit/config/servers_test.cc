#include "config/servers/servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "sched/policy/registry.h"
#include "sim/cost/roofline_config.h"
#include "sim/devices/profile_config.h"
#include "sim/devices/step_profile.h"
#include "tests/support/unique_name.h"

namespace twin {
namespace {

using std::chrono::microseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string TextOf(const std::string& system, const std::string& more) {
  return "seed: 1 workload { requests: 3 arrivals { kind: all_at_once } shape { prompt { kind: "
         "fixed "
         "value: 8 } output { kind: fixed value: 2 } } } system { " +
         system + " } " + more;
}

ExperimentConfig Parse(const std::string& system, const std::string& more = "") {
  return ParseExperiment(TextOf(system, more), "test", "/");
}

// Section 4 of vLLM 0.33.0's observed defaults: a device of 80 GiB that is no A100.
TEST(ServerPresetsTest, ALargeDeviceStartsWithTheLimitsOfItsTier) {
  const ExperimentConfig config =
      Parse("model: 'llama-3.1-8b' hardware: 'h100-sxm' server: 'vllm-0.33.0'");
  const auto& policy = config.policy.Get<VllmV1Config>();
  EXPECT_EQ(policy.release, VllmV1Release::k0_33_0);
  EXPECT_EQ(policy.max_num_batched_tokens, 8192);
  EXPECT_EQ(policy.max_num_seqs, 1024);
  EXPECT_TRUE(policy.enable_prefix_caching);
  EXPECT_TRUE(policy.async_scheduling);
  EXPECT_EQ(config.system.memory.utilization, 0.92);
  EXPECT_EQ(config.system.memory.max_step_tokens, 8192);
  ASSERT_TRUE(config.system.boundary);
  EXPECT_EQ(config.system.boundary->request.mean + config.system.boundary->response.mean,
            microseconds(6800));
}

TEST(ServerPresetsTest, AnA100AndSmallDevicesStartWithLess) {
  for (const std::string hardware : {"a100-80gb-sxm", "l40s"}) {
    const ExperimentConfig config =
        Parse("model: 'llama-3.1-8b' hardware: '" + hardware + "' server: 'vllm-0.15.1'",
              "policy { vllm_v1 { max_model_len: 8192 } }");
    const auto& policy = config.policy.Get<VllmV1Config>();
    EXPECT_EQ(policy.release, VllmV1Release::k0_15_1);
    EXPECT_EQ(policy.max_num_batched_tokens, 2048) << hardware;
    EXPECT_EQ(policy.max_num_seqs, 256);
    EXPECT_EQ(policy.max_model_len, 8192);
    EXPECT_EQ(config.system.memory.utilization, 0.9);
  }
}

TEST(ServerPresetsTest, WhatTheFileSaysWins) {
  const ExperimentConfig config = Parse(
      "model: 'llama-3.1-8b' hardware: 'h100-sxm' server: 'vllm-0.33.0' tensor_parallel: 2 "
      "memory { utilization: 0.5 } boundary { request_s { mean_s: 0 } }",
      "policy { vllm_v1 { max_num_batched_tokens: 512 async_scheduling: false } }");
  const auto& policy = config.policy.Get<VllmV1Config>();
  EXPECT_EQ(policy.max_num_batched_tokens, 512);
  EXPECT_EQ(policy.max_num_seqs, 512);  // vLLM: at most the budget
  EXPECT_FALSE(policy.async_scheduling);
  EXPECT_EQ(config.system.memory.utilization, 0.5);
  EXPECT_EQ(config.system.boundary->request.mean, Duration{0});
  EXPECT_GT(config.system.boundary->response.mean, Duration{0});
}

TEST(ServerPresetsTest, TheHostAndTheGraphsAreThoseOfThePolicy) {
  const std::string system = "model: 'llama-3.1-8b' hardware: 'h100-sxm' server: 'vllm-0.33.0'";
  const auto cost = Parse(system).cost.Get<sim::ProfileCostConfig>();
  EXPECT_EQ(cost.engine, sim::StepEngine::kV1Async);
  EXPECT_EQ(cost.captured_size_max, 512u);
  const auto small =
      Parse(system,
            "policy { vllm_v1 { max_num_seqs: 16 async_scheduling: false } } cost { profile {} }")
          .cost.Get<sim::ProfileCostConfig>();
  EXPECT_EQ(small.engine, sim::StepEngine::kV1Sync);
  EXPECT_EQ(small.captured_size_max, 32u);
  EXPECT_NE(Parse(system, "cost { roofline {} }").cost.If<sim::RooflineCostConfig>(), nullptr);
}

TEST(ServerPresetsTest, SglangChunksByDeviceMemoryAndCachesTokenByToken) {
  const ExperimentConfig config =
      Parse("model: 'llama-3.1-8b' hardware: 'h100-sxm' server: 'sglang-0.5.23'");
  const auto& policy = config.policy.Get<SglangConfig>();
  EXPECT_EQ(policy.chunked_prefill_size, 8192);
  EXPECT_TRUE(policy.radix_cache);
  EXPECT_TRUE(policy.overlap);
  EXPECT_EQ(config.system.memory.block_size, 1);
  EXPECT_EQ(config.cost.Get<sim::ProfileCostConfig>().engine, sim::StepEngine::kSglang);
  const ExperimentConfig small =
      Parse("model: 'llama-3.1-8b' hardware: 'rtx-4090' server: 'sglang-0.5.23'");
  EXPECT_EQ(small.policy.Get<SglangConfig>().chunked_prefill_size, 4096);
}

// server_args.py of SGLang 0.5: 512 + 1.5 x 8192 + 2 x 256 + 1024 / 8 = 13,440 of 81,559 MiB are
// not static on an H100; on an RTX 4090, 512 + 1.5 x 4096 + 2 x 48 + 128 = 6,880 of 24,564.
TEST(ServerPresetsTest, SglangKeepsMemoryForActivationsAndGraphs) {
  const ExperimentConfig large =
      Parse("model: 'llama-3.1-8b' hardware: 'h100-sxm' server: 'sglang-0.5.23'");
  EXPECT_EQ(large.system.memory.utilization, 0.835);
  EXPECT_EQ(large.cost.Get<sim::ProfileCostConfig>().captured_size_max, 256u);
  const ExperimentConfig small =
      Parse("model: 'llama-3.1-8b' hardware: 'rtx-4090' server: 'sglang-0.5.23'");
  EXPECT_EQ(small.system.memory.utilization, 0.72);
  EXPECT_EQ(small.cost.Get<sim::ProfileCostConfig>().captured_size_max, 48u);
  // 512 + 1.5 x 16384 + 2 x 256 + 128 = 25,728 MiB.
  const ExperimentConfig chunks =
      Parse("model: 'llama-3.1-8b' hardware: 'h100-sxm' server: 'sglang-0.5.23'",
            "policy { sglang { chunked_prefill_size: 16384 } }");
  EXPECT_EQ(chunks.system.memory.utilization, 0.685);
}

// A config.json of Qwen3-8B, or what `fields` make of it.
class CheckpointOfServerTest : public ::testing::Test {
 protected:
  CheckpointOfServerTest() { std::filesystem::create_directories(folder_); }
  ~CheckpointOfServerTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& positions, const std::string& fields) const {
    std::ofstream(folder_ / "config.json")
        << R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": )"
        << positions << ", " << fields << "}";
  }
  [[nodiscard]] ExperimentConfig Served(const std::string& server,
                                        const std::string& more = "") const {
    return Parse("model: '" + folder_.string() + "' hardware: 'h100-sxm' " +
                     (server.empty() ? "" : "server: '" + server + "'"),
                 more);
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("server_checkpoint");
};

constexpr const char* kYarn =
    R"("torch_dtype": "bfloat16", "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
    "original_max_position_embeddings": 32768})";

TEST_F(CheckpointOfServerTest, YarnLengthensTheContextWithVllmAndNotWithOthers) {
  Write("40960", kYarn);
  for (const std::string server : {"vLLM 0.33.0", "vllm-0.8.5"}) {
    EXPECT_EQ(Served(server).policy.Get<VllmV1Config>().max_model_len, 131'072) << server;
  }
  EXPECT_EQ(Served("vllm-0.6.3").system.model_spec.max_position, 131'072);
  EXPECT_EQ(Served("sglang-0.5.23").policy.Get<SglangConfig>().context_length, 40'960);
  EXPECT_EQ(Served("trtllm-1.0.0").policy.Get<TrtllmConfig>().max_seq_len, 40'960);
  EXPECT_EQ(Served("tgi-3.3.7").policy.Get<TgiV3Config>().max_total_tokens, 40'960);
  // Without a server, the policy tells whose rules these are.
  EXPECT_EQ(Served("", "policy { vllm_v1 {} }").system.model_spec.max_position, 131'072);
  EXPECT_EQ(Served("", "policy { sglang {} }").system.model_spec.max_position, 40'960);
}

TEST_F(CheckpointOfServerTest, VllmStartsWithTheOriginalPositionsOfLongRopeSince0_11_1) {
  Write("131072",
        R"("torch_dtype": "bfloat16", "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope"})");
  const auto length = [&](const std::string& server, const std::string& more = "") {
    return Served(server, more).policy.Get<VllmV1Config>().max_model_len;
  };
  EXPECT_EQ(length("vLLM 0.33.0"), 4096);
  EXPECT_EQ(length("vLLM 0.12.0"), 4096);
  EXPECT_EQ(length("vLLM 0.10.0"), 131'072);
  EXPECT_EQ(length("vLLM 0.33.0", "policy { vllm_v1 { max_model_len: 100000 } }"), 100'000);
  EXPECT_EQ(Served("sglang-0.5.23").policy.Get<SglangConfig>().context_length, 131'072);
}

TEST_F(CheckpointOfServerTest, ALongerLimitThanThePositionsIsRefusedWithTheWayOut) {
  Write("40960", R"("torch_dtype": "bfloat16")");
  const std::string longer = "policy { vllm_v1 { max_model_len: 50000 } }";
  const std::string system =
      "model: '" + folder_.string() + "' hardware: 'h100-sxm' server: 'vLLM 0.33.0' ";
  const auto asked = ExperimentTemplate::FromText(TextOf(system, longer), "test");
  EXPECT_THAT([&] { (void)asked.With({}, "/"); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("max_model_len: is 50000"), HasSubstr("at most 40960"),
                        HasSubstr("system.model_shape.max_position lengthens them"))));
  const ExperimentConfig lengthened = Parse(system + "model_shape { max_position: 60000 }", longer);
  EXPECT_EQ(lengthened.policy.Get<VllmV1Config>().max_model_len, 50'000);
}

TEST_F(CheckpointOfServerTest, WeightsOf32BitsAreServedIn16) {
  Write("40960", R"("torch_dtype": "float32")");
  const ModelSpec served = Served("vLLM 0.33.0").system.model_spec;
  EXPECT_EQ(served.weight_dtype, DType::kBf16);
  EXPECT_EQ(served.kv_dtype, DType::kBf16);
  EXPECT_EQ(Served("", "policy { vllm_v1 {} }").system.model_spec.weight_dtype, DType::kFp32);
  const ModelSpec asked = Parse("model: '" + folder_.string() +
                                "' hardware: 'h100-sxm' server: 'vLLM 0.33.0' "
                                "model_shape { weight_dtype: fp32 }")
                              .system.model_spec;
  EXPECT_EQ(asked.weight_dtype, DType::kFp32);
}

// A checkpoint of llm-compressor: its weights have no cost model, its cache has.
TEST_F(CheckpointOfServerTest, AKvCacheSchemeHoldsBesideAnotherFormatOfTheWeights) {
  Write("40960", R"("torch_dtype": "bfloat16", "quantization_config": {
        "quant_method": "compressed-tensors",
        "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": false}})");
  const ModelSpec model = Parse("model: '" + folder_.string() +
                                "' hardware: 'h100-sxm' server: 'vLLM 0.33.0' "
                                "model_shape { weight_dtype: fp8 }")
                              .system.model_spec;
  EXPECT_EQ(model.weight_dtype, DType::kFp8);
  EXPECT_EQ(model.kv_dtype, DType::kFp8);
}

TEST(ServerPresetsTest, Tgi2RefusesRequestsBeyond4096TokensUnlessAsked) {
  const std::string system = "model: 'llama-3-8b' hardware: 'h100-sxm' server: 'tgi-2.0.4'";
  const ExperimentConfig config = Parse(system);
  const auto& policy = config.policy.Get<TgiV2Config>();
  EXPECT_EQ(policy.max_total_tokens, 4096);
  EXPECT_EQ(policy.max_batch_prefill_tokens, 4145);  // 4096 - 1 + 50
  EXPECT_EQ(policy.waiting_served_ratio, 0.3);
  EXPECT_EQ(config.system.memory.rule, sim::MemoryRule::kTgi);
  EXPECT_EQ(config.system.memory.utilization, 1.0);
  EXPECT_EQ(config.system.memory.block_size, 16);
  const auto cost = config.cost.Get<sim::ProfileCostConfig>();
  EXPECT_EQ(cost.engine, sim::StepEngine::kV0);
  EXPECT_EQ(cost.captured_size_max, 32u);
  const auto asked =
      Parse(system, "policy { tgi_v2 { max_total_tokens: 8192 } }").policy.Get<TgiV2Config>();
  EXPECT_EQ(asked.max_batch_prefill_tokens, 8241);
}

// Its own default; without a server nobody is refused.
TEST(ServerPresetsTest, TgiTakes128RequestsAtATime) {
  const std::string system = "model: 'llama-3-8b' hardware: 'l4' server: ";
  const auto limit = [](const ExperimentConfig& config) {
    const auto* const second = config.policy.If<TgiV2Config>();
    return second != nullptr ? second->max_concurrent_requests
                             : config.policy.Get<TgiV3Config>().max_concurrent_requests;
  };
  EXPECT_EQ(limit(Parse(system + "'tgi-2.0.4'")), 128);
  EXPECT_EQ(limit(Parse(system + "'tgi-3.3.7'")), 128);
  EXPECT_EQ(limit(Parse("model: 'llama-3-8b' hardware: 'l4'", "policy { tgi_v2 {} }")), 0);
  EXPECT_EQ(limit(Parse("model: 'llama-3-8b' hardware: 'l4'", "policy { tgi_v3 {} }")), 0);
}

// Of Llama-3-8B, 6.98e9 parameters multiply every token: 121e12 / (2 x 6.98e9) is 8,668 tokens,
// more than the model's 8,192; of Llama-3-70B, 68.5e9 do.
TEST(ServerPresetsTest, Tgi3PrefillsWhatTheDevicesComputeInASecond) {
  const ExperimentConfig config = Parse("model: 'llama-3-8b' hardware: 'l4' server: 'tgi-3.3.7'");
  const auto& policy = config.policy.Get<TgiV3Config>();
  EXPECT_EQ(policy.max_batch_prefill_tokens, 8192);
  EXPECT_TRUE(policy.prefill_chunking);
  EXPECT_TRUE(policy.prefix_caching);
  EXPECT_EQ(config.system.memory.block_size, 1);
  const auto large = Parse("model: 'llama-3-70b' hardware: 'a100-80gb-sxm' server: 'tgi-3.3.7'")
                         .policy.Get<TgiV3Config>();
  EXPECT_NEAR(large.max_batch_prefill_tokens, 312e12 / (2 * 68.5e9), 2);
}

TEST(ServerPresetsTest, TensorRtLlmReservesToTheOutputLimitInBlocksOf32) {
  const ExperimentConfig config =
      Parse("model: 'llama-3-8b' hardware: 'h100-sxm' server: 'trtllm-1.0.0'");
  const auto& policy = config.policy.Get<TrtllmConfig>();
  EXPECT_EQ(policy.capacity_scheduler_policy, TrtllmConfig::Capacity::kGuaranteedNoEvict);
  EXPECT_EQ(policy.context_chunking_policy, TrtllmConfig::Chunking::kNone);
  EXPECT_EQ(policy.max_batch_size, 2048);
  EXPECT_EQ(policy.max_num_tokens, 8192);
  EXPECT_EQ(config.system.memory.block_size, 32);
  EXPECT_EQ(config.system.memory.utilization, 0.9);
  // The policy waits for results; the real server's overlap scheduler does not.
  const auto cost = config.cost.Get<sim::ProfileCostConfig>();
  EXPECT_EQ(cost.host_s, 0.0);
  EXPECT_EQ(cost.host_per_item_s, 0.0);
}

TEST(ServerPresetsTest, StepsAreOfTheServersOwnKernelsUnlessOthersAreAskedFor) {
  const auto library = [](const std::string& server, const std::string& cost = "") {
    return Parse("model: 'llama-3-8b' hardware: 'h100-sxm' server: '" + server + "'", cost)
        .cost.Get<sim::ProfileCostConfig>()
        .library;
  };
  EXPECT_EQ(library("vllm-0.33.0"), sim::KernelLibrary::kVllm);
  EXPECT_EQ(library("sglang-0.5.23"), sim::KernelLibrary::kSglang);
  EXPECT_EQ(library("trtllm-1.0.0"), sim::KernelLibrary::kTrtllm);
  EXPECT_EQ(library("trtllm-1.0.0", "cost { profile { library: vllm } }"),
            sim::KernelLibrary::kVllm);
}

TEST(ServerPresetsTest, EveryServerOfWhichNothingWasMeasuredSaysSo) {
  for (const ServerPreset& server : ServerPresets()) {
    const bool vllm = server.name.starts_with("vllm-");
    EXPECT_EQ(server.source.find("estimates: host") != std::string_view::npos, !vllm)
        << server.name;
  }
}

TEST(ServerPresetsTest, APolicyOfAnotherKindStays) {
  const ExperimentConfig config =
      Parse("model: 'llama-3.1-8b' hardware: 'h100-sxm' server: 'vllm-0.33.0'",
            "policy { orca { max_bs: 7 } }");
  EXPECT_EQ(config.policy.Get<OrcaConfig>().max_bs, 7);
}

TEST(ServerPresetsTest, TheResolvedConfigShowsAllAndReadsBackEqual) {
  for (const ServerPreset& server : ServerPresets()) {
    const ExperimentConfig config = Parse("model: 'llama-2-7b' hardware: 'h100-sxm' server: '" +
                                          std::string(server.name) + "'");
    const std::string resolved = WriteResolved(config);
    EXPECT_THAT(resolved,
                AllOf(HasSubstr("server: \"" + std::string(server.name) + "\""),
                      HasSubstr(server.policy.starts_with("vllm") ? "max_num_seqs:"
                                : server.policy == "sglang"       ? "max_running_requests:"
                                : server.policy == "trtllm"       ? "max_num_tokens:"
                                                                  : "max_batch_prefill_tokens:"),
                      HasSubstr("boundary {"), HasSubstr("rule:"), HasSubstr("utilization:"),
                      HasSubstr("captured_size_max:")));
    EXPECT_EQ(WriteResolved(ParseExperiment(resolved, "resolved", "/")), resolved);
  }
}

TEST(ServerPresetsTest, AnUnknownServerIsRefusedWithTheNearestName) {
  EXPECT_THAT([] { Parse("model: 'llama-2-7b' hardware: 'h100-sxm' server: 'triton-2.50'"); },
              ThrowsMessage<InputError>(HasSubstr("unknown server 'triton-2.50'")));
  EXPECT_THAT([] { Parse("model: 'llama-2-7b' hardware: 'h100-sxm' server: 'vlm-0.33.0'"); },
              ThrowsMessage<InputError>(HasSubstr("nearest: vllm-0.33.0")));
}

std::string ServerFor(const std::string& asked) {
  const ExperimentConfig config =
      Parse("model: 'llama-2-7b' hardware: 'h100-sxm' server: '" + asked + "'");
  const std::string server = config.system.server.value_or("");
  return config.system.server_asked ? server + " for " + *config.system.server_asked : server;
}

TEST(ServerPresetsTest, ASpellingDoesNotCount) {
  for (const std::string name : {"vllm-0.15.1", "vLLM 0.15.1", "vllm==0.15.1", "vllm-v0.15.1",
                                 "vllm0.15.1", "vllm/vllm-openai:v0.15.1", "vLLM_0.15.1+cu128"}) {
    EXPECT_EQ(ServerFor(name), "vllm-0.15.1") << name;
  }
  EXPECT_EQ(ServerFor("vllm-0.33"), "vllm-0.33.0");
  EXPECT_EQ(ServerFor("TensorRT-LLM 1.0.0"), "trtllm-1.0.0");
  EXPECT_EQ(ServerFor("text-generation-inference:3.3.7"), "tgi-3.3.7");
  EXPECT_EQ(ServerFor("lmsysorg/sglang:v0.5.23"), "sglang-0.5.23");
}

TEST(ServerPresetsTest, TheNewestListedVersionThatStartsAlikeStandsInForOthers) {
  EXPECT_EQ(ServerFor("vllm-0.20.1"), "vllm-0.19.0 for vllm-0.20.1");
  EXPECT_EQ(ServerFor("vLLM 0.34.0"), "vllm-0.33.0 for vLLM 0.34.0");
  EXPECT_EQ(ServerFor("vllm-1.0.0"), "vllm-0.33.0 for vllm-1.0.0");
  EXPECT_EQ(ServerFor("trtllm 1.3.0rc20"), "trtllm-1.0.0 for trtllm 1.3.0rc20");
  EXPECT_EQ(ServerFor("sglang-0.5.23.post1"), "sglang-0.5.23 for sglang-0.5.23.post1");
}

// vLLM starts V1 since 0.8.0, ahead of the device since 0.14.0; TGI cuts prompts since 3.0.
TEST(ServerPresetsTest, AVersionStartsWithTheEngineOfItsTime) {
  EXPECT_EQ(ServerFor("vllm-0.7.3"), "vllm-0.6.3 for vllm-0.7.3");
  EXPECT_EQ(ServerFor("vllm-0.8.0"), "vllm-0.8.5 for vllm-0.8.0");
  EXPECT_EQ(ServerFor("vllm-0.13.0"), "vllm-0.8.5 for vllm-0.13.0");
  EXPECT_EQ(ServerFor("vllm-0.14.1"), "vllm-0.15.1 for vllm-0.14.1");
  EXPECT_EQ(ServerFor("tgi-3.0.1"), "tgi-3.3.7 for tgi-3.0.1");
  const ExperimentConfig config =
      Parse("model: 'llama-2-7b' hardware: 'h100-sxm' server: 'vllm-0.8.5'");
  EXPECT_FALSE(config.policy.Get<VllmV1Config>().async_scheduling);
  EXPECT_EQ(config.cost.Get<sim::ProfileCostConfig>().engine, sim::StepEngine::kV1Sync);
}

// Matches of cases per release: checks/originals/README.md.
TEST(ServerPresetsTest, AReleaseOfVllmDecidesByTheRulesThatItSharesWithOthers) {
  constexpr std::pair<const char*, VllmV1Release> kRules[] = {
      {"vllm-0.8.5", VllmV1Release::k0_15_1},  {"vllm-0.15.1", VllmV1Release::k0_15_1},
      {"vLLM 0.18.1", VllmV1Release::k0_19_0}, {"vllm-0.19.0", VllmV1Release::k0_19_0},
      {"vLLM 0.22.1", VllmV1Release::k0_19_0}, {"vllm-0.23.0", VllmV1Release::k0_23_0},
      {"vllm-0.24.0", VllmV1Release::k0_24_0}, {"vLLM 0.27.1", VllmV1Release::k0_24_0},
      {"vLLM 0.28.0", VllmV1Release::k0_28_0}, {"vLLM 0.30.0", VllmV1Release::k0_28_0},
      {"vLLM 0.31.0", VllmV1Release::k0_31_0}, {"vLLM 0.32.0", VllmV1Release::k0_31_0},
      {"vllm-0.33.0", VllmV1Release::k0_33_0}, {"vLLM 0.34.0", VllmV1Release::k0_33_0}};
  for (const auto& [server, rules] : kRules) {
    const ExperimentConfig config =
        Parse(std::string("model: 'llama-2-7b' hardware: 'h100-sxm' server: '") + server + "'");
    EXPECT_EQ(config.policy.Get<VllmV1Config>().release, rules) << server;
  }
}

TEST(ServerPresetsTest, AdmissionReservesTheFullPromptSince0_19) {
  const auto reserves = [](const std::string& server) {
    const ExperimentConfig config =
        Parse("model: 'llama-2-7b' hardware: 'h100-sxm' server: '" + server + "'");
    return config.policy.Get<VllmV1Config>().scheduler_reserve_full_isl;
  };
  EXPECT_FALSE(reserves("vLLM 0.17.1"));
  EXPECT_FALSE(reserves("vLLM 0.18.1"));
  EXPECT_TRUE(reserves("vllm-0.19.0"));
}

TEST(ServerPresetsTest, TellsWhetherTheDecisionsOfAReleaseWereCompared) {
  for (const char* const server : {"vllm-0.15.1", "vLLM 0.26.0", "vllm-0.33.0"}) {
    EXPECT_TRUE(DecisionsOfServer(server)->compared) << server;
  }
  EXPECT_EQ(DecisionsOfServer("vllm-0.8.5")->release, "0.15.1");
  EXPECT_FALSE(DecisionsOfServer("vllm-0.8.5")->compared);
  EXPECT_EQ(DecisionsOfServer("vllm==0.34.0")->release, "0.33.0");
  EXPECT_FALSE(DecisionsOfServer("vllm==0.34.0")->compared);
  EXPECT_FALSE(DecisionsOfServer("vllm-0.6.3"));
  EXPECT_FALSE(DecisionsOfServer("sglang-0.5.23"));
}

TEST(ServerPresetsTest, AResolvedConfigKeepsWhatItsServerStandsInFor) {
  const ExperimentConfig config =
      Parse("model: 'llama-2-7b' hardware: 'h100-sxm' server: 'vllm-0.24.0'");
  const std::string resolved = WriteResolved(config);
  EXPECT_THAT(resolved, AllOf(HasSubstr("server: \"vllm-0.23.0\""),
                              HasSubstr("server_asked: \"vllm-0.24.0\"")));
  EXPECT_EQ(WriteResolved(ParseExperiment(resolved, "resolved", "/")), resolved);
  EXPECT_EQ(ServerFor("vllm-0.33.0' server_asked: 'vllm-0.24.0"), "vllm-0.33.0");
}

TEST(ServerPresetsTest, TheDelaysOfAVersionThatNobodyRecordedAreLessCertain) {
  EXPECT_EQ(BoundaryOfServer("vllm-0.23.0", true, 1).log_sd, 0.1);
  EXPECT_EQ(BoundaryOfServer("vllm-0.23.0", false, 1).log_sd, 0.2);
}

TEST(ServerPresetsTest, AVersionBeforeTheFirstListedOneIsRefused) {
  const auto refusal = [](const std::string& server, const std::string& why) {
    EXPECT_THAT([&] { ServerFor(server); },
                ThrowsMessage<InputError>(
                    AllOf(HasSubstr(why), HasSubstr("allowed: vllm-0.6.3, vllm-0.8.5"))));
  };
  refusal("vLLM 0.5.4", "\"vLLM 0.5.4\" is older than vllm-0.6.3, the oldest that is known");
  refusal("sglang-0.5.14", "\"sglang-0.5.14\" is older than sglang-0.5.23");
  refusal("vllm", "\"vllm\" names no version");
  refusal("vllm-0.x", "unknown server 'vllm-0.x'; nearest: vllm-0.");
  refusal("vllm-0.99999999999", "unknown server");
}

TEST(ServerNamesTest, AServerWithoutAVersionHasANewestRelease) {
  EXPECT_EQ(NewestOfServer("vLLM"), "vllm-0.33.0");
  EXPECT_EQ(NewestOfServer("text-generation-inference"), "tgi-3.3.7");
  EXPECT_EQ(NewestOfServer("vLLM 0.15.1"), std::nullopt);
  EXPECT_EQ(NewestOfServer("ollama"), std::nullopt);
}

}  // namespace
}  // namespace twin
