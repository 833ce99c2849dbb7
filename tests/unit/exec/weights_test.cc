#include "exec/model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/input_error.h"
#include "exec/model/checkpoint.h"
#include "exec/model/tensor_source.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ModelFolder;
using testing::RandomTensors;
using testing::TensorSet;

std::vector<float> RowOf(const LinearWeights& linear, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(linear.matrix.view().columns));
  linear.matrix.view().CopyRow(row, values.data());
  return values;
}

std::vector<float> StoredRow(TensorSet& tensors, const std::string& name, std::int64_t row) {
  const std::int64_t columns = tensors.shape(name)[1];
  const auto begin = tensors.values(name).begin() + row * columns;
  return {begin, begin + columns};
}

class WeightsTest : public ::testing::Test {
 protected:
  LoadedWeights Load(DType format = DType::kFp32) {
    return LoadWeights(folder_.path(), model_, format, pool_);
  }

  std::string Refusal() {
    try {
      Load();
    } catch (const InputError& error) {
      EXPECT_EQ(error.exit_code(), 1);
      return error.what();
    }
    return "accepted";
  }

  ModelFolder folder_{"weights"};
  kernels::ThreadPool pool_{2};
  ModelConfig model_ = ParseModelConfig(testing::kLlamaConfig, "config.json");
  TensorSet tensors_ = RandomTensors(model_, "model.");
};

TEST_F(WeightsTest, ConcatenatesQueryKeyAndValueRowsAndGateAndUpRows) {
  folder_.WriteWeights(tensors_);
  const LoadedWeights loaded = Load();
  EXPECT_THAT(loaded.warnings, IsEmpty());
  const LayerWeights& layer = loaded.weights.layers[1];
  // 4 query heads and 2 key heads of 4: rows 0..15 query, 16..23 key, 24..31 value.
  ASSERT_EQ(layer.qkv.matrix.view().rows, 32);
  EXPECT_EQ(RowOf(layer.qkv, 15),
            StoredRow(tensors_, "model.layers.1.self_attn.q_proj.weight", 15));
  EXPECT_EQ(RowOf(layer.qkv, 16), StoredRow(tensors_, "model.layers.1.self_attn.k_proj.weight", 0));
  EXPECT_EQ(RowOf(layer.qkv, 31), StoredRow(tensors_, "model.layers.1.self_attn.v_proj.weight", 7));
  EXPECT_EQ(RowOf(layer.up, 23), StoredRow(tensors_, "model.layers.1.mlp.gate_proj.weight", 23));
  EXPECT_EQ(RowOf(layer.up, 24), StoredRow(tensors_, "model.layers.1.mlp.up_proj.weight", 0));
  EXPECT_EQ(loaded.weights.head().matrix.view().rows, 29);
  EXPECT_EQ(layer.attention_norm.gain, tensors_.values("model.layers.1.input_layernorm.weight"));
}

TEST_F(WeightsTest, TakesTheExpertsOfEachFamilyByTheirNames) {
  model_ = ParseModelConfig(testing::kMixtralConfig, "config.json");
  tensors_ = RandomTensors(model_, "model.");
  folder_.WriteWeights(tensors_);
  const std::string mixtral = "model.layers.1.block_sparse_moe.";
  LoadedWeights loaded = Load();
  EXPECT_THAT(loaded.warnings, IsEmpty());
  const LayerWeights& layer = loaded.weights.layers[1];
  ASSERT_EQ(layer.experts.size(), 4U);
  EXPECT_TRUE(layer.up.empty() && layer.down.empty() && layer.shared_gate.empty());
  EXPECT_EQ(RowOf(layer.router, 3), StoredRow(tensors_, mixtral + "gate.weight", 3));
  EXPECT_EQ(RowOf(layer.experts[2].up, 11),
            StoredRow(tensors_, mixtral + "experts.2.w1.weight", 11));
  EXPECT_EQ(RowOf(layer.experts[2].up, 12),
            StoredRow(tensors_, mixtral + "experts.2.w3.weight", 0));
  EXPECT_EQ(RowOf(layer.experts[2].down, 5),
            StoredRow(tensors_, mixtral + "experts.2.w2.weight", 5));

  model_ = ParseModelConfig(testing::kMixtureConfig, "config.json");
  tensors_ = RandomTensors(model_, "model.");
  folder_.WriteWeights(tensors_);
  loaded = Load();
  EXPECT_THAT(loaded.warnings, IsEmpty());
  const LayerWeights& first = loaded.weights.layers[0];
  const std::string mlp = "model.layers.0.mlp.";
  EXPECT_EQ(RowOf(first.experts[4].up, 12),
            StoredRow(tensors_, mlp + "experts.4.up_proj.weight", 0));
  EXPECT_EQ(RowOf(first.up, 19), StoredRow(tensors_, mlp + "shared_expert.gate_proj.weight", 19));
  EXPECT_EQ(RowOf(first.shared_gate, 0), StoredRow(tensors_, mlp + "shared_expert_gate.weight", 0));
}

