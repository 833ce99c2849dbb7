#include "exec/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "core/random.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

json Llama() { return json::parse(testing::kLlamaConfig); }

ModelConfig Parse(const json& config) { return ParseModelConfig(config.dump(), "config.json"); }

ModelConfig ParseWith(json config, const json& changes) {
  config.merge_patch(changes);
  return Parse(config);
}

std::string Refusal(const std::string& text) {
  try {
    ParseModelConfig(text, "config.json");
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_THAT(error.what(), StartsWith("config.json: "));
    return error.what();
  }
  return "accepted";
}

std::string RefusalWith(const json& changes) {
  json config = Llama();
  config.merge_patch(changes);
  return Refusal(config.dump());
}

TEST(ModelConfigTest, ReadsALlama) {
  const ModelConfig model = Parse(Llama());
  EXPECT_EQ(model.shape.layers, 2);
  EXPECT_EQ(model.shape.head_dim, 4);  // 16 / 4
  EXPECT_EQ(model.shape.kv_heads, 2);
  EXPECT_EQ(model.attention_scale, 0.5F);  // 1 / sqrt(4)
  EXPECT_EQ(model.rope.theta, 500);
  EXPECT_EQ(model.rotary_dimensions, 4);
  EXPECT_THAT(model.end_tokens, ElementsAre(3));
  EXPECT_THAT(model.layer_windows, ElementsAre(0, 0));
  EXPECT_EQ(model.shape.weight_dtype, DType::kFp32);
}

TEST(ModelConfigTest, TakesAbsentHeadsFromThePresentOnes) {
  const ModelConfig model = ParseWith(Llama(), {{"num_key_value_heads", nullptr}});
  EXPECT_EQ(model.shape.kv_heads, 4);
  EXPECT_EQ(ParseWith(Llama(), {{"head_dim", 6}}).shape.head_dim, 6);
}

TEST(ModelConfigTest, ReadsTheSpellingsOfTransformers4And5) {
  const json parameters = {{"rope_theta", 2000.0},    {"rope_type", "llama3"},
                           {"factor", 8.0},           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  json older = parameters;
  older.erase("rope_theta");
  const ModelConfig five = ParseWith(
      Llama(), {{"rope_theta", nullptr}, {"rope_parameters", parameters}, {"dtype", "bfloat16"}});
  const ModelConfig four = ParseWith(
      Llama(), {{"rope_theta", 2000}, {"rope_scaling", older}, {"torch_dtype", "bfloat16"}});
  EXPECT_EQ(five.rope, four.rope);
  EXPECT_EQ(five.rope.scaling, RopeConfig::Scaling::kLlama3);
  EXPECT_EQ(five.shape.weight_dtype, DType::kBf16);
  EXPECT_EQ(four.shape.weight_dtype, DType::kBf16);
  const ModelConfig linear =
      ParseWith(Llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}});
  EXPECT_EQ(linear.rope.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(linear.rope.factor, 4);
}

