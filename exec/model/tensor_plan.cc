#include "exec/model/tensor_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/layer_groups.h"

namespace twin::exec {
namespace {

// Makes the plan of one model from its sizes and switches.
class Planner {
 public:
  Planner(const ModelConfig& model, const std::string& prefix)
      : model_(model), shape_(model.shape), layers_(LayerList(model.shape)), prefix_(prefix) {}

  [[nodiscard]] TensorPlan Plan() const {
    const bool gpt2 = model_.naming == WeightNaming::kGpt2;
    TensorPlan plan;
    const std::int64_t width = shape_.embedding_width > 0 ? shape_.embedding_width : shape_.hidden;
    const std::string embedding = prefix_ + (gpt2 ? "wte.weight" : "embed_tokens.weight");
    plan.embedding = {{{embedding, "", shape_.vocab}}, width};
    if (shape_.learned_positions > 0) {
      const std::string positions = prefix_ + (gpt2 ? "wpe.weight" : "embed_positions.weight");
      plan.positions = {{{positions, "", shape_.learned_positions}}, shape_.hidden};
    }
    if (shape_.embedding_width > 0) {
      plan.project_in = {{{prefix_ + "project_in.weight", "", shape_.hidden}}, width};
      plan.project_out = {{{prefix_ + "project_out.weight", "", width}}, shape_.hidden};
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) plan.layers.push_back(Layer(i));
    if (shape_.final_norm) plan.final_norm = Norm(prefix_ + FinalNormName());
    if (!shape_.tied_embeddings) plan.head = {{{"lm_head.weight", "", shape_.vocab}}, width};
    return plan;
  }

 private:
  [[nodiscard]] std::string FinalNormName() const {
    switch (model_.naming) {
      case WeightNaming::kGpt2:
        return "ln_f";
      case WeightNaming::kOpt:
        return "final_layer_norm";
      default:
        return "norm";
    }
  }

  [[nodiscard]] NormPlan Norm(const std::string& name) const {
    const bool has_bias = shape_.norm == NormKind::kLayerNorm;
    return {name + ".weight", has_bias ? name + ".bias" : "", shape_.hidden};
  }

  [[nodiscard]] static MatrixPart Part(const std::string& name, std::int64_t rows, bool bias) {
    return {name + ".weight", bias ? name + ".bias" : "", rows};
  }

  [[nodiscard]] static std::int64_t QueryWidth(const LayerSpec& spec) {
    return std::int64_t{spec.query_heads} * spec.head_dim;
  }
  [[nodiscard]] static std::int64_t KeyWidth(const LayerSpec& spec) {
    return std::int64_t{spec.kv_heads} * spec.head_dim;
  }

  [[nodiscard]] MatrixPlan SeparateQkv(const LayerSpec& spec, const std::string& attention) const {
    const bool bias = spec.qkv_bias;
    const std::int64_t gated = spec.output_gate == OutputGate::kFull ? 2 : 1;
    return {{Part(attention + "q_proj", gated * QueryWidth(spec), bias),
             Part(attention + "k_proj", KeyWidth(spec), bias),
             Part(attention + "v_proj", KeyWidth(spec), bias)},
            shape_.hidden};
  }

  [[nodiscard]] LayerPlan Layer(std::size_t index) const {
    const std::string number = std::to_string(index) + ".";
    switch (model_.naming) {
      case WeightNaming::kGpt2:
        return Gpt2Layer(prefix_ + "h." + number);
      case WeightNaming::kOpt:
        return OptLayer(prefix_ + "layers." + number);
      default:
        return LlamaLayer(layers_[index], prefix_ + "layers." + number);
    }
  }

