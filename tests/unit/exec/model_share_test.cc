// Which rows and columns of a model each rank of a grid takes.
#include "exec/model/model_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/input_error.h"
#include "exec/model/weights.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Row = std::vector<float>;
using Rows = std::vector<Row>;

constexpr const char* kWideGpt2Config = R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 3,
  "n_head": 4, "n_positions": 64, "vocab_size": 17, "layer_norm_epsilon": 1e-5})";

constexpr const char* kPhi3Config = R"({"model_type": "phi3", "hidden_size": 16,
  "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 29, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": false, "pad_token_id": 0})";

Rows RowsOf(const LinearWeights& linear) {
  const kernels::WeightView& view = linear.matrix.view();
  Rows rows(static_cast<std::size_t>(view.rows), Row(static_cast<std::size_t>(view.columns)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    view.CopyRow(static_cast<std::int64_t>(i), rows[i].data());
  }
  return rows;
}

void Append(const Rows& from, std::int64_t first, std::int64_t count, Rows& to) {
  to.insert(to.end(), from.begin() + first, from.begin() + first + count);
}

Rows Columns(const Rows& from, std::int64_t first, std::int64_t count) {
  Rows cut;
  for (const Row& row : from) cut.emplace_back(row.begin() + first, row.begin() + first + count);
  return cut;
}

Row Part(const Row& from, std::int64_t first, std::int64_t count) {
  return {from.begin() + first, from.begin() + first + count};
}

class ModelShareTest : public ::testing::Test {
 protected:
  void Use(const char* config, const std::string& prefix) {
    model_ = ParseModelConfig(config, "config.json");
    folder_.WriteWeights(testing::RandomTensors(model_, prefix));
    whole_ = LoadWeights(folder_.path(), model_, DType::kFp32, pool_).weights;
  }

  ModelWeights Share(const Parallelism& grid, std::int32_t rank) {
    LoadedWeights loaded =
        LoadWeights(folder_.path(), model_, DType::kFp32, pool_, PlaceOf(grid, rank));
    EXPECT_THAT(loaded.warnings, IsEmpty());
    return std::move(loaded.weights);
  }

  // Of two ranks of one stage: halves of the query heads, KV heads, MLP and vocabulary.
  void ExpectHalves() {
    const ModelSpec& shape = model_.shape;
    const std::int64_t queries = shape.query_heads / 2 * std::int64_t{shape.head_dim};
    const std::int64_t keys = shape.kv_heads / 2 * std::int64_t{shape.head_dim};
    const std::int64_t inner = shape.intermediate / 2;
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      const ModelWeights share = Share({.tensor = 2}, rank);
      ASSERT_EQ(share.layers.size(), whole_.layers.size());
      for (std::size_t i = 0; i < share.layers.size(); ++i) {
        const LayerWeights& from = whole_.layers[i];
        const LayerWeights& to = share.layers[i];
        Rows qkv;
        Append(RowsOf(from.qkv), rank * queries, queries, qkv);
        Append(RowsOf(from.qkv), 2 * queries + rank * keys, keys, qkv);
        Append(RowsOf(from.qkv), 2 * queries + 2 * keys + rank * keys, keys, qkv);
        EXPECT_EQ(RowsOf(to.qkv), qkv);
        EXPECT_EQ(RowsOf(to.output), Columns(RowsOf(from.output), rank * queries, queries));
        Rows up;
        Append(RowsOf(from.up), rank * inner, inner, up);
        if (shape.gated_mlp) Append(RowsOf(from.up), 2 * inner + rank * inner, inner, up);
        EXPECT_EQ(RowsOf(to.up), up);
        EXPECT_EQ(RowsOf(to.down), Columns(RowsOf(from.down), rank * inner, inner));
        EXPECT_EQ(to.attention_norm.gain, from.attention_norm.gain);
        // Summed over the ranks, so that only one may have it.
        EXPECT_EQ(to.down.bias, rank == 0 ? from.down.bias : Row{});
        EXPECT_EQ(to.output.bias, rank == 0 ? from.output.bias : Row{});
        EXPECT_EQ(to.up.bias,
                  from.up.bias.empty() ? Row{} : Part(from.up.bias, rank * inner, inner));
      }
    }
  }

  testing::ModelFolder folder_{"share"};
  kernels::ThreadPool pool_{1};
  ModelConfig model_;
  ModelWeights whole_;
};

TEST_F(ModelShareTest, HeadsAndMlpAreHalvedInLlama) {
  Use(testing::kLlamaConfig, "model.");
  ExpectHalves();
}

