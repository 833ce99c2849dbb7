// Weights of 4 bits as GPTQ and AWQ checkpoints have them: what is read is what the layouts say,
// and what is damaged is refused in a line.
#include "exec/model/stored_int4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "core/hash.h"
#include "core/input_error.h"
#include "exec/cpu/cpu_model.h"
#include "exec/generation.h"
#include "exec/model/weights.h"
#include "kernels/float_formats.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ModelFolder;
using testing::TensorSet;
using Kind = Int4Layout::Kind;

constexpr std::int64_t kGroup = 32;
constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 29, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "quantization_config": {)";

std::string ConfigOf(const std::string& quantization) { return kConfig + quantization + "}}"; }

constexpr const char* kGptq = R"("quant_method": "gptq", "bits": 4, "group_size": 32)";
constexpr const char* kAwq = R"("quant_method": "awq", "bits": 4, "group_size": 32)";

// Numbers of a layer that depend on its name and their place alone.
class Numbers {
 public:
  Numbers(const std::string& name, bool shuffled) : key_(HashText(name)), shuffled_(shuffled) {}

  [[nodiscard]] std::uint32_t Q(std::int64_t output, std::int64_t input) const {
    return Bits(1, output, input) % 16;
  }
  [[nodiscard]] std::uint32_t Zero(std::int64_t output, std::int64_t group) const {
    return 1 + Bits(2, output, group) % 15;
  }
  // fp16 numbers around 0.01.
  [[nodiscard]] std::uint16_t Scale(std::int64_t output, std::int64_t group) const {
    return static_cast<std::uint16_t>(0x2000 + Bits(3, output, group) % 0x400);
  }
  // In order, or dealt out to the groups in turn.
  [[nodiscard]] std::int64_t GroupOf(std::int64_t input, std::int64_t inputs) const {
    return shuffled_ ? input % (inputs / kGroup) : input / kGroup;
  }
  [[nodiscard]] double Weight(std::int64_t output, std::int64_t input, std::int64_t inputs) const {
    const std::int64_t group = GroupOf(input, inputs);
    const double scale{kernels::Fp16ToFloat(Scale(output, group))};
    return (static_cast<double>(Q(output, input)) - static_cast<double>(Zero(output, group))) *
           scale;
  }

 private:
  [[nodiscard]] std::uint32_t Bits(std::uint64_t what, std::int64_t a, std::int64_t b) const {
    const std::uint64_t place =
        MixWords(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b));
    return static_cast<std::uint32_t>(MixWords(MixWords(key_, what), place) >> 32);
  }

  std::uint64_t key_;
  bool shuffled_;
};

// A checkpoint in which every projection of a layer is stored in 4 bits.
class Int4Folder {
 public:
  Int4Folder(Kind kind, const ModelConfig& model, bool shuffled = false, bool minus_one = true)
      : kind_(kind), shuffled_(shuffled), minus_one_(minus_one) {
    TensorSet tensors = testing::RandomTensors(model, "model.");
    const TensorPlan plan = PlanTensors(model, "model.");
    for (const LayerPlan& layer : plan.layers) {
      for (const MatrixPlan* matrix : {&layer.qkv, &layer.output, &layer.up, &layer.down}) {
        for (const MatrixPart& part : matrix->parts) {
          tensors.Remove(part.weight);
          Store(part.weight, part.rows, matrix->columns);
        }
      }
    }
    rest_ = std::move(tensors);
  }

  // Those of the layer whose input order they share depend on the same name.
  [[nodiscard]] Numbers NumbersOf(const std::string& weight) const { return {weight, shuffled_}; }