  [[nodiscard]] LayerPlan LlamaLayer(const LayerSpec& spec, const std::string& layer) const {
    LayerPlan plan;
    if (spec.latent) {
      AddLatentAttention(spec, layer + "self_attn.", plan);
    } else if (spec.recurrent) {
      AddGatedDelta(*spec.recurrent, layer + "linear_attn.", plan);
    } else {
      AddAttention(spec, layer + "self_attn.", plan);
    }
    if (spec.moe.experts > 0) {
      AddMixture(spec.moe, layer, plan);
    } else {
      AddMlp(spec, layer + "mlp.", plan);
    }
    if (model_.norm_placement == NormPlacement::kBehindHalf) {
      plan.attention_post_norm = Norm(layer + "post_attention_layernorm");
      plan.mlp_post_norm = Norm(layer + "post_feedforward_layernorm");
      return plan;
    }
    plan.attention_norm = Norm(layer + "input_layernorm");
    if (model_.norm_placement == NormPlacement::kAround) {
      plan.attention_post_norm = Norm(layer + "post_attention_layernorm");
      plan.mlp_norm = Norm(layer + "pre_feedforward_layernorm");
      plan.mlp_post_norm = Norm(layer + "post_feedforward_layernorm");
    } else {
      plan.mlp_norm = Norm(layer + "post_attention_layernorm");
    }
    return plan;
  }

  void AddAttention(const LayerSpec& spec, const std::string& attention, LayerPlan& plan) const {
    if (model_.naming == WeightNaming::kPhi3) {
      plan.qkv = {
          {Part(attention + "qkv_proj", QueryWidth(spec) + 2 * KeyWidth(spec), spec.qkv_bias)},
          shape_.hidden};
    } else {
      plan.qkv = SeparateQkv(spec, attention);
    }
    plan.output = {{Part(attention + "o_proj", shape_.hidden, spec.output_bias)}, QueryWidth(spec)};
    if (spec.sinks) plan.sinks = {attention + "sinks", {spec.query_heads}};
    if (!spec.qk_norm && !spec.full_qk_norm) return;
    const bool full = spec.full_qk_norm;
    plan.query_norm = {attention + "q_norm.weight", "", full ? QueryWidth(spec) : spec.head_dim};
    plan.key_norm = {attention + "k_norm.weight", "", full ? KeyWidth(spec) : spec.head_dim};
  }

  // The stored rows belong to key heads one after the other: a head's query, key, values and gates,
  // and in the second tensor the rates and decays of its values.
  void AddGatedDelta(const RecurrentSpec& spec, const std::string& attention,
                     LayerPlan& plan) const {
    const std::int64_t heads = spec.key_heads;
    const std::int64_t share = spec.value_heads / heads;  // value heads of a key head
    const std::int64_t keys = spec.key_dim;
    const std::int64_t values = share * spec.value_dim;
    const auto add = [&](const char* name, std::int64_t head_rows, std::int64_t first,
                         std::int64_t rows) {
      for (std::int64_t head = 0; head < heads; ++head) {
        plan.qkv.parts.push_back(
            {attention + name, "", heads * head_rows, IndexRange{head * head_rows + first, rows}});
      }
    };
    plan.qkv.columns = shape_.hidden;
    const std::int64_t all = 2 * (keys + values);
    add("in_proj_qkvz.weight", all, 0, keys);
    add("in_proj_qkvz.weight", all, keys, keys);
    add("in_proj_qkvz.weight", all, 2 * keys, values);
    add("in_proj_qkvz.weight", all, 2 * keys + values, values);
    add("in_proj_ba.weight", 2 * share, 0, share);
    add("in_proj_ba.weight", 2 * share, share, share);
    const std::int64_t channels = heads * (2 * keys + values);
    plan.convolution = {attention + "conv1d.weight", {channels, 1, spec.convolution}};
    plan.decay = {attention + "A_log", {spec.value_heads}};
    plan.decay_bias = {attention + "dt_bias", {spec.value_heads}};
    plan.value_norm = {attention + "norm.weight", "", spec.value_dim, {}, true};
    plan.output = {{Part(attention + "out_proj", shape_.hidden, false)}, heads * values};
  }