TEST_F(ModelShareTest, EveryExpertOfAMixtureIsHalved) {
  Use(testing::kMixtureConfig, "model.");
  const auto expect_half = [](const auto& from, const auto& to, std::int64_t rank,
                              std::int64_t width) {
    Rows up;
    Append(RowsOf(from.up), rank * width, width, up);
    Append(RowsOf(from.up), 2 * width + rank * width, width, up);
    EXPECT_EQ(RowsOf(to.up), up);
    EXPECT_EQ(RowsOf(to.down), Columns(RowsOf(from.down), rank * width, width));
  };
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const ModelWeights share = Share({.tensor = 2}, rank);
    const LayerWeights& from = whole_.layers[1];
    const LayerWeights& to = share.layers[1];
    EXPECT_EQ(RowsOf(to.router), RowsOf(from.router));
    EXPECT_EQ(RowsOf(to.shared_gate), RowsOf(from.shared_gate));
    expect_half(from, to, rank, 10);
    ASSERT_EQ(to.experts.size(), 5U);
    for (std::size_t i = 0; i < 5; ++i) expect_half(from.experts[i], to.experts[i], rank, 6);
  }
}

TEST_F(ModelShareTest, FusedTensorsAreCutWithinTheirParts) {
  Use(kPhi3Config, "model.");
  ExpectHalves();
}

TEST_F(ModelShareTest, TransposedTensorsAndTheirBiasesAreCutAlike) {
  Use(kWideGpt2Config, "transformer.");
  ExpectHalves();
  const Row qkv_bias = whole_.layers[1].qkv.bias;
  Row expected;
  for (const std::int64_t first : {8, 24, 40}) {  // the second half of each of q, k, v
    const Row part = Part(qkv_bias, first, 8);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(Share({.tensor = 2}, 1).layers[1].qkv.bias, expected);
}

TEST_F(ModelShareTest, AKvHeadGoesToSeveralRanksWhereThereAreFewer) {
  Use(testing::kLlamaConfig, "model.");  // 4 query heads of 4 on 2 KV heads
  const Rows qkv = RowsOf(whole_.layers[0].qkv);
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    Rows expected;
    Append(qkv, rank * 4, 4, expected);
    Append(qkv, 16 + rank / 2 * 4, 4, expected);
    Append(qkv, 24 + rank / 2 * 4, 4, expected);
    EXPECT_EQ(RowsOf(Share({.tensor = 4}, rank).layers[0].qkv), expected);
  }
}

TEST_F(ModelShareTest, TheVocabularyIsDividedWithoutAGap) {
  Use(testing::kLlamaConfig, "model.");
  for (const std::int32_t ranks : {2, 4}) {
    Rows embedding;
    Rows head;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const ModelWeights share = Share({.tensor = ranks}, rank);
      const Rows own = RowsOf(share.embedding);
      EXPECT_EQ(static_cast<std::int64_t>(own.size()),
                VocabularyOf(model_.shape, PlaceOf({.tensor = ranks}, rank)).count);
      Append(own, 0, static_cast<std::int64_t>(own.size()), embedding);
      Append(RowsOf(share.untied_head), 0, share.head().matrix.view().rows, head);
    }
    EXPECT_EQ(embedding, RowsOf(whole_.embedding));
    EXPECT_EQ(head, RowsOf(whole_.untied_head));
  }
}

TEST_F(ModelShareTest, StagesTakeTheirLayersAndEndsTheirs) {
  Use(kWideGpt2Config, "transformer.");  // tied
  const ModelWeights first = Share({.pipeline = 2}, 0);
  const ModelWeights last = Share({.pipeline = 2}, 1);
  // Three layers on two stages: the one too many goes to the stage before the last.
  ASSERT_EQ(first.layers.size(), 2U);
  ASSERT_EQ(last.layers.size(), 1U);
  EXPECT_EQ(RowsOf(first.layers[1].down), RowsOf(whole_.layers[1].down));
  EXPECT_EQ(RowsOf(last.layers[0].down), RowsOf(whole_.layers[2].down));
  EXPECT_FALSE(first.positions.empty());
  EXPECT_TRUE(last.positions.empty());
  EXPECT_TRUE(first.final_norm.empty());
  EXPECT_EQ(last.final_norm.gain, whole_.final_norm.gain);
  EXPECT_TRUE(last.embedding.empty());
  EXPECT_EQ(RowsOf(last.untied_head), RowsOf(whole_.embedding));
}