  [[nodiscard]] StoredTensor& Find(const std::string& name) {
    for (StoredTensor& tensor : stored_) {
      if (tensor.name == name) return tensor;
    }
    throw std::out_of_range(name);
  }
  [[nodiscard]] std::vector<std::int32_t>& values(const std::string& name) {
    return numbers_.at(name);
  }
  void Remove(const std::string& name) {
    std::erase_if(stored_, [&](const StoredTensor& tensor) { return tensor.name == name; });
  }
  void Write() const {
    std::vector<StoredTensor> all = rest_.Stored();
    all.insert(all.end(), stored_.begin(), stored_.end());
    WriteSafetensors(folder_.path() / "model.safetensors", all);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

 private:
  void Add(const std::string& name, std::vector<std::int64_t> shape,
           std::vector<std::int32_t> values) {
    std::vector<std::int32_t>& kept = numbers_[name] = std::move(values);
    stored_.push_back({name, StoredType::kI32, std::move(shape), std::as_bytes(std::span(kept))});
  }

  // Written from the formats' descriptions, apart from the reader.
  void Store(const std::string& weight, std::int64_t outputs, std::int64_t inputs) {
    const std::string base = weight.substr(0, weight.size() - 7);
    const Numbers numbers = NumbersOf(weight);
    const std::int64_t groups = inputs / kGroup;
    constexpr std::array<std::int64_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};
    const auto neighbour = [&](std::int64_t nibble) {
      return kind_ == Kind::kAwq ? kAwqOrder[static_cast<std::size_t>(nibble)] : nibble;
    };
    const auto pack = [&](const auto& number_of) {
      std::uint32_t word = 0;
      for (std::int64_t i = 0; i < 8; ++i) word |= number_of(neighbour(i)) << (4 * i);
      return static_cast<std::int32_t>(word);
    };
    std::vector<std::int32_t> weights;
    if (kind_ == Kind::kGptq) {
      for (std::int64_t k = 0; k < inputs; k += 8) {
        for (std::int64_t n = 0; n < outputs; ++n) {
          weights.push_back(pack([&](std::int64_t i) { return numbers.Q(n, k + i); }));
        }
      }
      Add(base + ".qweight", {inputs / 8, outputs}, std::move(weights));
    } else {
      for (std::int64_t k = 0; k < inputs; ++k) {
        for (std::int64_t n = 0; n < outputs; n += 8) {
          weights.push_back(pack([&](std::int64_t i) { return numbers.Q(n + i, k); }));
        }
      }
      Add(base + ".qweight", {inputs, outputs / 8}, std::move(weights));
    }
    const std::uint32_t less = kind_ == Kind::kGptq && minus_one_ ? 1 : 0;
    std::vector<std::int32_t> zeros;
    std::vector<std::uint16_t>& scales = scales_[base];
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t n = 0; n < outputs; n += 8) {
        zeros.push_back(pack([&](std::int64_t i) { return numbers.Zero(n + i, g) - less; }));
      }
      for (std::int64_t n = 0; n < outputs; ++n) scales.push_back(numbers.Scale(n, g));
    }
    Add(base + ".qzeros", {groups, outputs / 8}, std::move(zeros));
    stored_.push_back(
        {base + ".scales", StoredType::kF16, {groups, outputs}, std::as_bytes(std::span(scales))});
    if (kind_ != Kind::kGptq) return;
    std::vector<std::int32_t> group_of;
    for (std::int64_t k = 0; k < inputs; ++k) {
      group_of.push_back(static_cast<std::int32_t>(numbers.GroupOf(k, inputs)));
    }
    Add(base + ".g_idx", {inputs}, std::move(group_of));
  }

  Kind kind_;
  bool shuffled_;
  bool minus_one_;
  ModelFolder folder_{"int4"};
  TensorSet rest_;
  std::map<std::string, std::vector<std::int32_t>> numbers_;
  std::map<std::string, std::vector<std::uint16_t>> scales_;
  std::vector<StoredTensor> stored_;
};

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
  double gap = 0;
  double norm = 0;
  for (std::size_t i = 0; i < logits[0].size(); ++i) {
    gap += std::pow(double{logits[0][i]} - double{logits[1][i]}, 2);
    norm += std::pow(double{logits[1][i]}, 2);
  }
  EXPECT_LT(std::sqrt(gap / norm), 0.02);
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