  void AddLatentAttention(const LayerSpec& spec, const std::string& attention,
                          LayerPlan& plan) const {
    const LatentSpec& latent = *spec.latent;
    const std::int64_t heads = spec.query_heads;
    const bool compressed = latent.query_rank > 0;
    const MatrixPart kv = Part(attention + "kv_a_proj_with_mqa",
                               std::int64_t{latent.kv_rank} + latent.rope_dim, false);
    if (compressed) {
      plan.qkv = {{Part(attention + "q_a_proj", latent.query_rank, false), kv}, shape_.hidden};
      plan.query_norm = {attention + "q_a_layernorm.weight", "", latent.query_rank};
      plan.query_up = {{Part(attention + "q_b_proj", QueryWidth(spec), false)}, latent.query_rank};
    } else {
      plan.qkv = {{Part(attention + "q_proj", QueryWidth(spec), false), kv}, shape_.hidden};
    }
    plan.key_norm = {attention + "kv_a_layernorm.weight", "", latent.kv_rank};
    // Rows of kv_b_proj: for each head, its key without position, then its value.
    const std::string up = attention + "kv_b_proj.weight";
    const std::int64_t rows = std::int64_t{latent.nope_dim} + latent.value_dim;
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t first = head * rows;
      plan.latent_heads.push_back(
          {{{{up, "", latent.kv_rank}}, heads * rows, true, IndexRange{first, latent.nope_dim}},
           {{{up, "", heads * rows, IndexRange{first + latent.nope_dim, latent.value_dim}}},
            latent.kv_rank}});
    }
    plan.output = {{Part(attention + "o_proj", shape_.hidden, false)}, heads * latent.value_dim};
  }

  void AddMlp(const LayerSpec& spec, const std::string& mlp, LayerPlan& plan) const {
    const std::int64_t inner = spec.intermediate;
    if (model_.naming == WeightNaming::kPhi3) {
      plan.up = {{Part(mlp + "gate_up_proj", 2 * inner, spec.mlp_bias)}, shape_.hidden};
    } else {
      plan.up = GateUp(mlp + "gate_proj", mlp + "up_proj", inner, spec.mlp_bias);
    }
    plan.down = {{Part(mlp + "down_proj", shape_.hidden, spec.mlp_bias)}, inner};
  }

  [[nodiscard]] MatrixPlan GateUp(const std::string& gate, const std::string& up,
                                  std::int64_t width, bool bias) const {
    return {{Part(gate, width, bias), Part(up, width, bias)}, shape_.hidden};
  }

  // All experts lie in one tensor, transposed, with rows of gate and up in turn.
  void AddStackedMixture(const MoeSpec& moe, const std::string& mixture, LayerPlan& plan) const {
    const std::int64_t inner = moe.expert_intermediate;
    const auto part = [&](const char* name, std::int64_t rows, StoredRows stored) {
      const std::string tensor = mixture + "experts." + name;
      return MatrixPart{tensor, moe.expert_bias ? tensor + "_bias" : "", rows, {}, stored};
    };
    plan.router = {{Part(mixture + "router", moe.experts, moe.router_bias)}, shape_.hidden};
    for (std::int64_t i = 0; i < moe.experts; ++i) {
      plan.experts.push_back(
          {{{part("gate_up_proj", inner, {2, 0, moe.experts, i}),
             part("gate_up_proj", inner, {2, 1, moe.experts, i})},
            shape_.hidden,
            true},
           {{part("down_proj", shape_.hidden, {1, 0, moe.experts, i})}, inner, true}});
    }
  }

  void AddMixture(const MoeSpec& moe, const std::string& layer, LayerPlan& plan) const {
    if (model_.naming == WeightNaming::kGptOss) return AddStackedMixture(moe, layer + "mlp.", plan);
    const bool mixtral =
        model_.naming == WeightNaming::kMixtral || model_.naming == WeightNaming::kMiniMax;
    const std::string mixture = layer + (mixtral ? "block_sparse_moe." : "mlp.");
    const std::array<const char*, 3> names =
        mixtral ? std::array{"w1", "w3", "w2"} : std::array{"gate_proj", "up_proj", "down_proj"};
    const auto expert_of = [&](const std::string& name, std::int64_t width) {
      return ExpertPlan{GateUp(name + names[0], name + names[1], width, false),
                        {{Part(name + names[2], shape_.hidden, false)}, width}};
    };
    plan.router = {{Part(mixture + "gate", moe.experts, false)}, shape_.hidden};
    if (moe.selection_bias) {
      const bool beside = model_.naming == WeightNaming::kMiniMax;
      plan.selection_bias = {mixture + (beside ? "" : "gate.") + "e_score_correction_bias",
                             {moe.experts}};
    }
    for (std::int32_t i = 0; i < moe.experts; ++i) {
      const std::string name = fmt::format("{}experts.{}.", mixture, i);
      plan.experts.push_back(expert_of(name, moe.expert_intermediate));
    }
    if (moe.shared_intermediate == 0) return;
    const bool several = model_.naming == WeightNaming::kDeepSeek;
    ExpertPlan shared = expert_of(mixture + (several ? "shared_experts." : "shared_expert."),
                                  moe.shared_intermediate);
    plan.up = std::move(shared.up);
    plan.down = std::move(shared.down);
    if (!moe.shared_gate) return;
    plan.shared_gate = {{Part(mixture + "shared_expert_gate", 1, false)}, shape_.hidden};
  }

