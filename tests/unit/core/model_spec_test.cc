#include "core/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/models/model_names.h"
#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Falcon-7B and OPT-13B: no presets, but rows of the reference table.
ModelSpec WithKvShape(std::int32_t layers, std::int32_t kv_heads, std::int32_t head_dim) {
  ModelSpec model = ModelPreset("llama-2-7b");
  model.layers = layers;
  model.kv_heads = kv_heads;
  model.head_dim = head_dim;
  return model;
}

// Values: published KV sizes per token in 16 bits, 2 x layers x kv heads x head size x 2 bytes.
TEST(ModelSpecTest, KvBytesPerTokenMatchTheReferenceTable) {
  EXPECT_EQ(KvBytesPerToken(ModelPreset("llama-2-7b")), 524'288);
  EXPECT_EQ(KvBytesPerToken(ModelPreset("llama-2-13b")), 819'200);
  EXPECT_EQ(KvBytesPerToken(ModelPreset("llama-3-8b")), 131'072);
  EXPECT_EQ(KvBytesPerToken(ModelPreset("llama-3-70b")), 327'680);
  EXPECT_EQ(KvBytesPerToken(ModelPreset("qwen2.5-7b")), 57'344);
  EXPECT_EQ(KvBytesPerToken(WithKvShape(32, 1, 64)), 8'192);      // Falcon-7B
  EXPECT_EQ(KvBytesPerToken(WithKvShape(40, 40, 128)), 819'200);  // OPT-13B
}

TEST(ModelSpecTest, AnEightBitCacheHalvesTheKvBytes) {
  ModelSpec model = ModelPreset("llama-3-8b");
  model.kv_dtype = DType::kFp8;
  EXPECT_EQ(KvBytesPerToken(model), 65'536);
}

TEST(ModelSpecTest, KvHeadsAreSharedThenReplicated) {
  const ModelSpec model = ModelPreset("llama-3-70b");  // 8 KV heads
  EXPECT_EQ(KvHeadsPerRank(model, {.tensor = 4}), 2);
  EXPECT_EQ(KvHeadsPerRank(model, {.tensor = 8}), 1);
  EXPECT_EQ(KvHeadsPerRank(model, {.tensor = 16}), 1);
  EXPECT_EQ(KvBytesPerToken(model, {.tensor = 8}, 0), 327'680 / 8);
  EXPECT_EQ(KvBytesPerToken(model, {.tensor = 16}, 0), 327'680 / 8);
}

TEST(ModelSpecTest, RemainingLayersGoToTheStagesBeforeTheLast) {
  ModelSpec model = ModelPreset("llama-3-8b");
  model.layers = 30;
  const Parallelism four{.pipeline = 4};  // 30 = 7 + 8 + 8 + 7
  EXPECT_EQ(StageLayers(model, four, 0), 7);
  EXPECT_EQ(StageLayers(model, four, 1), 8);
  EXPECT_EQ(StageLayers(model, four, 2), 8);
  EXPECT_EQ(StageLayers(model, four, 3), 7);
  EXPECT_EQ(KvBytesPerToken(model, four, 1), 8 * 4096);
  EXPECT_EQ(KvBytesPerToken(model, four, 3), 7 * 4096);
}

TEST(ModelSpecTest, OneRankHoldsAllParameters) {
  for (const char* name : {"llama-3-8b", "gpt2", "qwen3-0.6b", "mixtral-8x7b"}) {
    const ModelSpec model = ModelPreset(name);
    EXPECT_EQ(WeightBytesPerRank(model, {}, 0), 2 * TotalParameters(model)) << name;
  }
}

// Llama-3-8B: 7.505 GB of layers at a byte each, and 2 x 128256 x 4096 weights and a norm in 16
// bits: 9.081 GB.
TEST(ModelSpecTest, EmbeddingAndHeadStayIn16BitsBesideQuantisedLayers) {
  ModelSpec model = ModelPreset("llama-3-8b");
  for (const DType format : {DType::kFp8, DType::kInt8}) {
    model.weight_dtype = format;
    const std::int64_t ends = 2 * 128'256LL * 4096 + 4096;
    const std::int64_t layers = 32 * 218'112'000LL;
    EXPECT_EQ(WeightBytesPerRank(model, {}, 0), layers + 2 * ends);
  }
  model.weight_dtype = DType::kFp32;
  EXPECT_EQ(WeightBytesPerRank(model, {}, 0), 4 * TotalParameters(model));
}

TEST(ModelSpecTest, TensorParallelismSharesAllButTheNorms) {
  // Llama-3-8B: 65 norms of 4096 are on every rank, all else is halved.
  const ModelSpec model = ModelPreset("llama-3-8b");
  const std::int64_t norms = 65 * 4096;
  EXPECT_EQ(WeightBytesPerRank(model, {.tensor = 2}, 0), 2 * ((8'030'261'248 - norms) / 2 + norms));
}

TEST(ModelSpecTest, ReplicatedKvHeadsAreReplicatedInTheWeightsToo) {
  // Qwen2.5-7B, 4 KV heads, 28 query heads: neither 8 nor 16 divides 28, so a model of 32 heads.
  ModelSpec model = ModelPreset("qwen2.5-7b");
  model.query_heads = 32;
  model.vocab = 8;
  const std::int64_t at4 = WeightBytesPerRank(model, {.tensor = 4}, 0);
  const std::int64_t at8 = WeightBytesPerRank(model, {.tensor = 8}, 0);
  // Going from 4 to 8 ranks halves query, output and MLP, while K and V stay one head each.
  const std::int64_t query_and_output = 28 * (2 * 3584 * 32 * 128 + 32 * 128);
  const std::int64_t mlp = 28LL * 3 * 3584 * 18944;
  const std::int64_t embeddings = 2 * 8 * 3584;
  EXPECT_EQ(at4 - at8, 2 * (query_and_output + mlp + embeddings) / 8);
}

TEST(ModelSpecTest, PipelineStagesHoldTheirLayersAndTheEndsTheirEmbeddings) {
  const ModelSpec model = ModelPreset("llama-3-8b");
  const Parallelism two{.pipeline = 2};
  const std::int64_t layers = 16LL * 218'112'000;  // attention, MLP and norms
  const std::int64_t embedding = 128'256LL * 4096;
  EXPECT_EQ(WeightBytesPerRank(model, two, 0), 2 * (layers + embedding));
  EXPECT_EQ(WeightBytesPerRank(model, two, 1), 2 * (layers + embedding + 4096));
}

TEST(ModelSpecTest, ATiedEmbeddingIsStoredTwiceAcrossStages) {
  const ModelSpec model = ModelPreset("llama-3.2-1b");
  const Parallelism two{.pipeline = 2};
  const std::int64_t both = WeightBytesPerRank(model, two, 0) + WeightBytesPerRank(model, two, 1);
  EXPECT_EQ(both, 2 * (TotalParameters(model) + 128'256LL * 2048));
}

TEST(ModelSpecTest, OddVocabulariesAreRoundedUpPerRank) {
  ModelSpec model = ModelPreset("gpt2");  // vocabulary 50257
  const std::int64_t even = WeightBytesPerRank(model, {.tensor = 2}, 0);
  model.vocab = 50258;
  EXPECT_EQ(WeightBytesPerRank(model, {.tensor = 2}, 0), even);
}

TEST(ModelSpecTest, ActiveLayerParametersLeaveTheEmbeddingsOut) {
  EXPECT_EQ(ActiveLayerParameters(ModelPreset("llama-3-8b")), 32LL * 218'112'000);
}

TEST(ModelSpecTest, RefusesSplitsThatDoNotDivide) {
  const ModelSpec qwen = ModelPreset("qwen2.5-7b");  // 28 query heads, 4 KV heads, 28 layers
  EXPECT_THAT([&] { Validate(qwen, {.tensor = 8}); },
              ThrowsMessage<InputError>(
                  HasSubstr("query_heads 28 does not divide by tensor parallelism 8")));
  EXPECT_THAT([&] { Validate(qwen, {.pipeline = 29}); },
              ThrowsMessage<InputError>(HasSubstr("exceeds its 28 layers")));
  ModelSpec six = ModelPreset("llama-3-8b");
  six.query_heads = 36;
  six.kv_heads = 6;
  EXPECT_THAT([&] { Validate(six, {.tensor = 4}); },
              ThrowsMessage<InputError>(HasSubstr("neither be divided nor replicated")));
  EXPECT_NO_THROW(Validate(qwen, {.tensor = 4, .pipeline = 3}));
}

TEST(ModelSpecTest, RefusesImpossibleShapesNamingTheField) {
  ModelSpec model = ModelPreset("llama-3-8b");
  model.kv_heads = 3;
  EXPECT_THAT([&] { Validate(model); },
              ThrowsMessage<InputError>(HasSubstr("query_heads 32 is no multiple of kv_heads 3")));
  model = ModelPreset("llama-3-8b");
  model.vocab = -19;
  EXPECT_THAT([&] { Validate(model); }, ThrowsMessage<InputError>(HasSubstr("vocab is -19")));
  model = ModelPreset("mixtral-8x7b");
  model.moe.experts_per_token = 9;
  EXPECT_THAT([&] { Validate(model); },
              ThrowsMessage<InputError>(HasSubstr("moe.experts_per_token 9 exceeds")));
}

// A layer of nothing but norms is a mistake; without them it returns its input.
TEST(ModelSpecTest, ALayerWithoutAttentionAndMlpHasNoNorms) {
  ModelSpec model = ModelPreset("llama-3-8b");
  LayerSpec nothing;
  SetLayers({{32, model}, {1, nothing}}, model);
  EXPECT_THAT([&] { Validate(model); },
              ThrowsMessage<InputError>(HasSubstr("a layer has neither attention nor MLP")));
  nothing.norms_per_layer = 0;
  const std::int64_t before = TotalParameters(ModelPreset("llama-3-8b"));
  SetLayers({{32, ModelPreset("llama-3-8b")}, {1, nothing}}, model);
  EXPECT_NO_THROW(Validate(model, {.tensor = 8, .pipeline = 3}));
  EXPECT_EQ(TotalParameters(model), before);
  SetLayers({{2, ModelPreset("llama-3-8b")}, {2, nothing}}, model);
  EXPECT_THAT([&] { Validate(model, {.pipeline = 2}); },
              ThrowsMessage<InputError>(HasSubstr("pipeline parallelism 2 gives stage 1 nothing")));
}

TEST(DTypeTest, NamesAreReadBack) {
  for (const DType type :
       {DType::kFp32, DType::kBf16, DType::kFp16, DType::kFp8, DType::kInt8, DType::kInt4}) {
    EXPECT_EQ(ParseDType(Name(type)), type);
  }
  EXPECT_EQ(ParseDType("bfloat16"), DType::kBf16);
  EXPECT_EQ(ParseDType("float64"), std::nullopt);
}

}  // namespace
}  // namespace twin