TEST_F(WeightsTest, StackedExpertsLieOneBelowTheOther) {
  model_ = ParseModelConfig(testing::kMixtralConfig, "config.json");
  const TensorPlan plan = WithStackedExperts(PlanTensors(model_, "model."));
  ASSERT_EQ(plan.layers[1].experts.size(), 1U);
  const ExpertPlan& all = plan.layers[1].experts[0];
  EXPECT_EQ(all.up.rows(), 4 * 2 * 12);
  EXPECT_EQ(all.down.rows(), 4 * 16);
  const std::string experts = "model.layers.1.block_sparse_moe.experts.";
  ASSERT_EQ(all.up.parts.size(), 8U);
  EXPECT_EQ(all.up.parts[1].weight, experts + "0.w3.weight");
  EXPECT_EQ(all.up.parts[6].weight, experts + "3.w1.weight");
  EXPECT_EQ(all.down.parts[3].weight, experts + "3.w2.weight");
  EXPECT_EQ(NamesOf(plan), NamesOf(PlanTensors(model_, "model.")));
  const TensorPlan dense = WithStackedExperts(
      PlanTensors(ParseModelConfig(testing::kLlamaConfig, "config.json"), "model."));
  EXPECT_TRUE(dense.layers[1].experts.empty());
}

TEST_F(WeightsTest, RoutersStayInSinglePrecision) {
  model_ = ParseModelConfig(testing::kMixtureConfig, "config.json");
  for (const DType format : {DType::kBf16, DType::kInt8}) {
    const ModelWeights weights = MakeDummyWeights(model_, format, 1, pool_);
    EXPECT_EQ(weights.layers[0].router.matrix.view().format, DType::kFp32);
    EXPECT_EQ(weights.layers[0].shared_gate.matrix.view().format, DType::kFp32);
    EXPECT_EQ(weights.layers[0].experts[1].up.matrix.view().format, format);
  }
}

TEST_F(WeightsTest, NamesTheExpertThatIsMissingOrOfAnotherShape) {
  model_ = ParseModelConfig(testing::kMixtureConfig, "config.json");
  const TensorSet whole = RandomTensors(model_, "model.");
  const std::string name = "model.layers.1.mlp.experts.3.down_proj.weight";
  tensors_ = whole;
  tensors_.Remove(name);
  folder_.WriteWeights(tensors_);
  EXPECT_THAT(Refusal(), HasSubstr("the tensor '" + name + "' is missing"));
  tensors_ = whole;
  tensors_.shape(name) = {12, 16};
  folder_.WriteWeights(tensors_);
  EXPECT_THAT(Refusal(), HasSubstr(name + "' has shape [12, 16], expected by config.json is "
                                          "[16, 12]"));
}

TEST_F(WeightsTest, ATiedHeadIsTheEmbedding) {
  model_.shape.tied_embeddings = true;
  tensors_.Remove("lm_head.weight");
  folder_.WriteWeights(tensors_);
  const LoadedWeights loaded = Load();
  EXPECT_EQ(loaded.weights.head().matrix.view().panels,
            loaded.weights.embedding.matrix.view().panels);
}