TEST_F(ModelShareTest, SharesHoldWhatCoreCountsForThem) {
  // Every share has rows in multiples of 32, to which packed matrices are padded.
  constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 128,
    "intermediate_size": 192, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": false})";
  constexpr const char* kGpt2 = R"({"model_type": "gpt2", "n_embd": 128, "n_layer": 3,
    "n_head": 4, "n_positions": 64, "vocab_size": 256, "layer_norm_epsilon": 1e-5})";
  for (const char* config : {kLlama, kGpt2}) {
    ModelConfig model = ParseModelConfig(config, "config.json");
    model.shape.weight_dtype = DType::kFp32;
    for (const Parallelism& grid : {Parallelism{2, 1}, Parallelism{1, 2}, Parallelism{2, 2}}) {
      for (std::int32_t rank = 0; rank < grid.devices(); rank += grid.tensor) {
        const GridPlace place = PlaceOf(grid, rank);
        const ModelWeights share = MakeDummyWeights(model, DType::kFp32, 1, pool_, place);
        std::int64_t bytes = share.matrix_bytes();
        const auto add = [&](std::size_t floats) {
          bytes += static_cast<std::int64_t>(floats * sizeof(float));
        };
        for (const LayerWeights& layer : share.layers) {
          for (const LinearWeights* linear : {&layer.qkv, &layer.output, &layer.up, &layer.down}) {
            add(linear->bias.size());
          }
          for (const NormWeights* norm : {&layer.attention_norm, &layer.mlp_norm}) {
            add(norm->gain.size() + norm->bias.size());
          }
        }
        add(share.final_norm.gain.size() + share.final_norm.bias.size());
        // The first rank of each stage, which has the biases of the reduced products.
        EXPECT_EQ(bytes, WeightBytesPerRank(model.shape, grid, place.stage));
      }
    }
  }
}

TEST_F(ModelShareTest, DummyWeightsDoNotDependOnTheGrid) {
  const ModelConfig model = ParseModelConfig(testing::kLlamaConfig, "config.json");
  const ModelWeights whole = MakeDummyWeights(model, DType::kFp32, 5, pool_);
  const ModelWeights half =
      MakeDummyWeights(model, DType::kFp32, 5, pool_, PlaceOf({.tensor = 2}, 1));
  EXPECT_EQ(RowsOf(half.layers[0].down), Columns(RowsOf(whole.layers[0].down), 12, 12));
  Rows expected;
  Append(RowsOf(whole.embedding), 14, 15, expected);  // of 29
  EXPECT_EQ(RowsOf(half.embedding), expected);
}

TEST_F(ModelShareTest, NotFiniteIsWhatTheRankItselfReads) {
  model_ = ParseModelConfig(testing::kLlamaConfig, "config.json");
  testing::TensorSet tensors = testing::RandomTensors(model_, "model.");
  // Row 1, column 20 of [16, 24]: the second rank's columns.
  tensors.values("model.layers.0.mlp.down_proj.weight")[44] =
      std::numeric_limits<float>::infinity();
  folder_.WriteWeights(tensors);
  const auto warnings = [&](std::int32_t rank) {
    return LoadWeights(folder_.path(), model_, DType::kFp32, pool_, PlaceOf({.tensor = 2}, rank))
        .warnings;
  };
  EXPECT_THAT(warnings(0), IsEmpty());
  EXPECT_THAT(warnings(1), ElementsAre(HasSubstr("down_proj.weight' is not finite: element 44")));
}

TEST(ValidateGridTest, RefusesWhatCannotBeSplitInOneLine) {
  ModelConfig model = ParseModelConfig(testing::kLlamaConfig, "config.json");
  model.shape.name = "tiny";
  const auto refusal = [&](const Parallelism& grid) -> std::string {
    try {
      ValidateGrid(model, grid);
    } catch (const InputError& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal({.tensor = 2, .pipeline = 2}), "accepted");
  EXPECT_THAT(refusal({.tensor = 3}), HasSubstr("query_heads 4 does not divide"));
  EXPECT_THAT(refusal({.pipeline = 3}), HasSubstr("pipeline parallelism 3 exceeds its 2 layers"));
  model.shape.intermediate = 25;
  EXPECT_THAT(refusal({.tensor = 2}), HasSubstr("intermediate 25 does not divide"));
  model.shape.intermediate = 24;
  model.shape.vocab = 3;
  EXPECT_THAT(refusal({.tensor = 4}), HasSubstr("3 tokens of vocabulary"));
}

}  // namespace
}  // namespace twin::exec
