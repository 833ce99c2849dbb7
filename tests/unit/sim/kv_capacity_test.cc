#include "sim/devices/kv_capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "sched/policy/policy.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The example: Llama-3-8B in bf16 on 80 GiB, 2.5e9 bytes of activations and others. One block of
// 16 tokens is 2,097,152 bytes, the weights are 16,060,522,496.
MemoryConfig Example(MemoryRule rule) {
  return {.rule = rule,
          .max_step_tokens = 4096,
          .activation_bytes = 1'500'000'000,
          .non_framework_bytes = 1'000'000'000};
}

KvCapacity Plan(const MemoryConfig& config, const Parallelism& parallelism = {}) {
  return PlanKvCapacity(ModelPreset("llama-3-8b"), IdealHardware(), parallelism, config);
}

TEST(KvCapacityTest, VllmV1GivesTheWorkedExample) {
  const KvCapacity c = Plan(Example(MemoryRule::kVllmV1));
  EXPECT_EQ(c.total_bytes, 85'899'345'920);
  EXPECT_EQ(c.requested_bytes, 77'309'411'328);
  EXPECT_EQ(c.weight_bytes, 16'060'522'496);
  EXPECT_EQ(c.kv_bytes, 58'748'888'832);
  EXPECT_EQ(c.block_bytes, 2'097'152);
  EXPECT_EQ(c.blocks, 28'013);
  EXPECT_EQ(c.usable_blocks, 28'012);  // without the null block
  EXPECT_EQ(c.tokens(), 448'208);
  EXPECT_NEAR(c.max_concurrency(), 54.7, 0.05);  // 28013 / 512 at 8192 tokens
  EXPECT_EQ(c.host_blocks, 0);
}

TEST(KvCapacityTest, VllmV0HasSwapSpaceAndNoNullBlock) {
  const KvCapacity c = Plan(Example(MemoryRule::kVllmV0));
  EXPECT_EQ(c.blocks, 28'013);
  EXPECT_EQ(c.usable_blocks, 28'013);
  EXPECT_EQ(c.host_blocks, 2'048);  // 4 GiB / 2 MiB
}

TEST(KvCapacityTest, SarathiUsesFourFifths) {
  // floor(0.8 x 85,899,345,920) = 68,719,476,736 - 18,560,522,496 = 50,158,954,240 / 2,097,152.
  EXPECT_EQ(Plan(Example(MemoryRule::kSarathi)).blocks, 23'917);
}

TEST(KvCapacityTest, VidurCountsWeightsOnly) {
  // 77,309,411,328 - 16,060,522,496 = 61,248,888,832 / 2,097,152 = 29,205.75.
  EXPECT_EQ(Plan(Example(MemoryRule::kVidur)).blocks, 29'205);
}

TEST(KvCapacityTest, MiiKeepsOneGigabyteOfTheFreeMemory) {
  // 85,899,345,920 - 16,060,522,496 - 1e9 - 1e9 = 67,838,823,424 / 2,097,152 = 32,348.07.
  EXPECT_EQ(Plan(Example(MemoryRule::kMii)).blocks, 32'348);
}

TEST(KvCapacityTest, TgiAddsTheBlocksOfItsDummyBatchBack) {
  // Dummy batch: 4096 / 16 = 256 blocks, 536,870,912 bytes. Free during it: 85,899,345,920
  // - 18,560,522,496 - 536,870,912 = 66,801,952,512; 0.9 of it 60,121,757,260 = 28,668.3 blocks.
  EXPECT_EQ(Plan(Example(MemoryRule::kTgi)).blocks, 28'668 + 256);
}

TEST(KvCapacityTest, TrtLlmTakesAShareOfWhatIsLeftUpToALimit) {
  // 0.9 x (85,899,345,920 - 18,560,522,496) = 60,604,941,081 / 2,097,152 = 28,898.7.
  MemoryConfig config = Example(MemoryRule::kTrtLlm);
  EXPECT_EQ(Plan(config).blocks, 28'898);
  config.max_cache_tokens = 100'000;
  EXPECT_EQ(Plan(config).blocks, 6'250);
}

TEST(KvCapacityTest, SglangReservesAFixedShareForActivations) {
  // 0.88 x 85,899,345,920 = 75,591,424,409 - 16,060,522,496 - 1e9 = 58,530,901,913; page size 1:
  // / 131,072 = 446,555.3.
  MemoryConfig config = Example(MemoryRule::kSglang);
  config.block_size = 1;
  EXPECT_EQ(Plan(config).blocks, 446'555);
}

// --max-total-tokens: the smaller of it and what the memory holds, in whole pages. 1,000 / 64 =
// 15.6.
TEST(KvCapacityTest, SglangTakesALimitOfItsTokens) {
  MemoryConfig config = Example(MemoryRule::kSglang);
  config.block_size = 1;
  config.max_cache_tokens = 446'556;
  EXPECT_EQ(Plan(config).blocks, 446'555);
  config.max_cache_tokens = 100'000;
  EXPECT_EQ(Plan(config).blocks, 100'000);
  config.block_size = 64;
  config.max_cache_tokens = 1'000;
  EXPECT_EQ(Plan(config).blocks, 15);
}

// 18 layers with a window and 18 without have equally many bytes a token: 36,000 tokens of all
// layers take those of 2 / (1 + 0.8) x 36,000 = 40,000 tokens and 32,000 of the windows.
TEST(KvCapacityTest, SglangDividesTheBytesOfItsLimitBetweenBothPools) {
  MemoryConfig config{.rule = MemoryRule::kSglang, .block_size = 1};
  config.window_pool_ratio = 0.8;
  config.kv_bytes_override = 10'000'000'000;
  config.max_cache_tokens = 36'000;
  const KvCapacity capacity =
      PlanKvCapacity(ModelPreset("gpt-oss-120b"), IdealHardware(), {}, config);
  EXPECT_EQ(capacity.blocks, 40'000);
  EXPECT_EQ(capacity.window_blocks, 32'000);
}

// gpt-oss-120b with a cache in bf16: 18 layers with a window of 128 and 18 without have 18 x 8 x
// 128 x 2 = 36,864 bytes a token each. 1e10 / (36,864 + 0.8 x 36,864) = 150,704 tokens, and 0.8 x
// that is 120,563 (SGLang 0.5.23, swa_full_tokens_ratio 0.8).
TEST(KvCapacityTest, SglangGivesLayersWithWindowsAPoolOfTheirOwn) {
  const ModelSpec model = ModelPreset("gpt-oss-120b");
  EXPECT_EQ(WindowBesideAllTokens(model), 128);
  EXPECT_EQ(WindowBesideAllTokens(ModelPreset("llama-3-8b")), 0);
  MemoryConfig config{.rule = MemoryRule::kSglang, .block_size = 1};
  config.window_pool_ratio = 0.8;
  config.kv_bytes_override = 10'000'000'000;
  const auto plan = [&] { return PlanKvCapacity(model, IdealHardware(), {}, config); };
  KvCapacity capacity = plan();
  EXPECT_EQ(capacity.block_bytes, 36'864);
  EXPECT_EQ(capacity.window_block_bytes, 36'864);
  EXPECT_EQ(capacity.usable_blocks, 150'704);
  EXPECT_EQ(capacity.window_blocks, 120'563);
  EXPECT_EQ(capacity.sequences_bytes, 0);
  EXPECT_THAT(Describe(capacity), HasSubstr("window pool    120563 pages of 1 tokens"));
  config.block_size = 16;  // 9,419 x 16 = 150,704; 120,563 / 16 = 7,535.2
  capacity = plan();
  EXPECT_EQ(capacity.usable_blocks, 9419);
  EXPECT_EQ(capacity.window_blocks, 7535);
  config.block_size = 1;
  config.window_pool_ratio = 0.0;  // one pool: 1e10 / 73,728
  capacity = plan();
  EXPECT_EQ(capacity.usable_blocks, 135'633);
  EXPECT_EQ(capacity.window_blocks, 0);
  EXPECT_EQ(capacity.sequences_bytes, 0);
  // 150 tokens have a window pool of 120: no request gets its window and a page.
  config.window_pool_ratio = 0.8;
  config.kv_bytes_override = 150 * 66'356;
  EXPECT_THAT(plan, ThrowsMessage<InputError>(HasSubstr("a window pool of 120 tokens")));
}

// Systems without pools of windows compute them over caches that keep all tokens. gpt-oss-120b has
// 36 layers of 2,048 bytes a token; Llama 4 Scout 48 of 4,096, three quarters of which see chunks;
// Gemma 3 27B 62 of 8,192, of which 52 have windows.
TEST(KvCapacityTest, WindowsAndChunksKeepAllTokensWithoutAPoolOfTheirOwn) {
  const auto token_bytes = [](MemoryRule rule, const char* model) {
    MemoryConfig config{.rule = rule, .max_model_length = 8192};
    config.kv_bytes_override = 10'000'000'000;
    const KvCapacity c = PlanKvCapacity(ModelPreset(model), IdealHardware(), {}, config);
    EXPECT_EQ(c.sequences_bytes, 0);
    EXPECT_EQ(c.blocks, 10'000'000'000 / c.block_bytes);
    return c.block_bytes / c.block_size;
  };
  EXPECT_EQ(token_bytes(MemoryRule::kTrtLlm, "gpt-oss-120b"), 36 * 2'048);
  EXPECT_EQ(token_bytes(MemoryRule::kTrtLlm, "llama-4-scout"), 48 * 4'096);
  EXPECT_EQ(token_bytes(MemoryRule::kTgi, "gemma-3-27b"), 62 * 8'192);
  EXPECT_EQ(token_bytes(MemoryRule::kVllmV0, "gemma-3-27b"), 62 * 8'192);
}

// Gemma 3 27B in 31 stages of two layers, most of them with windows alone, and 1 GB of cache each.
// In one pool, a stage has 16,384 bytes a token. With SGLang's ratio of 0.8, stages of both kinds
// have 8,192 x 1.8 bytes a token of all tokens; stages of windows have 16,384 a token of windows.
TEST(KvCapacityTest, StagesOfWindowsAloneHaveNoBlocksOfAllTokens) {
  const ModelSpec model = ModelPreset("gemma-3-27b");
  MemoryConfig config{.rule = MemoryRule::kTrtLlm, .max_model_length = 8192};
  config.kv_bytes_override = 1'000'000'000;
  const auto plan = [&] {
    return PlanKvCapacity(model, IdealHardware(), {.pipeline = 31}, config);
  };
  EXPECT_EQ(plan().blocks, 1'000'000'000 / (16 * 16'384));
  config.rule = MemoryRule::kSglang;
  config.window_pool_ratio = 0.8;
  EXPECT_EQ(plan().blocks, 4'238);         // 1e9 / (16 x 14,745.6)
  EXPECT_EQ(plan().window_blocks, 3'390);  // 0.8 x 4,238; the others have 3,814
}

// Layers without attention cache nothing: 9 stages, one of which has no other layers.
TEST(KvCapacityTest, StagesThatCacheNothingDoNotDecide) {
  for (const MemoryRule rule : {MemoryRule::kVllmV0, MemoryRule::kTgi}) {
    MemoryConfig config = Example(rule);
    config.max_model_length = 8192;
    const KvCapacity c = PlanKvCapacity(ModelPreset("llama-3.1-nemotron-ultra-253b"),
                                        IdealHardware(), {.tensor = 8, .pipeline = 9}, config);
    EXPECT_GT(c.block_bytes, 0);
    EXPECT_LT(c.blocks, 1'000'000);
  }
}

// TensorRT-LLM with max_attention_window: half of 10 GB for each pool, of 18 layers x 2,048 bytes x
// 32 tokens a block.
TEST(KvCapacityTest, TensorRtLlmDividesItsMemoryEquallyByWindows) {
  MemoryConfig config{.rule = MemoryRule::kTrtLlm, .block_size = 32};
  config.kv_bytes_override = 10'000'000'000;
  config.window_pool_ratio = PolicyTraits::kEqualWindowPool;
  KvCapacity c = PlanKvCapacity(ModelPreset("gpt-oss-120b"), IdealHardware(), {}, config);
  EXPECT_EQ(c.blocks, 4'238);
  EXPECT_EQ(c.window_blocks, 4'238);
  config.kv_bytes_override.reset();
  config.blocks_override = 100;
  c = PlanKvCapacity(ModelPreset("gpt-oss-120b"), IdealHardware(), {}, config);
  EXPECT_EQ(c.window_blocks, 100);
  config.max_cache_tokens = 4000;
  EXPECT_THAT([&] { PlanKvCapacity(ModelPreset("gpt-oss-120b"), IdealHardware(), {}, config); },
              ThrowsMessage<InputError>(HasSubstr("max_cache_tokens has no effect")));
  config.max_cache_tokens.reset();
  config.blocks_override = 5;  // 160 tokens: a window of 128 and a block
  EXPECT_THAT([&] { PlanKvCapacity(ModelPreset("gpt-oss-120b"), IdealHardware(), {}, config); },
              ThrowsMessage<InputError>(HasSubstr("a window pool of 160 tokens")));
}

// vLLM 0.33.0's own classes, for 10 and 40 GB of cache (also kv_grouping_test.cc).
TEST(KvCapacityTest, BlocksOfKvGroupsAreThoseOfVllm) {
  const auto blocks = [](const char* model, std::int64_t gigabytes, std::int32_t tensor = 1) {
    MemoryConfig config{.max_model_length = 8192};
    config.kv_groups = config.caches_prefixes = true;
    config.kv_bytes_override = gigabytes * 1'000'000'000;
    if (std::string_view(model) == "deepseek-v3") config.block_size = 64;
    return PlanKvCapacity(ModelPreset(model), IdealHardware(), {.tensor = tensor}, config).blocks;
  };
  EXPECT_EQ(blocks("gpt-oss-120b", 10), 16'954);
  EXPECT_EQ(blocks("gpt-oss-20b", 10), 25'431);
  EXPECT_EQ(blocks("gemma-3-27b", 40), 30'517);
  EXPECT_EQ(blocks("mistral-7b-v0.1", 10), 4'768);
  EXPECT_EQ(blocks("gemma-4-31b", 40), 15'258);
  EXPECT_EQ(blocks("deepseek-v3", 10), 2'223);
  EXPECT_EQ(blocks("qwen3.5-397b-a17b", 10), 155);
  EXPECT_EQ(blocks("qwen3.5-397b-a17b", 10, 8), 1'233);
  EXPECT_EQ(blocks("nemotron-3-nano-30b-a3b", 10), 776);
  EXPECT_EQ(blocks("kimi-linear-48b-a3b", 10), 645);
}

// A request of 131,072 tokens with steps of 8,192 fills 8,192 blocks of the layers that keep all
// tokens, and (127 + 8,192) / 16 + 1 of those with the window, rounded up: 521.
TEST(KvCapacityTest, ALongRequestFillsItsWindowsOnce) {
  MemoryConfig config;
  config.kv_groups = config.caches_prefixes = true;
  config.kv_bytes_override = 10'000'000'000;
  const KvCapacity capacity =
      PlanKvCapacity(ModelPreset("gpt-oss-120b"), IdealHardware(), {}, config);
  EXPECT_EQ(capacity.blocks_per_request, 8'192 + 521);
  EXPECT_EQ(capacity.sequences_bytes, 0);
  ASSERT_TRUE(capacity.groups);
  EXPECT_EQ(capacity.groups->groups.size(), 2U);
}

TEST(KvCapacityTest, OrcaHasTheSlotsThatItsOperatorGives) {
  MemoryConfig config = Example(MemoryRule::kOrca);
  config.block_size = 1;
  config.max_cache_tokens = 50'000;
  EXPECT_EQ(Plan(config).blocks, 50'000);
  config.max_cache_tokens = 1'000'000;  // 131 GB
  EXPECT_THAT([&] { Plan(config); },
              ThrowsMessage<InputError>(HasSubstr("1000000 token slots do not fit")));
  config.max_cache_tokens.reset();
  EXPECT_THAT([&] { Plan(config); }, ThrowsMessage<InputError>(HasSubstr("max_cache_tokens")));
}

TEST(KvCapacityTest, TheRankWithTheFewestBlocksDecides) {
  // Two stages of 16 layers, 8.0302e9 bytes each but for the final norm on the last one: with the
  // same activations it has fewest, though by less than a block here; so does a larger vocabulary.
  const KvCapacity c = Plan(Example(MemoryRule::kVllmV1), {.pipeline = 2});
  // 77,309,411,328 - 8,030,257,152 - 2.5e9 = 66,779,154,176 / 1,048,576 = 63,685.6 on stage 0.
  EXPECT_EQ(c.blocks, 63'685);
  ModelSpec tied = ModelPreset("llama-3.2-1b");
  tied.layers = 3;  // stages of 2 and 1 layers: the first one needs twice the bytes a block
  const KvCapacity uneven =
      PlanKvCapacity(tied, IdealHardware(), {.pipeline = 2}, Example(MemoryRule::kVllmV0));
  EXPECT_EQ(uneven.stage, 0);
  EXPECT_EQ(uneven.block_bytes, 16 * 2 * 2 * 8 * 64 * 2);
  EXPECT_EQ(uneven.host_blocks, (4LL << 30) / uneven.block_bytes);
}

TEST(KvCapacityTest, TensorParallelismSharesBlocksAndWeights) {
  const KvCapacity c = Plan(Example(MemoryRule::kVllmV1), {.tensor = 2});
  EXPECT_EQ(c.block_bytes, 1'048'576);
  EXPECT_EQ(c.weight_bytes, (16'060'522'496 - 65 * 8192) / 2 + 65 * 8192);
}

TEST(KvCapacityTest, GivenBlocksOrBytesReplaceTheCalculation) {
  MemoryConfig config = Example(MemoryRule::kVllmV1);
  config.blocks_override = 2'588;
  KvCapacity c = Plan(config);
  EXPECT_EQ(c.blocks, 2'588);
  EXPECT_EQ(c.usable_blocks, 2'587);
  EXPECT_TRUE(c.overridden);
  config.blocks_override.reset();
  config.kv_bytes_override = 2'097'152'000;
  c = Plan(config);
  EXPECT_EQ(c.blocks, 1'000);
}

TEST(KvCapacityTest, AModelThatDoesNotFitIsRefusedWithTheNumbers) {
  EXPECT_THAT(
      [] {
        PlanKvCapacity(ModelPreset("llama-3-70b"), IdealHardware(), {},
                       Example(MemoryRule::kVllmV1));
      },
      ThrowsMessage<InputError>(AllOf(HasSubstr("llama-3-70b does not fit"),
                                      HasSubstr("weights 141.107 GB"),
                                      HasSubstr("requested 77.309 GB"))));
}

TEST(KvCapacityTest, VllmRefusesALongestRequestThatCannotFit) {
  MemoryConfig config = Example(MemoryRule::kVllmV1);
  config.blocks_override = 511;  // one short of 8192 tokens
  EXPECT_THAT([&] { Plan(config); },
              ThrowsMessage<InputError>(HasSubstr("max_model_length 8192 tokens does not fit")));
  config.max_model_length = 4096;
  EXPECT_EQ(Plan(config).blocks, 511);
}

// Block 0 of vLLM V1 holds no request: of 10 blocks of 16, 9 serve 144 tokens.
TEST(KvCapacityTest, TheNullBlockHoldsNoRequestAtStartUp) {
  MemoryConfig config = Example(MemoryRule::kVllmV1);
  config.blocks_override = 10;
  config.max_model_length = 160;
  EXPECT_THAT([&] { Plan(config); },
              ThrowsMessage<InputError>(HasSubstr(
                  "160 tokens does not fit into 10 blocks, one of which is vLLM's null block")));
  config.max_model_length = 144;
  EXPECT_EQ(Plan(config).usable_blocks, 9);
  config = Example(MemoryRule::kVllmV0);  // without a null block
  config.blocks_override = 10;
  config.max_model_length = 160;
  EXPECT_EQ(Plan(config).usable_blocks, 10);
}

TEST(KvCapacityTest, RefusesSettingsOutOfRange) {
  MemoryConfig config = Example(MemoryRule::kVllmV1);
  config.utilization = 1.5;
  EXPECT_THAT([&] { Plan(config); }, ThrowsMessage<InputError>(HasSubstr("utilization")));
  config = Example(MemoryRule::kVllmV1);
  config.block_size = 0;
  EXPECT_THAT([&] { Plan(config); }, ThrowsMessage<InputError>(HasSubstr("block_size is 0")));
}

// A pool of 2^31 - 1 blocks would ask for more memory than machines have.
TEST(KvCapacityTest, RefusesMoreBlocksThanAnyMachineHas) {
  MemoryConfig config = Example(MemoryRule::kVllmV0);
  config.blocks_override = 2'147'483'647;
  EXPECT_THAT([&] { Plan(config); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("blocks_override is 2147483647"), HasSubstr("1 to 100000000"))));
  config.blocks_override.reset();
  config.kv_bytes_override = 100'000'001LL * 2'097'152;
  EXPECT_THAT([&] { Plan(config); }, ThrowsMessage<InputError>(HasSubstr("100000001 blocks,")));
  config.kv_bytes_override.reset();
  config.swap_bytes = 100'000'001LL * 2'097'152;
  EXPECT_THAT([&] { Plan(config); },
              ThrowsMessage<InputError>(HasSubstr("100000001 blocks on the host (swap_bytes)")));
}

TEST(KvCapacityTest, RefusesSettingsThatItsRuleDoesNotUse) {
  MemoryConfig config = Example(MemoryRule::kVllmV1);
  config.max_cache_tokens = 100'000;
  EXPECT_THAT(
      [&] { Plan(config); },
      ThrowsMessage<InputError>(HasSubstr("max_cache_tokens has no effect with the rule vllm_v1")));
  config = Example(MemoryRule::kVllmV1);
  config.blocks_override = 1'000;
  config.kv_bytes_override = 2'097'152'000;
  EXPECT_THAT([&] { Plan(config); },
              ThrowsMessage<InputError>(HasSubstr("kv_bytes_override has no effect")));
}

TEST(KvCapacityTest, RulesAreFoundByTheNamesThatTheyTell) {
  for (const char* name :
       {"vllm_v1", "vllm_v0", "sarathi", "vidur", "mii", "tgi", "trtllm", "sglang", "orca"}) {
    const auto rule = MemoryRuleNamed(name);
    ASSERT_TRUE(rule.has_value()) << name;
    EXPECT_EQ(Name(*rule), name);
  }
  EXPECT_EQ(MemoryRuleNamed("tensorrt"), std::nullopt);
  EXPECT_EQ(MemoryRuleNamed(""), std::nullopt);
}

// Llama-3-8B, 4096 tokens: 2 x 4096 (residual, normed) + 3 x 14336 (gate, up, product) values of
// 2 bytes a token; logits of 256 rows x 128256 x 4 bytes, twice.
TEST(KvCapacityTest, ActivationsAreEstimatedFromTheLargestStep) {
  const ModelSpec model = ModelPreset("llama-3-8b");
  const MemoryConfig config{.max_step_tokens = 4096, .max_sequences = 256};
  EXPECT_EQ(ActivationBytes(model, {}, 0, config),
            4096LL * (2 * 4096 + 3 * 14336) * 2 + 256LL * 128'256 * 4 * 2);
  // The first of two stages has no logits.
  EXPECT_EQ(ActivationBytes(model, {.pipeline = 2}, 0, config),
            4096LL * (2 * 4096 + 3 * 14336) * 2);
}

TEST(KvCapacityTest, DescribesItsCalculation) {
  EXPECT_THAT(Describe(Plan(Example(MemoryRule::kVllmV1))),
              AllOf(HasSubstr("vllm_v1"), HasSubstr("weights        16.061 GB"),
                    HasSubstr("28013 of 16 tokens"), HasSubstr("54.7 requests of 8192 tokens")));
}

// Tokens of one layer of a model with weights of 8 bits and a cache of 16, on LPUs.
std::int64_t ShippedTokens(const char* name, std::int32_t devices, KvSplit split) {
  ModelSpec model = ModelPreset(name);
  model.weight_dtype = DType::kInt8;
  const Parallelism parallelism{.pipeline = model.layers + 2,
                                .stages = {{1, 8, 0}, {model.layers, devices, 1}, {1, 8, 0}},
                                .topology = LinkTopology::kClique,
                                .kv_split = split};
  return PlanKvCapacity(model, Lpu(), parallelism, {.rule = MemoryRule::kShip, .block_size = 1})
      .tokens();
}

// By hand: (devices x 230,686,720 - bytes of a layer) / bytes of a token. A layer of Llama-2-70B
// has 855,638,016 weights and 16,384 of norms, a token 4,096 bytes, or with the heads of 7 devices,
// of which one has 2 of the 8, 7,168.
TEST(KvCapacityTest, ShipFillsTheMemoryOfAStage) {
  EXPECT_EQ(ShippedTokens("llama-2-70b", 6, KvSplit::kContext), 129'020);
  EXPECT_EQ(ShippedTokens("llama-2-70b", 7, KvSplit::kContext), 185'340);
  EXPECT_EQ(ShippedTokens("llama-2-70b", 7, KvSplit::kHeads), 105'908);
  EXPECT_EQ(ShippedTokens("llama-2-70b", 8, KvSplit::kContext), 241'660);
  EXPECT_EQ(ShippedTokens("llama-2-70b", 8, KvSplit::kHeads), 241'660);
  // 202,375,168 weights, 8,192 of norms, 16,384 bytes a token
  EXPECT_EQ(ShippedTokens("llama-2-7b", 1, KvSplit::kContext), 1'727);
  EXPECT_EQ(ShippedTokens("llama-2-7b", 2, KvSplit::kContext), 15'807);
  EXPECT_EQ(ShippedTokens("llama-2-7b", 4, KvSplit::kHeads), 43'967);
}

TEST(KvCapacityTest, ShipNamesTheStageWhoseWeightsDoNotFit) {
  ModelSpec model = ModelPreset("llama-2-70b");
  const Parallelism parallelism{.pipeline = 82,
                                .stages = {{1, 8, 0}, {80, 4, 1}, {1, 8, 0}},
                                .topology = LinkTopology::kClique};
  EXPECT_THAT(
      [&] { PlanKvCapacity(model, Lpu(), parallelism, {.rule = MemoryRule::kShip}); },
      ThrowsMessage<InputError>(AllOf(HasSubstr("stage 1 needs 1.711 GB"), HasSubstr("0.923 GB"))));
}

TEST(KvCapacityTest, OtherRulesRefuseListedStages) {
  const Parallelism parallelism{.pipeline = 1, .stages = {{1, 8, 32}}};
  EXPECT_THAT([&] { Plan(Example(MemoryRule::kVllmV1), parallelism); },
              ThrowsMessage<InputError>(HasSubstr("allowed with other link_topology")));
}

}  // namespace
}  // namespace twin::sim