TEST_F(WeightsTest, TurnsTheMatricesOfGpt2) {
  model_ = ParseModelConfig(testing::kGpt2Config, "config.json");
  for (const char* prefix : {"transformer.", ""}) {
    tensors_ = RandomTensors(model_, prefix);
    const std::string name = std::string(prefix) + "h.0.attn.c_attn.weight";
    folder_.WriteWeights(tensors_);
    const LoadedWeights loaded = Load();
    // Stored [12, 36]: row 5 of the packed matrix is column 5.
    const std::vector<float> row = RowOf(loaded.weights.layers[0].qkv, 5);
    for (std::size_t k = 0; k < 12; ++k) EXPECT_EQ(row[k], tensors_.values(name)[k * 36 + 5]);
  }
}

TEST_F(WeightsTest, IgnoresTheMasksThatOldGpt2FilesCarry) {
  model_ = ParseModelConfig(testing::kGpt2Config, "config.json");
  tensors_ = RandomTensors(model_, "");
  testing::AddRandom("h.0.attn.bias", {1, 1, 4, 4}, 0, tensors_);
  folder_.WriteWeights(tensors_);
  EXPECT_THAT(Load().warnings, IsEmpty());
}

TEST_F(WeightsTest, NamesWhatIsMissing) {
  for (const char* name : {"model.layers.0.mlp.down_proj.weight", "model.norm.weight",
                           "lm_head.weight", "model.embed_tokens.weight"}) {
    TensorSet fewer = tensors_;
    fewer.Remove(name);
    folder_.WriteWeights(fewer);
    EXPECT_THAT(Refusal(), HasSubstr("the tensor '" + std::string(name) + "' is missing"));
  }
}

TEST_F(WeightsTest, ShowsBothShapesWhereTheyDiffer) {
  tensors_.shape("model.layers.0.mlp.down_proj.weight") = {24, 16};
  folder_.WriteWeights(tensors_);
  EXPECT_THAT(Refusal(), HasSubstr("down_proj.weight' has shape [24, 16], expected by config.json "
                                   "is [16, 24]"));
}

TEST_F(WeightsTest, TakesNoMemoryForShapesThatTheFileDoesNotHave) {
  folder_.WriteWeights(tensors_);
  model_.shape.vocab = std::numeric_limits<std::int32_t>::max();
  EXPECT_THAT(Refusal(), HasSubstr("expected by config.json is [2147483647, 16]"));
}

TEST_F(WeightsTest, RefusesWeightsThatAreNoFloatingPoint) {
  std::vector<StoredTensor> stored = tensors_.Stored();
  for (StoredTensor& tensor : stored) {
    if (tensor.name == "model.norm.weight") tensor.type = StoredType::kI32;
  }
  testing::WriteSafetensors(folder_.path() / "model.safetensors", stored);
  EXPECT_THAT(Refusal(), HasSubstr("'model.norm.weight' has dtype I32, must be F64, F32, F16"));
}

TEST_F(WeightsTest, WarnsOfEachTensorThatIsUnusedOrNotFinite) {
  testing::AddRandom("model.extra", {2}, 0, tensors_);
  testing::AddRandom("another", {2}, 0, tensors_);
  tensors_.values("model.layers.0.self_attn.q_proj.weight")[37] = NAN;
  tensors_.values("model.norm.weight")[2] = INFINITY;
  folder_.WriteWeights(tensors_);
  EXPECT_THAT(Load().warnings,
              ElementsAre(HasSubstr("q_proj.weight' is not finite: element 37"),
                          HasSubstr("'model.norm.weight' is not finite: element 2"),
                          HasSubstr("'another' is unused"), HasSubstr("'model.extra' is unused")));
}

TEST_F(WeightsTest, ReadsFp64AndPacksBf16) {
  TensorSet doubles = tensors_;
  std::vector<StoredTensor> stored = doubles.Stored();
  std::vector<std::vector<double>> wide(stored.size());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::vector<float>& values = doubles.values(stored[i].name);
    wide[i].assign(values.begin(), values.end());
    stored[i].type = StoredType::kF64;
    stored[i].bytes = std::as_bytes(std::span(wide[i]));
  }
  testing::WriteSafetensors(folder_.path() / "model.safetensors", stored);
  EXPECT_EQ(RowOf(Load().weights.embedding, 3),
            StoredRow(tensors_, "model.embed_tokens.weight", 3));
  const LoadedWeights rounded = Load(DType::kBf16);
  const std::vector<float> row = RowOf(rounded.weights.embedding, 3);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float exact = StoredRow(tensors_, "model.embed_tokens.weight", 3)[i];
    EXPECT_LE(std::abs(row[i] - exact), std::abs(exact) / 256);  // 8 bits of significand
  }
}