TEST(ModelConfigTest, AppliesWindowsAsTheFamiliesDo) {
  const json qwen = {{"model_type", "qwen2"}, {"num_hidden_layers", 4}, {"sliding_window", 8}};
  EXPECT_THAT(ParseWith(Llama(), qwen).layer_windows, ElementsAre(0, 0, 0, 0));
  json used = qwen;
  used["use_sliding_window"] = true;
  used["max_window_layers"] = 1;
  EXPECT_THAT(ParseWith(Llama(), used).layer_windows, ElementsAre(0, 8, 8, 8));
  const json mistral = {{"model_type", "mistral"}, {"sliding_window", 16}};
  EXPECT_THAT(ParseWith(Llama(), mistral).layer_windows, ElementsAre(16, 16));
  EXPECT_THAT(ParseWith(Llama(), {{"sliding_window", 16}}).layer_windows, ElementsAre(0, 0));
  json typed = mistral;
  typed["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_THAT(ParseWith(Llama(), typed).layer_windows, ElementsAre(0, 16));
}

TEST(ModelConfigTest, ReadsGemmaAndGraniteScales) {
  const ModelConfig gemma = ParseWith(Llama(), {{"model_type", "gemma2"},
                                                {"head_dim", 4},
                                                {"query_pre_attn_scalar", 25},
                                                {"attn_logit_softcapping", 3.0},
                                                {"tie_word_embeddings", nullptr}});
  EXPECT_FLOAT_EQ(gemma.attention_scale, 0.2F);  // 25^-1/2
  EXPECT_EQ(gemma.embedding_scale, 4);           // sqrt(16)
  EXPECT_EQ(gemma.attention_cap, 3);
  EXPECT_TRUE(gemma.shape.tied_embeddings);
  EXPECT_EQ(gemma.activation, Activation::kGeluTanh);
  const ModelConfig granite = ParseWith(Llama(), {{"model_type", "granite"},
                                                  {"embedding_multiplier", 3},
                                                  {"residual_multiplier", 0.5},
                                                  {"attention_multiplier", 0.25},
                                                  {"logits_scaling", 8}});
  EXPECT_EQ(granite.logit_scale, 0.125F);
  EXPECT_EQ(granite.residual_scale, 0.5F);
}

TEST(ModelConfigTest, RefusesWhatIsMissingOrOutOfRange) {
  for (const char* field : {"hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size",
                            "num_attention_heads"}) {
    EXPECT_THAT(RefusalWith({{field, nullptr}}), HasSubstr(std::string(field) + " is missing"));
    EXPECT_THAT(RefusalWith({{field, -19}}), HasSubstr(std::string(field) + " is -19, must be"));
    EXPECT_THAT(RefusalWith({{field, "8"}}), HasSubstr(std::string(field) + " is \"8\""));
  }
  EXPECT_THAT(RefusalWith({{"num_key_value_heads", 3}}),
              HasSubstr("num_attention_heads 4 is no multiple of num_key_value_heads 3"));
  EXPECT_THAT(RefusalWith({{"hidden_size", 18}}), HasSubstr("hidden_size 18 is no multiple of"));
  EXPECT_THAT(RefusalWith({{"head_dim", 5}}), HasSubstr("head_dim 5"));
  EXPECT_THAT(RefusalWith({{"num_hidden_layers", 2'000'000'000}}), HasSubstr("at most 4096"));
  EXPECT_THAT(RefusalWith({{"vocab_size", 1e30}}), HasSubstr("vocab_size is 1e+30"));
  EXPECT_THAT(RefusalWith({{"vocab_size", 18446744073709551615U}}), HasSubstr("vocab_size"));
  EXPECT_THAT(RefusalWith({{"eos_token_id", "x"}}), HasSubstr("eos_token_id"));
  EXPECT_THAT(RefusalWith({{"hidden_act", "swoosh"}}), HasSubstr("hidden_act is 'swoosh'"));
  EXPECT_THAT(RefusalWith({{"torch_dtype", "int4"}}), HasSubstr("torch_dtype is 'int4'"));
  EXPECT_THAT(RefusalWith({{"quantization_config", json::object()}}), HasSubstr("quantised"));
}

TEST(ModelConfigTest, RefusesUnknownFamiliesNamingTheKnownOnes) {
  EXPECT_THAT(RefusalWith({{"model_type", "spirograph"}}),
              AllOf(HasSubstr("unknown model_type 'spirograph'"), HasSubstr("llama, mistral")));
  EXPECT_THAT(RefusalWith({{"model_type", nullptr}}), HasSubstr("model_type is missing"));
}

TEST(ModelConfigTest, EachFamilyOfMixturesNormalisesTheWeightsOfExpertsInItsWay) {
  const json qwen = json::parse(testing::kMixtureConfig);
  EXPECT_TRUE(Parse(json::parse(testing::kMixtralConfig)).normalises_expert_weights);
  EXPECT_FALSE(ParseWith(json::parse(testing::kMixtralConfig),
                         {{"model_type", "llama"}, {"num_local_experts", nullptr}})
                   .normalises_expert_weights);
  // Qwen3's mixtures have no shared expert.
  json qwen3 = qwen;
  qwen3["model_type"] = "qwen3_moe";
  qwen3.erase("shared_expert_intermediate_size");
  for (const json& mixture : {qwen, qwen3}) {
    EXPECT_FALSE(Parse(mixture).normalises_expert_weights);
    EXPECT_TRUE(ParseWith(mixture, {{"norm_topk_prob", true}}).normalises_expert_weights);
  }
  EXPECT_EQ(Parse(qwen).shape.moe.shared_intermediate, 20);
}

TEST(ModelConfigTest, RefusesInOneLineWhatCanBeSimulatedButNotComputed) {
  json nested = {{"model_type", "llava"}, {"text_config", Llama()}};
  EXPECT_THAT(Refusal(nested.dump()), HasSubstr("text_config: multi-modal models"));
  json gpt2 = json::parse(testing::kGpt2Config);
  gpt2["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_THAT(Refusal(gpt2.dump()), HasSubstr("scale_attn_by_inverse_layer_idx"));
  EXPECT_THAT(RefusalWith({{"quantization_config", {{"quant_method", "fp8"}}}}),
              HasSubstr("of method fp8 are not computed"));
}

TEST(ModelConfigTest, RefusesLayersOtherThanPlainAttention) {
  EXPECT_THAT(Refusal(R"({"model_type": "smollm3", "hidden_size": 64, "intermediate_size": 96,
                          "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
                          "max_position_embeddings": 64})"),
              HasSubstr("model_type smollm3: executors compute models of equal layers"));
}

json DeepSeek(const char* type) {
  return {{"model_type", type},         {"hidden_size", 64},
          {"intermediate_size", 96},    {"num_hidden_layers", 2},
          {"num_attention_heads", 4},   {"vocab_size", 100},
          {"kv_lora_rank", 24},         {"qk_nope_head_dim", 12},
          {"qk_rope_head_dim", 4},      {"v_head_dim", 10},
          {"n_routed_experts", 16},     {"num_experts_per_tok", 3},
          {"moe_intermediate_size", 8}, {"max_position_embeddings", 64}};
}

TEST(ModelConfigTest, ReadsHowDeepSeekV3IsComputed) {
  const json yarn = {{"rope_type", "yarn"},
                     {"factor", 40},
                     {"mscale", 1},
                     {"mscale_all_dim", 1},
                     {"original_max_position_embeddings", 32}};
  const ModelConfig model = ParseWith(
      DeepSeek("deepseek_v3"),
      {{"n_group", 4}, {"topk_group", 2}, {"routed_scaling_factor", 2.5}, {"rope_scaling", yarn}});
  EXPECT_EQ(model.routing, (RoutingConfig{true, 4, 2, 2, 2.5F}));
  EXPECT_TRUE(model.normalises_expert_weights);
  EXPECT_TRUE(model.rotates_neighbours);
  EXPECT_EQ(model.rotary_dimensions, 4);
  EXPECT_EQ(model.rope.magnitude, 1);
  // 1 / sqrt(12 + 4), times the square of 0.1 ln 40 + 1.
  EXPECT_NEAR(model.attention_scale, 0.25 * std::pow(0.1 * std::log(40) + 1, 2), 1e-6);
  EXPECT_EQ(ParseWith(DeepSeek("kimi_k2"), {{"topk_method", "noaux_tc"}}).routing.groups, 1);
}

TEST(ModelConfigTest, RefusesRoutingThatDeepSeekDoesNotHave) {
  const auto refusal = [](const char* type, const json& changes) {
    json config = DeepSeek(type);
    config.merge_patch(changes);
    return Refusal(config.dump());
  };
  EXPECT_THAT(refusal("deepseek_v2", {{"norm_topk_prob", true}}),
              HasSubstr("norm_topk_prob is of a value that is not computed, must be false"));
  EXPECT_THAT(refusal("deepseek_v3", {{"scoring_func", "softmax"}}),
              HasSubstr("scoring_func is of a value that is not computed, must be sigmoid"));
  EXPECT_THAT(refusal("deepseek_v3", {{"n_group", 3}}),
              HasSubstr("n_group 3 must divide the 16 experts into groups of at least 2"));
  EXPECT_THAT(refusal("deepseek_v3", {{"n_group", 8}, {"topk_group", 1}}),
              HasSubstr("topk_group is 1, must be at most n_group 8 and leave 3 experts"));
  EXPECT_THAT(refusal("deepseek_v3", {{"quantization_config", {{"quant_method", "fp8"}}}}),
              HasSubstr("quantised weights of model_type deepseek_v3 are not computed"));
}

TEST(ModelConfigTest, RefusesUnknownRopeTypes) {
  EXPECT_THAT(RefusalWith({{"rope_scaling", {{"rope_type", "spiral"}, {"factor", 2}}}}),
              HasSubstr("rope_scaling: rope type 'spiral' is unknown, must be default"));
  EXPECT_THAT(RefusalWith({{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2}}}}),
              HasSubstr("rope type 'dynamic' is not supported, must be default"));
  EXPECT_THAT(RefusalWith({{"rope_scaling", {{"factor", 2}}}}), HasSubstr("rope_type is missing"));
  EXPECT_THAT(RefusalWith({{"rope_scaling", {{"type", "linear"}}}}),
              HasSubstr("factor is missing"));
}

TEST(ModelConfigTest, RefusesTextThatIsNoObject) {
  EXPECT_THAT(Refusal(""), HasSubstr("is not JSON (byte 1 of 0)"));
  EXPECT_THAT(Refusal("{\"a\": }"), HasSubstr("is not JSON (byte 7 of 7)"));
  EXPECT_THAT(Refusal("[]"), HasSubstr("must be a JSON object"));
}

TEST(ModelConfigTest, TakesTheEndOfSequenceFromTheGenerationConfigWhereThereIsOne) {
  const testing::ModelFolder folder("config");
  folder.WriteText("config.json", testing::kLlamaConfig);
  EXPECT_THAT(ReadModelConfig(folder.path()).end_tokens, ElementsAre(3));
  EXPECT_EQ(ReadModelConfig(folder.path() / "").shape.name, folder.path().filename());
  folder.WriteText("generation_config.json", R"({"eos_token_id": [5, 6]})");
  EXPECT_THAT(ReadModelConfig(folder.path()).end_tokens, ElementsAre(5, 6));
  folder.WriteText("generation_config.json", "{");
  EXPECT_THROW(ReadModelConfig(folder.path()), InputError);
}

TEST(ModelConfigTest, MessagesKeepToOneLine) {
  EXPECT_THAT(RefusalWith({{"rope_scaling", {{"rope_type", "a\nb"}}}}),
              HasSubstr("rope type 'a\\x0ab'"));
  EXPECT_THAT(RefusalWith({{"model_type", "a\nb"}}), HasSubstr("model_type 'a\\x0ab'"));
}

TEST(ModelConfigTest, SurvivesThousandsOfDamagedConfigs) {
  Random random(5, "configs");
  const std::string sound = Llama().dump();
  std::int32_t refused = 0;
  for (std::int32_t i = 0; i < 4000; ++i) {
    std::string text = sound;
    const std::int64_t changes = random.UniformInt(1, 3);
    for (std::int64_t change = 0; change < changes; ++change) {
      const auto at = static_cast<std::size_t>(
          random.UniformInt(0, static_cast<std::int64_t>(text.size()) - 1));
      if (random.UnitReal() < 0.3) {
        text.erase(at, 3);
      } else {
        text[at] = static_cast<char>(random.UniformInt(1, 255));
      }
    }
    const std::string message = Refusal(text);
    refused += message == "accepted" ? 0 : 1;
    ASSERT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace twin::exec
