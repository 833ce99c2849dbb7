// Weights of 4 bits as GPTQ and AWQ checkpoints have them: what is read is what the layouts say,
// and what is damaged is refused in a line.
#include "exec/model/stored_int4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/input_error.h"
#include "exec/cpu/cpu_model.h"
#include "exec/generation.h"
#include "exec/model/weights.h"
#include "kernels/float_formats.h"
#include "tests/support/relative_distance.h"
#include "tests/unit/exec/int4_folder.h"

namespace twin::exec {
namespace {

using ::testing::AllOf;
using testing::ConfigOf;
using ::testing::HasSubstr;
using testing::Int4Folder;
using ::testing::IsEmpty;
using testing::kAwq;
using testing::kGptq;
using testing::Numbers;
using twin::testing::RelativeDistance;
using Kind = Int4Layout::Kind;

std::vector<float> RowOf(const LinearWeights& linear, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(linear.matrix.view().columns));
  linear.matrix.view().CopyRow(row, values.data());
  return values;
}

struct Case {
  const char* name;
  Kind kind;
  const char* quantization;
  bool shuffled = false;
  bool minus_one = true;
};

class StoredInt4Test : public ::testing::TestWithParam<Case> {
 protected:
  kernels::ThreadPool pool_{2};
};

constexpr const char* kGptqV2 =
    R"("quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2")";
constexpr Case kCases[] = {{"Gptq", Kind::kGptq, kGptq},
                           {"GptqInActivationOrder", Kind::kGptq, kGptq, true},
                           {"GptqVersionTwo", Kind::kGptq, kGptqV2, false, false},
                           {"Awq", Kind::kAwq, kAwq}};

// Packed in 4 bits, and widened: both exactly the weights that the numbers say.
TEST_P(StoredInt4Test, HasExactlyTheWeightsOfTheNumbers) {
  const ModelConfig model = ParseModelConfig(ConfigOf(GetParam().quantization), "config.json");
  const Int4Folder folder(GetParam().kind, model, GetParam().shuffled, GetParam().minus_one);
  folder.Write();
  for (const DType format : {DType::kInt4, DType::kFp32}) {
    const LoadedWeights loaded = LoadWeights(folder.path(), model, format, pool_);
    EXPECT_THAT(loaded.warnings, IsEmpty());
    const LayerWeights& layer = loaded.weights.layers[1];
    EXPECT_EQ(layer.down.matrix.view().format, format);
    EXPECT_EQ(loaded.weights.untied_head.matrix.view().format,
              format == DType::kInt4 ? DType::kBf16 : DType::kFp32);
    // Rows of v behind 64 of q and 32 of k, of up behind 96 of the gate, of down.
    const auto expect = [&](const LinearWeights& linear, std::int64_t first, std::int64_t rows,
                            const std::string& name) {
      const Numbers numbers = folder.NumbersOf("model.layers.1." + name + ".weight");
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::vector<float> got = RowOf(linear, first + row);
        for (std::size_t k = 0; k < got.size(); ++k) {
          ASSERT_EQ(double{got[k]}, numbers.Weight(row, static_cast<std::int64_t>(k),
                                                   static_cast<std::int64_t>(got.size())))
              << name << " " << row << " " << k;
        }
      }
    };
    expect(layer.qkv, 96, 32, "self_attn.v_proj");
    expect(layer.up, 96, 96, "mlp.up_proj");
    expect(layer.down, 0, 64, "mlp.down_proj");
  }
}

// Embedding and head differ by the rounding to bf16 alone.
TEST_P(StoredInt4Test, GeneratesWhatItsWeightsInFp32Do) {
  const ModelConfig config = ParseModelConfig(ConfigOf(GetParam().quantization), "config.json");
  const Int4Folder folder(GetParam().kind, config, GetParam().shuffled, GetParam().minus_one);
  folder.Write();
  std::vector<std::vector<float>> logits;
  for (const DType format : {DType::kInt4, DType::kFp32}) {
    CpuModel model(config, LoadWeights(folder.path(), config, format, pool_).weights, 64, pool_);
    std::vector<Generation> generations = {{.prompt = {1, 2, 3, 4, 5}, .tokens_max = 1}};
    Generate(model, generations, {.keep = KeptLogits::kLast});
    logits.push_back(generations[0].last_logits);
  }
  EXPECT_LT(RelativeDistance(logits[0], logits[1]), 0.02);
}

