// The parts of a model's weights, generic in how a device stores matrices and norms.
#pragma once

#include <utility>
#include <vector>

#include "exec/model/tensor_plan.h"

namespace twin::exec {

template <class Linear>
struct ExpertParts {
  Linear up;  // rows of the gate, then of the up projection
  Linear down;
};

// One head of latent attention (LatentHeadPlan).
template <class Linear>
struct LatentHeadParts {
  Linear key;
  Linear value;
};

template <class Linear, class Norm>
struct LayerParts {
  Norm attention_norm;
  Linear qkv;  // rows of queries, keys, values; for latent attention see LayerPlan
  Norm query_norm;
  Norm key_norm;
  Linear query_up;
  std::vector<LatentHeadParts<Linear>> latent_heads;
  std::vector<float> sinks;
  std::vector<float> convolution;  // these four as in LayerPlan
  std::vector<float> decay;
  std::vector<float> decay_bias;
  Norm value_norm;
  Linear output;
  Norm attention_post_norm;
  Norm mlp_norm;
  // Rows of the gate, if there is one, then of the up projection. In a mixture of experts: the
  // shared expert's, if there is one.
  Linear up;
  Linear down;
  Norm mlp_post_norm;
  Linear router;                      // in a mixture: a row for each expert
  std::vector<float> selection_bias;  // in a mixture: of the experts, or empty
  Linear shared_gate;                 // in a mixture with a shared expert: one row
  std::vector<ExpertParts<Linear>> experts;
};

// Linear and Norm have empty(), which is true for parts that the model lacks.
template <class Linear, class Norm>
struct ModelParts {
  Linear embedding;
  Linear positions;
  Linear project_in;
  std::vector<LayerParts<Linear, Norm>> layers;
  Norm final_norm;
  Linear project_out;
  Linear untied_head;  // also the tied one, on a last stage without the embedding

  [[nodiscard]] const Linear& head() const { return untied_head.empty() ? embedding : untied_head; }
};

enum class MatrixRole : std::uint8_t {
  kEmbedding,
  kPositions,
  kProjection,  // of a layer
  kRouter,      // of a layer: chooses and weighs the experts of a mixture
  kEnd,         // a projection before the first layer or after the last one, or the head
};

// Makes every part in the order of the model: linear(MatrixPlan, MatrixRole), norm(NormPlan),
// vector(VectorPlan).
template <class Linear, class Norm, class MakeLinear, class MakeNorm, class MakeVector>
ModelParts<Linear, Norm> MakeParts(const TensorPlan& plan, const MakeLinear& linear,
                                   const MakeNorm& norm, const MakeVector& vector) {
  ModelParts<Linear, Norm> parts;
  parts.embedding = linear(plan.embedding, MatrixRole::kEmbedding);
  parts.positions = linear(plan.positions, MatrixRole::kPositions);
  parts.project_in = linear(plan.project_in, MatrixRole::kEnd);
  for (const LayerPlan& from : plan.layers) {
    LayerParts<Linear, Norm>& layer = parts.layers.emplace_back();
    layer.attention_norm = norm(from.attention_norm);
    layer.qkv = linear(from.qkv, MatrixRole::kProjection);
    layer.query_norm = norm(from.query_norm);
    layer.key_norm = norm(from.key_norm);
    layer.query_up = linear(from.query_up, MatrixRole::kProjection);
    for (const LatentHeadPlan& head : from.latent_heads) {
      layer.latent_heads.push_back(
          {linear(head.key, MatrixRole::kProjection), linear(head.value, MatrixRole::kProjection)});
    }
    layer.sinks = vector(from.sinks);
    layer.convolution = vector(from.convolution);
    layer.decay = vector(from.decay);
    layer.decay_bias = vector(from.decay_bias);
    layer.value_norm = norm(from.value_norm);
    layer.output = linear(from.output, MatrixRole::kProjection);
    layer.attention_post_norm = norm(from.attention_post_norm);
    layer.mlp_norm = norm(from.mlp_norm);
    layer.up = linear(from.up, MatrixRole::kProjection);
    layer.down = linear(from.down, MatrixRole::kProjection);
    layer.mlp_post_norm = norm(from.mlp_post_norm);
    layer.router = linear(from.router, MatrixRole::kRouter);
    layer.selection_bias = vector(from.selection_bias);
    layer.shared_gate = linear(from.shared_gate, MatrixRole::kRouter);
    for (const ExpertPlan& expert : from.experts) {
      layer.experts.push_back({linear(expert.up, MatrixRole::kProjection),
                               linear(expert.down, MatrixRole::kProjection)});
    }
  }
  parts.final_norm = norm(plan.final_norm);
  parts.project_out = linear(plan.project_out, MatrixRole::kEnd);
  parts.untied_head = linear(plan.head, MatrixRole::kEnd);
  return parts;
}

}  // namespace twin::exec
