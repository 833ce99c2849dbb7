// Shapes of public models, as what they can be computed as.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "exec/cpu/cpu_model.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"

namespace twin::exec {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ErrorOf(const ModelSpec& shape) {
  try {
    (void)ConfigOfShape(shape);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ShapeConfigTest, RotaryModelsAreComputedAsLlamaIs) {
  const ModelSpec shape = ModelPreset("llama-3.2-1b");
  const ModelConfig config = ConfigOfShape(shape);
  EXPECT_EQ(config.shape, shape);
  EXPECT_EQ(config.naming, WeightNaming::kLlama);
  EXPECT_EQ(config.activation, Activation::kSilu);
  EXPECT_EQ(config.rotary_dimensions, 64);
  EXPECT_EQ(config.attention_scale, 0.125F);  // 1 / sqrt(64)
  EXPECT_THAT(config.layer_windows, Each(0));
  EXPECT_THAT(config.end_tokens, IsEmpty());
}

TEST(ShapeConfigTest, Gpt2AndOptKeepTheirPositions) {
  const ModelSpec gpt2 = ModelPreset("gpt2");
  EXPECT_EQ(ConfigOfShape(gpt2).naming, WeightNaming::kGpt2);
  EXPECT_EQ(ConfigOfShape(gpt2).position_offset, 0);
  ModelSpec opt = gpt2;
  opt.learned_positions = opt.max_position + 2;
  EXPECT_EQ(ConfigOfShape(opt).naming, WeightNaming::kOpt);
  EXPECT_EQ(ConfigOfShape(opt).position_offset, 2);
}

TEST(ShapeConfigTest, WindowsApplyToAsManyLayersAsTheShapeSays) {
  ModelSpec shape = ModelPreset("llama-3-8b");
  shape.layers = 3;
  shape.sliding_window = 7;
  shape.windowed_layers = 2;
  EXPECT_THAT(ConfigOfShape(shape).layer_windows, ElementsAre(7, 7, 0));
}

TEST(ShapeConfigTest, EveryPresetOfAFamilyCanBeComputed) {
  for (const std::string_view name : ModelPresetNames()) {
    ModelSpec shape = ModelPreset(name);
    if (shape.norm == NormKind::kLayerNorm && shape.learned_positions == 0) {
      EXPECT_THAT(ErrorOf(shape), HasSubstr("of no family that can be computed"));  // Falcon
      continue;
    }
    const bool ungated = shape.moe.shared_intermediate > 0 && !shape.moe.shared_gate;
    if (!shape.groups.empty() || shape.latent || shape.recurrent || shape.full_qk_norm ||
        shape.moe.selection_bias || ungated) {
      EXPECT_THAT(ErrorOf(shape), HasSubstr("is a shape of layers that differ")) << name;
      continue;
    }
    // Narrow enough to be computed here, with all that tells families apart.
    shape.layers = shape.windowed_layers = shape.sliding_window > 0 ? 2 : 0;
    shape.layers = 2;
    shape.head_dim = 4;
    shape.query_heads = 4;
    shape.kv_heads = shape.learned_positions > 0 ? 4 : 2;
    shape.hidden = 16;
    shape.intermediate = shape.moe.experts > 0 ? 0 : 24;
    shape.moe.expert_intermediate = shape.moe.experts > 0 ? 8 : 0;
    shape.vocab = 31;
    kernels::ThreadPool pool(1);
    const ModelConfig config = ConfigOfShape(shape);
    CpuModel model(config, MakeDummyWeights(config, DType::kFp32, 1, pool), 8, pool);
    EXPECT_EQ(model.config().shape.hidden, 16) << name;
  }
}

TEST(ShapeConfigTest, RefusesWhatNoFamilyIs) {
  const ModelSpec llama = ModelPreset("llama-3-8b");
  const ModelSpec gpt2 = ModelPreset("gpt2");
  ModelSpec shape = llama;
  shape.gated_mlp = false;
  EXPECT_THAT(ErrorOf(shape), HasSubstr("of no family"));
  shape = gpt2;
  shape.moe = {.experts = 4, .experts_per_token = 2, .expert_intermediate = 8};
  EXPECT_THAT(ErrorOf(shape), HasSubstr("of no family"));
  shape = llama;
  shape.head_dim = 127;
  EXPECT_THAT(ErrorOf(shape), HasSubstr("odd head_dim"));
  shape = gpt2;
  shape.learned_positions += 1;
  EXPECT_THAT(ErrorOf(shape), HasSubstr("learned_positions is 1025"));
  shape = gpt2;
  shape.kv_heads = 3;
  EXPECT_THAT(ErrorOf(shape), HasSubstr("mixes"));
  EXPECT_THAT(ErrorOf(shape), ::testing::StartsWith("gpt2"));
}

}  // namespace
}  // namespace twin::exec
