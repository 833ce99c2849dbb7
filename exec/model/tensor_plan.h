// Which tensors of a weights file make up which matrices and norms of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/model/model_config.h"

namespace twin::exec {

// Indices first..first + count - 1.
struct IndexRange {
  std::int64_t first = 0;
  std::int64_t count = 0;

  bool operator==(const IndexRange&) const = default;
};

// A stored matrix [rows, columns], all or some rows of which become rows of a larger one.
struct MatrixPart {
  std::string weight;
  std::string bias;                      // [rows]; empty = none
  std::int64_t rows = 0;                 // stored
  std::optional<IndexRange> slice = {};  // rows taken, where not all

  [[nodiscard]] IndexRange taken() const { return slice.value_or(IndexRange{0, rows}); }
};

// Parts of equal width, one below the other; no parts = the model has no such matrix.
struct MatrixPlan {
  std::vector<MatrixPart> parts;
  std::int64_t columns = 0;              // stored
  bool transposed = false;               // stored [columns, rows]
  std::optional<IndexRange> slice = {};  // columns taken, where not all

  [[nodiscard]] IndexRange taken() const { return slice.value_or(IndexRange{0, columns}); }
  // Of all parts, as taken.
  [[nodiscard]] std::int64_t rows() const;
};

// Gain and bias; an empty name = the model has none.
struct NormPlan {
  std::string gain;
  std::string bias;
  std::int64_t width = 0;
};

// An MLP of a mixture, without biases.
struct ExpertPlan {
  MatrixPlan up;  // gate rows, then up rows
  MatrixPlan down;
};

struct LayerPlan {
  NormPlan attention_norm;
  MatrixPlan qkv;  // query, key, value rows
  NormPlan query_norm;
  NormPlan key_norm;
  MatrixPlan output;
  NormPlan attention_post_norm;
  NormPlan mlp_norm;
  MatrixPlan up;  // gate rows, if gated, then up rows; of a mixture, its shared expert's
  MatrixPlan down;
  NormPlan mlp_post_norm;
  MatrixPlan router;       // of a mixture: a row for each expert
  MatrixPlan shared_gate;  // of its shared expert: one row
  std::vector<ExpertPlan> experts;
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

// Calls matrix(MatrixPlan) and norm(NormPlan) for every one of the plan, those without tensors too.
template <class MatrixAction, class NormAction>
void ForEachOf(const TensorPlan& plan, const MatrixAction& matrix, const NormAction& norm) {
  for (const MatrixPlan* one :
       {&plan.embedding, &plan.positions, &plan.project_in, &plan.project_out, &plan.head}) {
    matrix(*one);
  }
  norm(plan.final_norm);
  for (const LayerPlan& layer : plan.layers) {
    for (const MatrixPlan* one :
         {&layer.qkv, &layer.output, &layer.up, &layer.down, &layer.router, &layer.shared_gate}) {
      matrix(*one);
    }
    for (const ExpertPlan& expert : layer.experts) {
      matrix(expert.up);
      matrix(expert.down);
    }
    for (const NormPlan* one :
         {&layer.attention_norm, &layer.query_norm, &layer.key_norm, &layer.attention_post_norm,
          &layer.mlp_norm, &layer.mlp_post_norm}) {
      norm(*one);
    }
  }
}

// Where a family's names may begin: as published, first the usual one.
std::vector<std::string> PrefixesOf(WeightNaming naming);

// `prefix` stands before every name but the head's.
TensorPlan PlanTensors(const ModelConfig& model, const std::string& prefix);

// The plan with one expert in each mixture, whose matrices are those of all experts one below the
// other: for devices that keep a mixture in one piece.
TensorPlan WithStackedExperts(TensorPlan plan);

// The names of all tensors of a plan, ascending.
std::vector<std::string> NamesOf(const TensorPlan& plan);

// True for buffers that old files carry beside the weights and that mean nothing: GPT-2's masks.
bool IsKnownBuffer(WeightNaming naming, const std::string& name);

}  // namespace twin::exec
