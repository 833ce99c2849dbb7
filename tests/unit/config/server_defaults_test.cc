// Decisions that servers make unasked, by release and kind of layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "config/experiment_config.h"
#include "config/hardware_file.h"
#include "config/models/model_names.h"
#include "config/servers/layer_defaults.h"
#include "config/servers/servers.h"
#include "sched/policy/registry.h"
#include "sim/devices/kv_capacity.h"

namespace twin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ExperimentConfig Served(const std::string& server, const std::string& model,
                        const std::string& hardware = "h200-sxm", const std::string& system = "",
                        const std::string& more = "") {
  return ParseExperiment(
      "seed: 1 workload { requests: 3 arrivals { kind: all_at_once } shape { "
      "prompt { kind: fixed value: 8 } output { kind: fixed value: 2 } } } "
      "system { model: '" +
          model + "' hardware: '" + hardware + "' server: '" + server + "' " + system + " } " +
          more,
      "test", "/");
}

// Prefix caching, chunks, planning ahead, blocks on Hopper / Blackwell / others, format on both.
std::string TextOf(std::string_view server, LayerKind kind, std::string_view model = "") {
  const std::optional<ListedServer> listed = FindServer(server);
  const auto of = [&](DeviceClass device) {
    return DefaultsOfKind(listed->server->layer_rules, listed->version, kind,
                          {.device = device, .model = model});
  };
  const LayerDefaults hopper = of(DeviceClass::kHopper);
  const LayerDefaults blackwell = of(DeviceClass::kBlackwell);
  constexpr std::array<std::string_view, 3> kChunks = {"off", "long", "on"};
  constexpr std::array<std::string_view, 3> kAhead = {"no", "one", "yes"};
  constexpr std::array<std::string_view, 4> kFormats = {"model", "fp8", "16", "32"};
  std::string text = hopper.prefix_caching ? "on " : "off ";
  text += kChunks.at(static_cast<std::size_t>(hopper.chunks));
  text += " ";
  text += kAhead.at(static_cast<std::size_t>(hopper.ahead));
  text += " " + std::to_string(hopper.block_size) + "/" + std::to_string(blackwell.block_size) +
          "/" + std::to_string(of(DeviceClass::kOther).block_size) + " ";
  text += kFormats.at(static_cast<std::size_t>(hopper.format));
  if (blackwell.format != hopper.format) {
    text += "/";
    text += kFormats.at(static_cast<std::size_t>(blackwell.format));
  }
  return text;
}

struct Expected {
  std::string_view server;
  // By kind: full, window, chunked, latent, indexed, linear, Mamba-2.
  std::array<std::string_view, 7> kinds;
};

