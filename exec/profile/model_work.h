// The least work of a step, in operations and bytes, for comparison with measured times.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/model_spec.h"
#include "exec/model/weights.h"
#include "sched/step_plan.h"

namespace twin::exec {

// Counts matrix products and attention; norms and activations are left out.
struct ModelWork {
  std::int64_t layer_weights = 0;  // that every token is multiplied with, all layers
  std::int64_t head_weights = 0;   // that every row of logits takes
  std::int64_t layer_bytes = 0;    // the same, as packed
  std::int64_t head_bytes = 0;
  // Of mixtures: that one expert takes in all layers; not among those above.
  std::int64_t expert_weights = 0;
  std::int64_t expert_bytes = 0;
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
  std::int64_t flops_per_pair = 0;      // of a query and a key, all layers
  std::int64_t kv_bytes_per_token = 0;  // of all layers

  // Two operations for each weight and token, and of each layer four for each pair and element of a
  // head. Sliding windows are not taken off.
  [[nodiscard]] double Flops(const StepTotals& totals) const;
  // Weights once, keys and values of every item once. Of mixtures: the experts that the tokens
  // choose, if each takes any with equal probability.
  [[nodiscard]] double Bytes(const StepTotals& totals) const;

 private:
  [[nodiscard]] double ExpertBytes(std::int64_t tokens) const;
};

ModelWork WorkOf(const ModelSpec& model, const ModelWeights& weights, DType kv_dtype);

}  // namespace twin::exec
