#include "exec/model/tensor_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace twin::exec {
namespace {

// Makes the plan of one model from its sizes and switches.
class Planner {
 public:
  Planner(const ModelConfig& model, const std::string& prefix)
      : model_(model), shape_(model.shape), prefix_(prefix) {}

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
    for (std::int32_t i = 0; i < shape_.layers; ++i) plan.layers.push_back(Layer(i));
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

  [[nodiscard]] std::int64_t query_width() const {
    return std::int64_t{shape_.query_heads} * shape_.head_dim;
  }
  [[nodiscard]] std::int64_t key_width() const {
    return std::int64_t{shape_.kv_heads} * shape_.head_dim;
  }

  [[nodiscard]] MatrixPlan SeparateQkv(const std::string& attention) const {
    const bool bias = shape_.qkv_bias;
    return {{Part(attention + "q_proj", query_width(), bias),
             Part(attention + "k_proj", key_width(), bias),
             Part(attention + "v_proj", key_width(), bias)},
            shape_.hidden};
  }

  [[nodiscard]] LayerPlan Layer(std::int32_t index) const {
    const std::string number = std::to_string(index) + ".";
    switch (model_.naming) {
      case WeightNaming::kGpt2:
        return Gpt2Layer(prefix_ + "h." + number);
      case WeightNaming::kOpt:
        return OptLayer(prefix_ + "layers." + number);
      default:
        return LlamaLayer(prefix_ + "layers." + number);
    }
  }

  [[nodiscard]] LayerPlan LlamaLayer(const std::string& layer) const {
    const std::string attention = layer + "self_attn.";
    const std::string mlp = layer + "mlp.";
    const std::int64_t inner = shape_.intermediate;
    LayerPlan plan;
    if (model_.naming == WeightNaming::kPhi3) {
      plan.qkv = {{Part(attention + "qkv_proj", query_width() + 2 * key_width(), shape_.qkv_bias)},
                  shape_.hidden};
      plan.up = {{Part(mlp + "gate_up_proj", 2 * inner, shape_.mlp_bias)}, shape_.hidden};
    } else {
      plan.qkv = SeparateQkv(attention);
    }
    plan.output = {{Part(attention + "o_proj", shape_.hidden, shape_.output_bias)}, query_width()};
    if (shape_.moe.experts > 0) {
      AddMixture(layer, plan);
    } else {
      if (plan.up.parts.empty()) {
        plan.up = GateUp(mlp + "gate_proj", mlp + "up_proj", inner, shape_.mlp_bias);
      }
      plan.down = {{Part(mlp + "down_proj", shape_.hidden, shape_.mlp_bias)}, inner};
    }
    if (shape_.qk_norm) {
      plan.query_norm = {attention + "q_norm.weight", "", shape_.head_dim};
      plan.key_norm = {attention + "k_norm.weight", "", shape_.head_dim};
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

  [[nodiscard]] MatrixPlan GateUp(const std::string& gate, const std::string& up,
                                  std::int64_t width, bool bias) const {
    return {{Part(gate, width, bias), Part(up, width, bias)}, shape_.hidden};
  }

  void AddMixture(const std::string& layer, LayerPlan& plan) const {
    const MoeSpec& moe = shape_.moe;
    const bool mixtral = model_.naming == WeightNaming::kMixtral;
    const std::string mixture = layer + (mixtral ? "block_sparse_moe." : "mlp.");
    const std::array<const char*, 3> names =
        mixtral ? std::array{"w1", "w3", "w2"} : std::array{"gate_proj", "up_proj", "down_proj"};
    const auto expert_of = [&](const std::string& name, std::int64_t width) {
      return ExpertPlan{GateUp(name + names[0], name + names[1], width, false),
                        {{Part(name + names[2], shape_.hidden, false)}, width}};
    };
    plan.router = {{Part(mixture + "gate", moe.experts, false)}, shape_.hidden};
    for (std::int32_t i = 0; i < moe.experts; ++i) {
      const std::string name = fmt::format("{}experts.{}.", mixture, i);
      plan.experts.push_back(expert_of(name, moe.expert_intermediate));
    }
    if (moe.shared_intermediate == 0) return;
    ExpertPlan shared = expert_of(mixture + "shared_expert.", moe.shared_intermediate);
    plan.up = std::move(shared.up);
    plan.down = std::move(shared.down);
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
    plan.qkv = SeparateQkv(attention);
    plan.output = {{Part(attention + "out_proj", shape_.hidden, shape_.output_bias)},
                   query_width()};
    plan.mlp_norm = Norm(layer + "final_layer_norm");
    plan.up = {{Part(layer + "fc1", shape_.intermediate, shape_.mlp_bias)}, shape_.hidden};
    plan.down = {{Part(layer + "fc2", shape_.hidden, shape_.mlp_bias)}, shape_.intermediate};
    return plan;
  }

  const ModelConfig& model_;
  const ModelSpec& shape_;
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
  ForEachOf(plan, add_matrix, add_norm);
  std::sort(names.begin(), names.end());
  return names;
}

bool IsKnownBuffer(WeightNaming naming, const std::string& name) {
  return naming == WeightNaming::kGpt2 &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

}  // namespace twin::exec