// Read in the sources that each server's rules name (config/servers).
constexpr Expected kExpected[] = {
    {"vllm-0.6.3",
     {"off long no 16/16/16 model", "off off no 16/16/16 model", "off long no 16/16/16 model",
      "off long no 16/16/16 model", "off long no 16/16/16 model", "off long no 16/16/16 model",
      "off long no 16/16/16 model"}},
    {"vllm-0.8.5",
     {"on on no 16/16/16 model", "on on no 16/16/16 model", "on on no 16/16/16 model",
      "on on no 64/16/16 model", "on on no 64/16/16 model", "off on no 0/0/0 16",
      "off on no 0/0/0 16"}},
    {"vllm-0.11.0",
     {"on on no 16/16/16 model", "on on no 16/16/16 model", "on on no 16/16/16 model",
      "on on no 64/128/16 model", "on on no 64/64/64 fp8", "off on no 0/0/0 16",
      "off on no 0/0/0 16"}},
    {"vllm-0.15.1",
     {"on on one 16/16/16 model", "on on one 16/16/16 model", "on on one 16/16/16 model",
      "on on one 64/128/16 model", "on on one 64/64/64 model", "off on one 0/0/0 16",
      "off on one 0/0/0 16"}},
    {"vllm-0.17.0",
     {"on on yes 16/16/16 model", "on on yes 16/16/16 model", "on on yes 16/16/16 model",
      "on on yes 64/64/16 model", "on on yes 64/64/64 model", "off on yes 0/0/0 16",
      "off on yes 0/0/0 16"}},
    {"vllm-0.19.0",
     {"on on yes 16/16/16 model", "on on yes 16/16/16 model", "on on yes 16/16/16 model",
      "on on yes 16/32/16 model", "on on yes 64/64/64 model", "off on yes 0/0/0 16",
      "off on yes 0/0/0 16"}},
    {"vllm-0.23.0",
     {"on on yes 16/16/16 model", "on on yes 16/16/16 model", "on on yes 16/16/16 model",
      "on on yes 16/32/16 model", "on on yes 64/64/64 model", "off on yes 0/0/0 16",
      "off on yes 0/0/0 16"}},
    {"vllm-0.25.1",
     {"on on yes 16/16/16 model", "on on yes 16/16/16 model", "on on yes 16/16/16 model",
      "on on yes 16/32/16 model", "on on yes 64/64/64 model", "off on yes 0/0/0 16",
      "off on yes 0/0/0 16"}},
    {"vllm-0.26.0",
     {"on on yes 16/16/16 model", "on on yes 16/16/16 model", "on on yes 16/16/16 model",
      "on on yes 16/32/16 model", "on on yes 64/64/64 model", "on on yes 0/0/0 16",
      "on on yes 0/0/0 16"}},
    {"vllm-0.33.0",
     {"on on yes 16/16/16 model", "on on yes 16/16/16 model", "on on yes 16/16/16 model",
      "on on yes 16/32/16 model", "on on yes 64/64/64 model", "on on yes 0/0/0 16",
      "on on yes 0/0/0 16"}},
    {"sglang-0.5.23",
     {"on on one 1/64/1 model", "on on one 1/64/1 model", "on on one 1/64/1 model",
      "on on one 1/64/1 model", "on on one 64/64/64 model/fp8", "on on one 1/64/1 32",
      "on on one 1/64/1 32"}},
    {"tgi-2.0.4",
     {"off off no 16/16/16 model", "off off no 16/16/16 model", "off off no 16/16/16 model",
      "off off no 16/16/16 model", "off off no 16/16/16 model", "off off no 16/16/16 model",
      "off off no 16/16/16 model"}},
    {"tgi-3.3.7",
     {"on on no 1/1/1 model", "on on no 1/1/1 model", "on on no 1/1/1 model",
      "on on no 256/256/256 model", "on on no 256/256/256 model", "off on no 1/1/1 model",
      "off on no 1/1/1 model"}},
    {"trtllm-1.0.0",
     {"on off yes 32/32/32 model", "on off yes 32/32/32 model", "on off yes 32/32/32 model",
      "on off yes 64/32/32 model", "on off yes 64/32/32 model", "off off yes 32/32/32 16",
      "off off yes 32/32/32 16"}}};

TEST(LayerDefaultsTest, AreThoseOfTheReleaseForEachKindOfLayer) {
  constexpr std::array kKinds = {LayerKind::kFull,   LayerKind::kWindow,  LayerKind::kChunked,
                                 LayerKind::kLatent, LayerKind::kIndexed, LayerKind::kLinear,
                                 LayerKind::kMamba};
  for (const Expected& expected : kExpected) {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      EXPECT_EQ(TextOf(expected.server, kKinds.at(i)), expected.kinds.at(i))
          << expected.server << " kind " << i;
    }
  }
}

TEST(LayerDefaultsTest, EveryListedReleaseIsInTheTable) {
  for (const ServerPreset& preset : ServerPresets()) {
    EXPECT_NE(std::ranges::find(kExpected, preset.name, &Expected::server), std::end(kExpected))
        << preset.name;
  }
}

TEST(LayerDefaultsTest, EveryRuleNamesItsSource) {
  for (const Server* const server : Servers()) {
    for (const LayerRule& rule : server->layer_rules) EXPECT_FALSE(rule.source.empty());
  }
}

