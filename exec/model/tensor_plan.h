// Which tensors of a weights file make up which matrices and norms of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/model/model_config.h"

namespace twin::exec {

// A stored matrix [rows, columns] that becomes rows of a larger one.
struct MatrixPart {
  std::string weight;
  std::string bias;  // [rows]; empty = none
  std::int64_t rows = 0;
};

// Parts of equal width, one below the other; no parts = the model has no such matrix.
struct MatrixPlan {
  std::vector<MatrixPart> parts;
  std::int64_t columns = 0;
  bool transposed = false;  // stored [columns, rows]

  [[nodiscard]] std::int64_t rows() const;
};

// Gain and bias; an empty name = the model has none.
struct NormPlan {
  std::string gain;
  std::string bias;
  std::int64_t width = 0;
};

struct LayerPlan {
  NormPlan attention_norm;
  MatrixPlan qkv;  // query, key, value rows
  NormPlan query_norm;
  NormPlan key_norm;
  MatrixPlan output;
  NormPlan attention_post_norm;
  NormPlan mlp_norm;
  MatrixPlan up;  // gate rows, if gated, then up rows
  MatrixPlan down;
  NormPlan mlp_post_norm;
};

struct TensorPlan {
  MatrixPlan embedding;
  MatrixPlan positions;
  MatrixPlan project_in;
  std::vector<LayerPlan> layers;
  NormPlan final_norm;
  MatrixPlan project_out;
  MatrixPlan head;  // no parts where the embedding is the head
};

// Where a family's names may begin: as published, first the usual one.
std::vector<std::string> PrefixesOf(WeightNaming naming);

// `prefix` stands before every name but the head's.
TensorPlan PlanTensors(const ModelConfig& model, const std::string& prefix);

// True for buffers that old files carry beside the weights and that mean nothing: GPT-2's masks.
bool IsKnownBuffer(WeightNaming naming, const std::string& name);

}  // namespace twin::exec