  // The matrices of GPT-2's Conv1D are stored [in, out].
  [[nodiscard]] LayerPlan Gpt2Layer(const std::string& layer) const {
    const std::int64_t hidden = shape_.hidden;
    const std::int64_t inner = shape_.intermediate;
    LayerPlan plan;
    plan.attention_norm = Norm(layer + "ln_1");
    plan.qkv = {{Part(layer + "attn.c_attn", 3 * hidden, true)}, hidden, true};
    plan.output = {{Part(layer + "attn.c_proj", hidden, true)}, hidden, true};
    plan.mlp_norm = Norm(layer + "ln_2");
    plan.up = {{Part(layer + "mlp.c_fc", inner, true)}, hidden, true};
    plan.down = {{Part(layer + "mlp.c_proj", hidden, true)}, inner, true};
    return plan;
  }

  [[nodiscard]] LayerPlan OptLayer(const std::string& layer) const {
    const std::string attention = layer + "self_attn.";
    LayerPlan plan;
    plan.attention_norm = Norm(layer + "self_attn_layer_norm");
    plan.qkv = SeparateQkv(shape_, attention);
    plan.output = {{Part(attention + "out_proj", shape_.hidden, shape_.output_bias)},
                   QueryWidth(shape_)};
    plan.mlp_norm = Norm(layer + "final_layer_norm");
    plan.up = {{Part(layer + "fc1", shape_.intermediate, shape_.mlp_bias)}, shape_.hidden};
    plan.down = {{Part(layer + "fc2", shape_.hidden, shape_.mlp_bias)}, shape_.intermediate};
    return plan;
  }

  const ModelConfig& model_;
  const ModelSpec& shape_;
  const std::vector<LayerSpec> layers_;
  const std::string& prefix_;
};

}  // namespace

std::int64_t MatrixPlan::rows() const {
  std::int64_t rows = 0;
  for (const MatrixPart& part : parts) rows += part.taken().count;
  return rows;
}

std::vector<std::string> PrefixesOf(WeightNaming naming) {
  switch (naming) {
    case WeightNaming::kGpt2:
      return {"transformer.", ""};
    case WeightNaming::kOpt:
      return {"model.decoder.", "decoder."};
    default:
      return {"model.", ""};
  }
}

TensorPlan PlanTensors(const ModelConfig& model, const std::string& prefix) {
  return Planner(model, prefix).Plan();
}

TensorPlan WithStackedExperts(TensorPlan plan) {
  const auto append = [](const MatrixPlan& from, MatrixPlan& to) {
    to.parts.insert(to.parts.end(), from.parts.begin(), from.parts.end());
  };
  for (LayerPlan& layer : plan.layers) {
    for (std::size_t i = 1; i < layer.experts.size(); ++i) {
      append(layer.experts[i].up, layer.experts[0].up);
      append(layer.experts[i].down, layer.experts[0].down);
    }
    if (layer.experts.size() > 1) layer.experts.resize(1);
  }
  return plan;
}

std::vector<std::string> NamesOf(const TensorPlan& plan) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty()) names.push_back(name);
  };
  const auto add_matrix = [&](const MatrixPlan& matrix) {
    for (const MatrixPart& part : matrix.parts) {
      add(part.weight);
      add(part.bias);
    }
  };
  const auto add_norm = [&](const NormPlan& norm) {
    add(norm.gain);
    add(norm.bias);
  };
  ForEachOf(plan, add_matrix, add_norm, [&](const VectorPlan& vector) { add(vector.name); });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool IsKnownBuffer(WeightNaming naming, const std::string& name) {
  return naming == WeightNaming::kGpt2 &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

}  // namespace twin::exec