TEST_F(WeightsTest, ReadsShardsByTheirIndex) {
  TensorSet head;
  head.Add("lm_head.weight", tensors_.shape("lm_head.weight"), tensors_.values("lm_head.weight"));
  TensorSet rest = tensors_;
  rest.Remove("lm_head.weight");
  folder_.WriteWeights(rest, "a.safetensors");
  folder_.WriteWeights(head, "b.safetensors");
  std::string map;
  for (const StoredTensor& tensor : rest.Stored()) {
    map += "\"" + tensor.name + "\": \"a.safetensors\", ";
  }
  const auto index = [&](const std::string& last) {
    folder_.WriteText("model.safetensors.index.json", "{\"weight_map\": {" + map + last + "}}");
  };
  index(R"("lm_head.weight": "b.safetensors")");
  EXPECT_EQ(RowOf(Load().weights.untied_head, 4), StoredRow(tensors_, "lm_head.weight", 4));
  index(R"("lm_head.weight": "c.safetensors")");
  EXPECT_THAT(Refusal(), HasSubstr("the shard c.safetensors is missing"));
  index(R"("lm_head.weight": "a.safetensors")");
  EXPECT_THAT(Refusal(), HasSubstr("'lm_head.weight' is missing in the shard a.safetensors"));
  index(R"("lm_head.weight": "../b.safetensors")");
  EXPECT_THAT(Refusal(), HasSubstr("must be the name of a file in the same directory"));
  folder_.WriteWeights(tensors_, "b.safetensors");
  index(R"("lm_head.weight": "b.safetensors")");
  EXPECT_THAT(Refusal(), HasSubstr("is in two of the shards"));
  folder_.WriteText("model.safetensors.index.json", "{\"weight_map\": {}}");
  EXPECT_THAT(Refusal(), HasSubstr("names no weights"));
  folder_.WriteText("model.safetensors.index.json", "[");
  EXPECT_THAT(Refusal(), HasSubstr("is not JSON"));
}

TEST_F(WeightsTest, SaysWhereNoWeightsAre) {
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("no weights found"), HasSubstr("model.safetensors")));
}

TEST_F(WeightsTest, DummyWeightsAreNormalAndDependOnSeedAndNameAlone) {
  model_.shape.vocab = 4000;
  kernels::ThreadPool one(1);
  const ModelWeights weights = MakeDummyWeights(model_, DType::kFp32, 1, pool_);
  const ModelWeights again = MakeDummyWeights(model_, DType::kFp32, 1, one);
  const ModelWeights other = MakeDummyWeights(model_, DType::kFp32, 2, pool_);
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  for (std::int64_t row = 0; row < 4000; ++row) {
    const std::vector<float> values = RowOf(weights.embedding, row);
    ASSERT_EQ(values, RowOf(again.embedding, row));
    for (const float value : values) {
      const double z = static_cast<double>(value) / 0.02;
      sum += z;
      squares += z * z;
      fourth += z * z * z * z;
    }
  }
  // 64000 draws: standard errors 0.004, 0.006 and 0.04.
  EXPECT_NEAR(sum / 64000, 0, 0.02);
  EXPECT_NEAR(squares / 64000, 1, 0.03);
  EXPECT_NEAR(fourth / 64000, 3, 0.2);
  EXPECT_NE(RowOf(weights.embedding, 0), RowOf(other.embedding, 0));
  EXPECT_NE(RowOf(weights.layers[0].qkv, 0), RowOf(weights.layers[1].qkv, 0));
  EXPECT_THAT(weights.final_norm.gain, ::testing::Each(1.0F));
}

}  // namespace
}  // namespace twin::exec
