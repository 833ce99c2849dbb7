#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "config/models/model_names.h"
#include "core/input_error.h"

namespace twin {
namespace {

// Totals: with embedding and head, without layers for speculation. Source: the classes of
// transformers 5.24 on the meta device, made from each config.json, where they count the model
// right; else the publisher's total. `active` is the total without the routed experts that a token
// does not visit; 0 = not in the source. Bytes of keys and values in 16 bits, of states in 32.
struct Published {
  const char* name;
  std::int64_t total;
  std::int64_t active;
  std::int64_t bytes_per_token;
  std::int64_t bytes_per_sequence;
};
constexpr Published kPublished[] = {
    {"deepseek-v2-lite", 15'706'484'224LL, 2'661'150'208LL, 31'104, 0},
    {"moonlight-16b-a3b", 15'960'110'208LL, 0, 31'104, 0},
    {"glm-4.7-flash", 29'943'393'920LL, 0, 54'144, 0},
    {"mistral-small-4-119b", 118'972'826'624LL, 0, 23'040, 0},
    {"deepseek-v2", 235'741'434'880LL, 0, 69'120, 0},
    {"deepseek-v3", 671'026'419'200LL, 37'552'297'472LL, 70'272, 0},
    {"deepseek-v3.2", 671'877'944'064LL, 38'403'822'336LL, 70'272, 0},
    {"kimi-k2", 1'026'408'232'448LL, 32'861'500'928LL, 70'272, 0},
    {"kimi-k2.5", 1'026'408'232'448LL, 32'861'500'928LL, 70'272, 0},
    {"glm-5", 743'911'218'432LL, 41'784'728'832LL, 89'856, 0},
    {"glm-5.2", 743'377'019'904LL, 41'250'530'304LL, 89'856, 0},
    {"longcat-flash-chat", 560'664'980'480LL, 0, 64'512, 0},
    {"kimi-linear-48b-a3b", 49'122'681'728LL, 3'484'459'904LL, 8'064, 43'417'600},
    {"ling-3.0-flash", 124'414'211'552LL, 0, 8'064, 75'980'800},
    {"kimi-k3", 2'779'481'465'440LL, 0, 27'648, 449'372'160},
    {"glm-4.5", 352'797'829'024LL, 33'632'266'144LL, 376'832, 0},
    {"glm-4.5-air", 106'852'251'264LL, 13'424'129'664LL, 188'416, 0},
    {"minimax-m2", 228'689'764'864LL, 11'030'553'088LL, 253'952, 0},
    {"minimax-m3", 426'174'572'928LL, 0, 122'880, 0},
    {"qwen3-30b-a3b", 30'532'122'624LL, 0, 98'304, 0},
    {"qwen3-235b-a22b", 235'093'634'560LL, 22'190'763'520LL, 192'512, 0},
    {"qwen3-coder-480b-a35b", 480'154'875'392LL, 0, 253'952, 0},
    {"mixtral-8x7b", 46'702'792'704LL, 0, 131'072, 0},
    {"mixtral-8x22b", 140'620'634'112LL, 0, 229'376, 0},
    {"solar-open-100b", 102'651'799'552LL, 0, 196'608, 0},
    {"hunyuan-a13b", 80'393'183'232LL, 0, 131'072, 0},
    {"dots.llm1", 142'774'381'696LL, 0, 1'015'808, 0},
    {"phi-3.5-moe", 41'872'723'968LL, 0, 131'072, 0},
    {"gpt-oss-20b", 20'914'757'184LL, 4'187'440'704LL, 24'576, 3'145'728},
    {"gpt-oss-120b", 116'829'156'672LL, 5'711'982'912LL, 36'864, 4'718'592},
    {"llama-4-scout", 107'769'861'120LL, 17'172'894'720LL, 49'152, 1'207'959'552},
    {"llama-4-maverick", 400'711'848'960LL, 0, 49'152, 1'207'959'552},
    {"mimo-v2-flash", 308'778'780'864LL, 15'445'936'320LL, 23'040, 25'559'040},
    {"step-3.7-flash", 196'956'130'368LL, 0, 49'152, 69'206'016},
    {"gemma-4-26b-a4b", 25'233'141'760LL, 0, 20'480, 209'715'200},
    {"qwen3-next-80b-a3b", 79'674'391'296LL, 3'874'929'408LL, 24'576, 77'266'944},
    {"qwen3.5-397b-a17b", 396'346'350'336LL, 17'349'040'896LL, 30'720, 192'061'440},
    {"qwen3.5-122b-a10b", 122'111'526'912LL, 0, 24'576, 153'649'152},
    {"qwen3.5-35b-a3b", 34'660'610'688LL, 0, 20'480, 64'389'120},
    {"qwen3.5-27b", 26'895'998'464LL, 0, 65'536, 153'944'064},
    {"nemotron-3-nano-30b-a3b", 31'577'940'288LL, 3'580'076'352LL, 6'144, 49'082'368},
    {"nemotron-3-super-120b-a12b", 120'668'707'840LL, 12'770'237'440LL, 8'192, 170'229'760},
    {"nemotron-3-ultra-550b-a55b", 549'308'993'536LL, 0, 12'288, 407'961'600},
    {"nemotron-h-56b", 56'324'350'464LL, 0, 40'960, 912'605'184},
    {"nemotron-nano-9b-v2", 8'888'227'328LL, 0, 16'384, 143'548'416},
    {"granite-4.0-h-small", 32'207'337'984LL, 0, 16'384, 152'819'712},
    {"minimax-text-01", 456'089'655'296LL, 0, 40'960, 293'601'280},
    {"gemma-2-2b", 2'614'341'888LL, 0, 53'248, 218'103'808},
    {"gemma-2-9b", 9'241'705'984LL, 0, 172'032, 704'643'072},
    {"gemma-2-27b", 27'227'128'320LL, 0, 188'416, 771'751'936},
    {"gemma-3-1b", 999'885'952, 0, 4'096, 11'534'336},
    {"gemma-3-4b", 3'880'263'168LL, 0, 20'480, 121'634'816},
    {"gemma-3-12b", 11'766'034'176LL, 0, 65'536, 335'544'320},
    {"gemma-3-27b", 27'009'346'304LL, 0, 81'920, 436'207'616},
    {"gemma-4-31b", 30'697'345'280LL, 0, 81'920, 838'860'800},
    {"mistral-7b-v0.1", 7'241'732'096LL, 0, 0, 536'870'912},
    {"mistral-7b-v0.3", 7'248'023'552LL, 0, 131'072, 0},
    {"mistral-nemo-12b", 12'247'782'400LL, 0, 163'840, 0},
    {"mistral-small-24b", 23'572'403'200LL, 0, 163'840, 0},
    {"mistral-large-123b", 122'610'069'504LL, 0, 360'448, 0},
    {"ministral-3-8b", 8'489'553'920LL, 0, 139'264, 0},
    {"phi-3-mini-4k", 3'821'079'552LL, 0, 0, 804'913'152},
    {"phi-4", 14'659'507'200LL, 0, 204'800, 0},
    {"command-r7b-12-2024", 8'028'033'024LL, 0, 32'768, 402'653'184},
    {"command-a-111b", 111'057'580'032LL, 0, 65'536, 805'306'368},
    {"exaone-4.0-32b", 32'003'216'384LL, 0, 65'536, 805'306'368},
    {"olmo-3-7b", 7'298'011'136LL, 0, 131'072, 1'610'612'736},
    {"olmo-3-32b", 32'233'522'176LL, 0, 65'536, 805'306'368},
    {"smollm3-3b", 3'075'098'624LL, 0, 73'728, 0},
    {"seed-oss-36b", 36'151'104'512LL, 0, 262'144, 0},
    {"qwen3-0.6b", 596'049'920, 0, 114'688, 0},
    {"qwen3-1.7b", 1'720'574'976, 0, 114'688, 0},
    {"qwen3-4b", 4'022'468'096LL, 0, 147'456, 0},
    {"qwen3-8b", 8'190'735'360LL, 0, 147'456, 0},
    {"qwen3-14b", 14'768'307'200LL, 0, 163'840, 0},
    {"qwen3-32b", 32'762'123'264LL, 0, 262'144, 0},
    {"qwen2.5-7b", 7'615'616'512LL, 0, 57'344, 0},
    {"qwen2.5-32b", 32'763'876'352LL, 0, 262'144, 0},
    {"qwen2.5-72b", 72'706'203'648LL, 0, 327'680, 0},
    {"llama-3.2-1b", 1'235'814'400, 0, 32'768, 0},
    {"llama-3.1-8b", 8'030'261'248LL, 0, 131'072, 0},
    {"llama-3.1-70b", 70'553'706'496LL, 0, 327'680, 0},
    {"llama-3.1-405b", 405'853'388'800LL, 0, 516'096, 0},
    {"llama-3.3-nemotron-super-49b", 49'867'145'216LL, 0, 200'704, 0},
    {"step-3", 316'294'538'240LL, 0, 62'464, 0},
    {"ernie-4.5-21b-a3b", 21'825'437'888LL, 0, 57'344, 0},
    {"ling-flash-2.0", 102'889'705'216LL, 0, 65'536, 0},
    {"llama-3.1-nemotron-ultra-253b", 253'401'268'224LL, 0, 262'144, 0},
    {"nemotron-nano-12b-v2", 12'310'001'152LL, 0, 24'576, 148'865'024},
    {"ernie-4.5-300b-a47b", 298'636'913'856LL, 47'079'337'152LL, 221'184, 0},
    {"ling-lite-1.5", 16'801'974'272LL, 2'753'153'024LL, 57'344, 0},
    {"ling-plus", 290'602'910'976LL, 29'004'170'496LL, 270'336, 0},
    {"ling-mini-2.0", 16'255'643'392LL, 1'432'973'056LL, 40'960, 0},
    {"ling-1t", 999'705'328'640LL, 51'054'427'136LL, 327'680, 0},
};

TEST(LayeredPresetsTest, PresetsHaveThePublishedNumbersOfParametersAndCachedBytes) {
  for (const Published& published : kPublished) {
    const ModelSpec model = ModelPreset(published.name);
    EXPECT_NO_THROW(Validate(model)) << published.name;
    EXPECT_EQ(TotalParameters(model), published.total) << published.name;
    const std::int64_t active = published.active > 0 ? published.active : ActiveParameters(model);
    EXPECT_EQ(ActiveParameters(model), active) << published.name;
    const KvBytes cached = CachedBytes(model, {}, 0);
    EXPECT_EQ(cached.per_token, published.bytes_per_token) << published.name;
    EXPECT_EQ(cached.per_sequence, published.bytes_per_sequence) << published.name;
  }
}

// Nemotron-Ultra has 162 blocks: 64 with attention, 81 without attention and MLP.
TEST(LayeredPresetsTest, BlocksThatReturnTheirInputAreLayersWithoutNumbers) {
  const ModelSpec model = ModelPreset("llama-3.1-nemotron-ultra-253b");
  EXPECT_EQ(model.layers, 162);
  std::int32_t empty = 0;
  std::int32_t attention = 0;
  for (const LayerGroup& group : model.groups) {
    if (group.layer.is_empty()) empty += group.layers;
    if (group.layer.query_heads > 0) attention += group.layers;
  }
  EXPECT_EQ(empty, 81);
  EXPECT_EQ(attention, 64);
}

// 132 bytes, 128 of fp8 and a scale, for each layer with an index of its own: 61, 78 and 21.
TEST(LayeredPresetsTest, LayersThatOwnAnIndexCacheItsKeys) {
  EXPECT_EQ(CachedBytes(ModelPreset("deepseek-v3.2"), {}, 0).index_per_token, 61 * 132);
  EXPECT_EQ(CachedBytes(ModelPreset("glm-5"), {}, 0).index_per_token, 78 * 132);
  EXPECT_EQ(CachedBytes(ModelPreset("glm-5.2"), {}, 0).index_per_token, 21 * 132);
}

// A rank of a tensor-parallel group holds every latent vector: 61 layers x 576 bytes.
TEST(LayeredPresetsTest, LatentVectorsAreNotSharded) {
  ModelSpec model = ModelPreset("deepseek-r1");
  model.kv_dtype = DType::kFp8;
  for (const std::int32_t ranks : {1, 4, 8}) {
    EXPECT_EQ(KvBytesPerToken(model, {.tensor = ranks}, 0), 35'136) << ranks;
  }
}

// Published totals of checkpoints with the module, in 10^9: DeepSeek-V3 684.489 has 671.026 without
// it and a second copy of embedding and head of 1.853; V3.2 685.355; Qwen3-Next 81.32.
TEST(LayeredPresetsTest, ModulesOfMultiTokenPredictionHaveThePublishedParameters) {
  const auto billions = [](const char* name) {
    return 1e-9 * static_cast<double>(TotalParameters(MtpModule(ModelPreset(name))));
  };
  EXPECT_EQ(TotalParameters(MtpModule(ModelPreset("deepseek-v3"))), 11'610'068'224LL);
  EXPECT_NEAR(billions("deepseek-v3.2"), 11.624, 0.0005);
  EXPECT_NEAR(billions("glm-5"), 9.953, 0.0005);
  EXPECT_NEAR(billions("glm-4.7-flash"), 0.644, 0.0005);
  EXPECT_NEAR(billions("glm-4.5"), 3.988, 0.0005);
  EXPECT_NEAR(billions("glm-4.5-air"), 2.375, 0.0005);
  EXPECT_NEAR(billions("qwen3-next-80b-a3b"), 1.650, 0.0005);
  EXPECT_NEAR(billions("qwen3.5-397b-a17b"), 6.596, 0.0005);
}

TEST(LayeredPresetsTest, AModelWithoutSuchAModuleRefusesToDescribeOne) {
  EXPECT_THROW(MtpModule(ModelPreset("llama-3.1-8b")), InputError);
}

double GigabytesPerRank(const char* name, std::int32_t ranks) {
  return 1e-9 * static_cast<double>(WeightBytesPerRank(ModelPreset(name), {.tensor = ranks}, 0));
}

// R1 in fp8 on 8 ranks, in GB: embedding and head 0.463, attention 2.235, first dense layers 0.149,
// routers 0.213, routed experts 81.739, shared experts 0.319, and 0.02 of scales.
TEST(LayeredPresetsTest, WeightsOfARankHaveTheFormatsOfTheirParts) {
  EXPECT_NEAR(GigabytesPerRank("deepseek-r1", 8), 85.14, 0.01);
  EXPECT_NEAR(GigabytesPerRank("deepseek-r1-nvfp4", 8), 51.39, 0.01);
  EXPECT_NEAR(GigabytesPerRank("deepseek-r1-nvfp4", 4), 100.72, 0.01);
  EXPECT_NEAR(GigabytesPerRank("kimi-k2.5", 8), 76.18, 0.01);
  EXPECT_NEAR(GigabytesPerRank("kimi-k2", 8), 129.71, 0.04);
  EXPECT_NEAR(GigabytesPerRank("gpt-oss-120b", 1), 65.25, 0.01);
  EXPECT_NEAR(GigabytesPerRank("gpt-oss-20b", 1), 13.76, 0.01);
  EXPECT_NEAR(GigabytesPerRank("qwen3.5-397b-a17b", 8), 99.36, 0.01);
  EXPECT_NEAR(GigabytesPerRank("qwen3.5-397b-a17b-fp8", 8), 50.06, 0.02);
  EXPECT_NEAR(GigabytesPerRank("qwen3.5-397b-a17b-nvfp4", 4), 58.89, 0.2);
  EXPECT_NEAR(GigabytesPerRank("minimax-m2.5-nvfp4", 4), 33.67, 0.01);
  EXPECT_NEAR(GigabytesPerRank("llama-3.1-70b-fp8", 1), 72.66, 0.01);
}

}  // namespace
}  // namespace twin