TEST(LayerDefaultsTest, KindsAreThoseOfTheModelsLayers) {
  using enum LayerKind;
  EXPECT_THAT(KindsOf(ModelPreset("llama-3-8b")), ElementsAre(kFull));
  EXPECT_THAT(KindsOf(ModelPreset("mistral-7b-v0.1")), ElementsAre(kWindow));
  EXPECT_THAT(KindsOf(ModelPreset("gpt-oss-20b")), ElementsAre(kFull, kWindow));
  EXPECT_THAT(KindsOf(ModelPreset("llama-4-scout")), ElementsAre(kFull, kChunked));
  EXPECT_THAT(KindsOf(ModelPreset("deepseek-v3")), ElementsAre(kLatent));
  EXPECT_THAT(KindsOf(ModelPreset("deepseek-v3.2")), ElementsAre(kIndexed));
  EXPECT_THAT(KindsOf(ModelPreset("qwen3.5-27b")), ElementsAre(kFull, kLinear));
  EXPECT_THAT(KindsOf(ModelPreset("nemotron-3-nano-30b-a3b")), ElementsAre(kFull, kMamba));
  EXPECT_THAT(KindsOf(ModelPreset("kimi-linear-48b-a3b")), ElementsAre(kLatent, kLinear));
}

// vLLM's model configuration says of hybrid models that they do not support prefix caching up to
// 0.25.1, and that they do from 0.26.0 on.
TEST(LayerDefaultsTest, VllmCachesPrefixesOfModelsWithStatesSince0_26) {
  const auto caches = [](const std::string& server, const std::string& policy = "") {
    return Served(server, "qwen3.5-27b", "h200-sxm", "", policy)
        .policy.Get<VllmV1Config>()
        .enable_prefix_caching;
  };
  for (const std::string server : {"vLLM 0.8.5", "vLLM 0.15.1", "vLLM 0.19.0", "vLLM 0.25.1"}) {
    EXPECT_FALSE(caches(server)) << server;
    EXPECT_TRUE(caches(server, "policy { vllm_v1 { enable_prefix_caching: true } }")) << server;
  }
  for (const std::string server : {"vLLM 0.26.0", "vLLM 0.28.1rc1", "vLLM 0.33.0"}) {
    EXPECT_TRUE(caches(server)) << server;
    EXPECT_FALSE(caches(server, "policy { vllm_v1 { enable_prefix_caching: false } }")) << server;
  }
}

// A state of 0.19.0 lives in one block for the whole request.
TEST(LayerDefaultsTest, WithoutPrefixCachingStatesTakeOneBlockEach) {
  const auto states = [](const std::string& server) {
    const ExperimentConfig config = Served(server, "qwen3.5-27b");
    const sim::KvCapacity capacity =
        sim::PlanKvCapacity(config.system.model_spec, config.system.hardware_spec,
                            config.system.parallelism, config.system.memory, nullptr);
    for (const KvGroup& group : capacity.groups->groups) {
      if (group.kind == KvGroupKind::kState) return group.states;
    }
    return StateBlocks::kAligned;
  };
  EXPECT_EQ(states("vLLM 0.19.0"), StateBlocks::kOne);
  EXPECT_EQ(states("vLLM 0.33.0"), StateBlocks::kAligned);
}