INSTANTIATE_TEST_SUITE_P(Layouts, StoredInt4Test, ::testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

class DamagedInt4Test : public ::testing::Test {
 protected:
  std::string Refusal(const GridPlace& place = {}) {
    folder_.Write();
    try {
      LoadWeights(folder_.path(), model_, DType::kInt4, pool_, place);
    } catch (const InputError& error) {
      EXPECT_EQ(error.exit_code(), 1);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "accepted";
  }

  static constexpr const char* kLayer = "model.layers.0.mlp.down_proj";
  kernels::ThreadPool pool_{1};
  ModelConfig model_ = ParseModelConfig(ConfigOf(kGptq), "config.json");
  Int4Folder folder_{Kind::kGptq, model_};
};

TEST_F(DamagedInt4Test, AMissingTensorIsNamed) {
  folder_.Remove(std::string(kLayer) + ".qzeros");
  EXPECT_THAT(Refusal(), HasSubstr("'model.layers.0.mlp.down_proj.qzeros' is missing"));
}

// Such a checkpoint used to run as if its config said nothing.
TEST_F(DamagedInt4Test, PlainTensorsUnderAConfigOf4BitsAreRefused) {
  const testing::ModelFolder plain("plain_int4");
  plain.WriteWeights(testing::RandomTensors(model_, "model."));
  EXPECT_THAT([&] { (void)LoadWeights(plain.path(), model_, DType::kInt4, pool_); },
              ::testing::ThrowsMessage<InputError>(AllOf(HasSubstr("holds no weights of 4 bits"),
                                                         HasSubstr("quantization_config"))));
}

TEST_F(DamagedInt4Test, AWrongShapeIsToldWithTheRightOne) {
  folder_.Find(std::string(kLayer) + ".scales").shape = {64, 3};
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("has shape [64, 3]"), HasSubstr("is [3, 64]")));
}

TEST_F(DamagedInt4Test, AWrongTypeIsToldWithTheRightOne) {
  folder_.Find(std::string(kLayer) + ".qweight").type = StoredType::kF32;
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("has dtype F32"), HasSubstr("must be I32")));
}

TEST_F(DamagedInt4Test, AGroupThatIsNotThereIsRefused) {
  folder_.values(std::string(kLayer) + ".g_idx")[5] = 3;
  EXPECT_THAT(Refusal(), HasSubstr("holds 3 at 5, must be 0 to 2"));
  folder_.values(std::string(kLayer) + ".g_idx")[5] = 1;
  EXPECT_THAT(Refusal(), HasSubstr("gives group 0 31 inputs, must be 32"));
}

TEST_F(DamagedInt4Test, PartsOfOneProductInOtherOrdersAreRefused) {
  std::vector<std::int32_t>& groups = folder_.values("model.layers.0.self_attn.k_proj.g_idx");
  std::swap(groups.front(), groups.back());
  EXPECT_THAT(Refusal(), HasSubstr("both must have the same g_idx"));
}

// 96 inputs of three groups: two ranks' shares begin at 0 and 48.
TEST_F(DamagedInt4Test, AShareThatCutsAGroupIsRefused) {
  EXPECT_THAT(Refusal(PlaceOf({.tensor = 2}, 1)), HasSubstr("cuts a group of 32"));
}

TEST(Int4SymmetryTest, ZeroPointsOfSymmetricWeightsAreEightHoweverTheyAreStored) {
  kernels::ThreadPool pool(1);
  const std::string quantization = std::string(kGptq) + R"(, "sym": true)";
  const ModelConfig model = ParseModelConfig(ConfigOf(quantization), "config.json");
  std::vector<std::vector<float>> rows;
  for (const std::uint32_t stored : {0x77777777U, 0x88888888U}) {
    Int4Folder folder(Kind::kGptq, model);
    auto& zeros = folder.values("model.layers.0.mlp.down_proj.qzeros");
    std::fill(zeros.begin(), zeros.end(), static_cast<std::int32_t>(stored));
    folder.Write();
    rows.push_back(
        RowOf(LoadWeights(folder.path(), model, DType::kInt4, pool).weights.layers[0].down, 7));
    const Numbers numbers = folder.NumbersOf("model.layers.0.mlp.down_proj.weight");
    const float scale = kernels::Fp16ToFloat(numbers.Scale(7, 0));
    EXPECT_EQ(rows.back()[0], (static_cast<float>(numbers.Q(7, 0)) - 8) * scale);
  }
  EXPECT_EQ(rows[0], rows[1]);
}

}  // namespace
}  // namespace twin::exec
