// Says which tensors of a weights file make up which matrices and norms of a model.
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

// How the rows of a part lie in its tensor: row i is row offset + i * every of a matrix that has
// `every` times as many rows. With a stack, the tensor has that many such matrices one after the
// other, and `index` says which of them is meant.
struct StoredRows {
  std::int64_t every = 1;
  std::int64_t offset = 0;
  std::int64_t stack = 0;  // 0: the tensor is one matrix
  std::int64_t index = 0;

  bool operator==(const StoredRows&) const = default;
};

// A stored matrix [rows, columns]. All of its rows, or a slice, become rows of a larger matrix.
struct MatrixPart {
  std::string weight;
  std::string bias;                      // [rows], its rows taken as the weight's; empty = none
  std::int64_t rows = 0;                 // of the part
  std::optional<IndexRange> slice = {};  // rows taken, unless all
  StoredRows stored = {};

  [[nodiscard]] IndexRange taken() const { return slice.value_or(IndexRange{0, rows}); }
};

// A matrix of parts of equal width, one below the other; without parts if the model has no such
// matrix.
struct MatrixPlan {
  std::vector<MatrixPart> parts;
  std::int64_t columns = 0;              // stored
  bool transposed = false;               // stored [columns, rows]
  std::optional<IndexRange> slice = {};  // columns taken, unless all

  [[nodiscard]] IndexRange taken() const { return slice.value_or(IndexRange{0, columns}); }
  // The number of rows taken of all parts.
  [[nodiscard]] std::int64_t rows() const;
};

// The gain and bias of a norm; a name is empty if the model has none.
struct NormPlan {
  std::string gain;
  std::string bias;
  std::int64_t width = 0;
  std::optional<IndexRange> slice = {};  // of the gain, unless all
  bool plain = false;                    // the model's offset is not added to this gain
};

// Stored numbers that stay fp32; the name is empty if the model has none.
struct VectorPlan {
  std::string name;
  std::vector<std::int64_t> shape;     // stored
  std::vector<IndexRange> taken = {};  // of the elements in C order; empty = all
};

// The projections of one head from the compressed vector of latent attention, as its attention
// multiplies them.
struct LatentHeadPlan {
  MatrixPlan key;    // [kv_rank, nope_dim]: from a query's part without position to the vector
  MatrixPlan value;  // [value_dim, kv_rank]
};

// One expert's MLP in a mixture.
struct ExpertPlan {
  MatrixPlan up;  // gate rows, then up rows
  MatrixPlan down;
};

struct LayerPlan {
  NormPlan attention_norm;
  // Query, key, value rows. In latent attention: rows of compressed queries, or of queries, then
  // rows of the compressed vector and of the key that is rotated.
  MatrixPlan qkv;
  NormPlan query_norm;  // in latent attention: of compressed queries
  NormPlan key_norm;    // in latent attention: of the compressed vector
  MatrixPlan query_up;  // in latent attention: from compressed queries
  std::vector<LatentHeadPlan> latent_heads;
  VectorPlan sinks;  // of the query heads
  // In a Gated DeltaNet, `qkv` has the rows of queries, keys, values, output gates, and for each
  // value head one of its rate and one of its decay. Channels of the convolution are queries, keys
  // and values.
  VectorPlan convolution;  // [channels, 1, taps]
  VectorPlan decay;        // A_log
  VectorPlan decay_bias;   // dt_bias
  NormPlan value_norm;     // of each value head's output
  MatrixPlan output;
  NormPlan attention_post_norm;
  NormPlan mlp_norm;
  MatrixPlan up;  // gate rows, if gated, then up rows; in a mixture, the shared expert's
  MatrixPlan down;
  NormPlan mlp_post_norm;
  MatrixPlan router;          // in a mixture: a row for each expert
  VectorPlan selection_bias;  // in a mixture: of the experts
  MatrixPlan shared_gate;     // in a mixture with a shared expert: one row
  std::vector<ExpertPlan> experts;
};

struct TensorPlan {
  MatrixPlan embedding;
  MatrixPlan positions;
  MatrixPlan project_in;
  std::vector<LayerPlan> layers;
  NormPlan final_norm;
  MatrixPlan project_out;
  MatrixPlan head;  // without parts if the embedding is the head
};

// Calls matrix(MatrixPlan), norm(NormPlan) and vector(VectorPlan) for all parts of the plan,
// including empty ones.
template <class MatrixAction, class NormAction, class VectorAction>
void ForEachOf(const TensorPlan& plan, const MatrixAction& matrix, const NormAction& norm,
               const VectorAction& vector) {
  for (const MatrixPlan* one :
       {&plan.embedding, &plan.positions, &plan.project_in, &plan.project_out, &plan.head}) {
    matrix(*one);
  }
  norm(plan.final_norm);
  for (const LayerPlan& layer : plan.layers) {
    for (const MatrixPlan* one : {&layer.qkv, &layer.query_up, &layer.output, &layer.up,
                                  &layer.down, &layer.router, &layer.shared_gate}) {
      matrix(*one);
    }
    for (const LatentHeadPlan& head : layer.latent_heads) {
      matrix(head.key);
      matrix(head.value);
    }
    for (const VectorPlan* one : {&layer.selection_bias, &layer.sinks, &layer.convolution,
                                  &layer.decay, &layer.decay_bias}) {
      vector(*one);
    }
    for (const ExpertPlan& expert : layer.experts) {
      matrix(expert.up);
      matrix(expert.down);
    }
    for (const NormPlan* one :
         {&layer.attention_norm, &layer.query_norm, &layer.key_norm, &layer.value_norm,
          &layer.attention_post_norm, &layer.mlp_norm, &layer.mlp_post_norm}) {
      norm(*one);
    }
  }
}

// The prefixes that a family's published checkpoints use, the usual one first.
std::vector<std::string> PrefixesOf(WeightNaming naming);

// The plan of a model's tensors. `prefix` precedes every name except the head's.
TensorPlan PlanTensors(const ModelConfig& model, const std::string& prefix);

// The plan with one expert in each mixture, whose matrices are the matrices of all experts one
// below the other: for devices that keep a mixture in one piece.
TensorPlan WithStackedExperts(TensorPlan plan);

// The names of all tensors of a plan, ascending.
std::vector<std::string> NamesOf(const TensorPlan& plan);

// True for buffers without meaning that old files have beside the weights: GPT-2's masks.
bool IsKnownBuffer(WeightNaming naming, const std::string& name);

}  // namespace twin::exec