// engine/arg_utils.py of 0.6.3 and 0.7.3; their SchedulerConfig has chunks of 512 and 2,048 tokens.
TEST(LayerDefaultsTest, VllmV0ChunksPromptsOfLongContextsWithoutWindows) {
  const auto policy = [](const std::string& server, const std::string& model,
                         const std::string& more = "") {
    return Served(server, model, "h100-sxm", "", more).policy.Get<VllmV0Config>();
  };
  EXPECT_TRUE(policy("vllm-0.6.3", "llama-3.1-8b").enable_chunked_prefill);
  EXPECT_EQ(policy("vllm-0.6.3", "llama-3.1-8b").max_num_batched_tokens, 512);
  EXPECT_EQ(policy("vllm-0.7.3", "llama-3.1-8b").max_num_batched_tokens, 2048);
  EXPECT_FALSE(policy("vllm-0.6.3", "llama-3-8b").enable_chunked_prefill);  // 8,192 positions
  EXPECT_EQ(policy("vllm-0.6.3", "llama-3-8b").max_num_batched_tokens, 8192);
  EXPECT_FALSE(policy("vllm-0.6.3", "gemma-3-27b").enable_chunked_prefill);
  const std::string shorter = "policy { vllm_v0 { max_model_len: 32768 } }";
  EXPECT_FALSE(policy("vllm-0.6.3", "llama-3.1-8b", shorter).enable_chunked_prefill);
  const std::string off = "policy { vllm_v0 { enable_chunked_prefill: false } }";
  EXPECT_EQ(policy("vllm-0.6.3", "llama-3.1-8b", off).max_num_batched_tokens, 131'072);
}

// config/vllm.py: with one stage since 0.14.0; with several, as here, where every model runs on
// the second model runner.
TEST(LayerDefaultsTest, VllmPlansAheadByReleaseStagesAndDrafts) {
  const auto ahead = [](const std::string& server, int stages, const std::string& method = "") {
    const std::string drafts =
        method.empty()
            ? ""
            : "policy { vllm_v1 { enable_prefix_caching: false } } speculation { method: " +
                  method + " num_speculative_tokens: 2 acceptance_rates: [0.5, 0.5] " +
                  (method == "draft_model" ? "model: 'llama-3.2-1b' }" : "}");
    return Served(server, "llama-3.1-8b", "h100-sxm",
                  "pipeline_parallel: " + std::to_string(stages), drafts)
        .policy.Get<VllmV1Config>()
        .async_scheduling;
  };
  EXPECT_FALSE(ahead("vllm-0.13.0", 1));
  EXPECT_TRUE(ahead("vllm-0.14.0", 1));
  EXPECT_FALSE(ahead("vllm-0.14.0", 2));
  EXPECT_FALSE(ahead("vllm-0.23.0", 2));
  EXPECT_TRUE(ahead("vllm-0.33.0", 2));
  EXPECT_TRUE(ahead("vllm-0.19.0", 1, "eagle"));
  EXPECT_FALSE(ahead("vllm-0.31.0", 1, "ngram"));
  EXPECT_TRUE(ahead("vllm-0.33.0", 1, "ngram"));
  EXPECT_FALSE(ahead("vllm-0.25.1", 1, "draft_model"));
  EXPECT_TRUE(ahead("vllm-0.26.0", 1, "draft_model"));
}

// engine/arg_utils.py: 0.8.5 has no exception for A100s, 0.28.0 the first one for 160 GiB.
TEST(LayerDefaultsTest, VllmV1sBudgetFollowsDeviceAndRelease) {
  const auto budget = [](const std::string& server, const std::string& hardware) {
    return Served(server, "llama-3.1-8b", hardware)
        .policy.Get<VllmV1Config>()
        .max_num_batched_tokens;
  };
  EXPECT_EQ(budget("vllm-0.8.5", "a100-80gb-sxm"), 8192);
  EXPECT_EQ(budget("vllm-0.9.2", "a100-80gb-sxm"), 2048);
  EXPECT_EQ(budget("vllm-0.27.1", "b200"), 8192);
  EXPECT_EQ(budget("vllm-0.28.0", "b200"), 16'384);
  EXPECT_EQ(budget("vllm-0.33.0", "h200-sxm"), 8192);
}

// config/cache.py of 0.19.0 and 0.20.0. A recorded server of 0.23.0 with Qwen3-14B on an H100 had
// 18,038 blocks; the share of 0.9 gives 17,202, that of 0.92 gives 17,854.
TEST(LayerDefaultsTest, VllmTakes92PercentOfTheMemorySince0_20) {
  const auto share = [](const std::string& server) {
    return Served(server, "qwen3-14b", "h100-sxm").system.memory.utilization;
  };
  EXPECT_EQ(share("vllm-0.19.0"), 0.9);
  EXPECT_EQ(share("vllm-0.20.0"), 0.92);
  EXPECT_EQ(share("vllm-0.23.0"), 0.92);
  EXPECT_EQ(share("vllm-0.33.0"), 0.92);
}

TEST(LayerDefaultsTest, BlocksOfLatentVectorsAreThoseOfTheKernels) {
  const auto block = [](const std::string& server, const std::string& hardware,
                        const std::string& system = "") {
    return Served(server, "deepseek-v3", hardware, "tensor_parallel: 16 " + system)
        .system.memory.block_size;
  };
  EXPECT_EQ(block("vllm-0.15.1", "h200-sxm"), 64);
  EXPECT_EQ(block("vllm-0.15.1", "b200"), 128);
  EXPECT_EQ(block("vllm-0.15.1", "a100-80gb-sxm"), 16);
  EXPECT_EQ(block("vllm-0.33.0", "h200-sxm"), 16);
  EXPECT_EQ(block("vllm-0.33.0", "h200-sxm", "model_shape { kv_dtype: fp8 }"), 64);
  EXPECT_EQ(block("vllm-0.33.0", "gb200"), 32);
  EXPECT_EQ(block("vllm-0.33.0", "gb200", "memory { block_size: 16 }"), 16);
  EXPECT_EQ(block("sglang-0.5.23", "h200-sxm"), 1);
  EXPECT_EQ(block("sglang-0.5.23", "b200"), 64);
  EXPECT_EQ(block("trtllm-1.0.0", "h200-sxm"), 64);
  EXPECT_EQ(block("trtllm-1.0.0", "b200"), 32);
}

// Without a server, the block is the one that FlashMLA wants, as before.
TEST(LayerDefaultsTest, WithoutAServerLatentVectorsHaveBlocksOf64) {
  const auto block = [](const std::string& memory) {
    return ParseExperiment(
               "seed: 1 workload { requests: 3 arrivals { kind: all_at_once } shape { prompt { "
               "kind: fixed value: 8 } output { kind: fixed value: 2 } } } system { model: "
               "'deepseek-v3' hardware: 'h200-sxm' tensor_parallel: 8 " +
                   memory + "} policy { vllm_v1 {} }",
               "test", "/")
        .system.memory.block_size;
  };
  EXPECT_EQ(block(""), 64);
  EXPECT_EQ(block("memory { block_size: 32 }"), 32);
}

TEST(LayerDefaultsTest, TheCacheOfASparseIndexHas8BitsWhereTheServerSaysSo) {
  const auto format = [](const std::string& server, const std::string& hardware,
                         const std::string& model = "deepseek-v3.2",
                         const std::string& system = "") {
    return Served(server, model, hardware, "tensor_parallel: 8 " + system)
        .system.model_spec.kv_dtype;
  };
  EXPECT_EQ(format("vllm-0.11.0", "h200-sxm"), DType::kFp8);
  EXPECT_EQ(format("vllm-0.15.1", "h200-sxm"), DType::kBf16);
  EXPECT_EQ(format("vllm-0.33.0", "b200"), DType::kBf16);
  EXPECT_EQ(format("vllm-0.33.0", "b200", "glm-5"), DType::kFp8);
  EXPECT_EQ(format("sglang-0.5.23", "h200-sxm"), DType::kBf16);
  EXPECT_EQ(format("sglang-0.5.23", "b200"), DType::kFp8);
  EXPECT_EQ(format("sglang-0.5.23", "b200", "deepseek-v3.2", "model_shape { kv_dtype: bf16 }"),
            DType::kBf16);
}

TEST(LayerDefaultsTest, SglangHasAPoolOfWindowsForTheArchitecturesThatItLists) {
  const auto pools = [](const std::string& model) {
    return Served("sglang-0.5.23", model, "h200-sxm", "tensor_parallel: 2")
        .policy.Get<SglangConfig>()
        .hybrid_swa_memory;
  };
  EXPECT_TRUE(pools("gpt-oss-120b"));
  EXPECT_TRUE(pools("gemma-4-31b"));
  EXPECT_FALSE(pools("gemma-3-27b"));
}

TEST(LayerDefaultsTest, SglangWaitsForResultsBehindAPipeline) {
  EXPECT_FALSE(Served("sglang-0.5.23", "llama-3.1-8b", "h100-sxm", "pipeline_parallel: 2")
                   .policy.Get<SglangConfig>()
                   .overlap);
}

// launcher/src/main.rs: flashinfer has heads of 64, 128 and 256 numbers. Of DeepSeek-V3, TGI takes
// 7,168 / 128 = 56 for the size; phi-2-like heads of 80 are not there either.
TEST(LayerDefaultsTest, Tgi3CachesPrefixesWithTheHeadsOfFlashInferAlone) {
  const auto config = [](const std::string& model, const std::string& shape = "") {
    return Served("tgi-3.3.7", model, "h200-sxm", "tensor_parallel: 8 " + shape);
  };
  EXPECT_TRUE(config("llama-3-8b").policy.Get<TgiV3Config>().prefix_caching);
  const ExperimentConfig latent = config("deepseek-v3");
  EXPECT_FALSE(latent.policy.Get<TgiV3Config>().prefix_caching);
  EXPECT_EQ(latent.system.memory.block_size, 256);
  const ExperimentConfig narrow = config("llama-3-8b", "model_shape { head_dim: 80 }");
  EXPECT_FALSE(narrow.policy.Get<TgiV3Config>().prefix_caching);
  EXPECT_EQ(narrow.system.memory.block_size, 256);
}

TEST(LayerDefaultsTest, DifferencesAreThoseOfTheModelsOwnLayers) {
  const auto texts = [](std::string_view server, const std::string& model,
                        const std::string& hardware = "h200-sxm") {
    const std::optional<ListedServer> listed = FindServer(server);
    std::string all;
    for (const DefaultDifference& difference :
         DefaultsOfModel(listed->server->layer_rules, listed->version, ModelPreset(model),
                         HardwarePreset(hardware))
             .differences) {
      all += std::string(difference.text) + "\n";
    }
    return all;
  };
  EXPECT_THAT(texts("vllm-0.33.0", "qwen3.5-27b"), IsEmpty());
  EXPECT_THAT(texts("vllm-0.8.5", "qwen3.5-27b"), HasSubstr("in its engine V0"));
  EXPECT_THAT(texts("vllm-0.8.5", "gemma-3-27b"), HasSubstr("keeps all tokens of all layers"));
  EXPECT_THAT(texts("vllm-0.8.5", "mistral-7b-v0.1"), IsEmpty());
  EXPECT_THAT(texts("vllm-0.13.0", "llama-4-scout"), HasSubstr("layers with chunks"));
  EXPECT_THAT(texts("vllm-0.27.1", "nemotron-3-nano-30b-a3b"), HasSubstr("mode all"));
  EXPECT_THAT(texts("vllm-0.27.1", "qwen3.5-27b"), ::testing::Not(HasSubstr("mode all")));
  EXPECT_THAT(texts("trtllm-1.0.0", "llama-3-8b"), HasSubstr("enable_block_reuse"));
  EXPECT_THAT(texts("trtllm-1.0.0", "deepseek-v3"), HasSubstr("enable_block_reuse"));
  EXPECT_THAT(texts("trtllm-1.0.0", "deepseek-v3", "a100-80gb-sxm"), IsEmpty());
  EXPECT_THAT(texts("sglang-0.5.23", "qwen3.5-27b"), HasSubstr("multiples of 256 tokens"));
}

TEST(ServerDefaultsPageTest, TheCommittedPageIsCurrent) {
  std::ifstream in(std::string(TWIN_SOURCE_DIR) + "/docs/server-defaults.md");
  std::ostringstream committed;
  committed << in.rdbuf();
  EXPECT_TRUE(committed.str() == ServerDefaultsPage())
      << "run: twinserve doctor --list server-defaults > docs/server-defaults.md";
}

}  // namespace
}  // namespace twin
