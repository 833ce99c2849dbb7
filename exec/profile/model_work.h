// The least work of a step, in operations and bytes, for comparison with measured times.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/model_spec.h"
#include "exec/model/weights.h"
#include "sched/step_plan.h"

namespace twin::exec {

// Counts matrix products and attention, without norms and activations.
struct ModelWork {
  std::int64_t layer_weights = 0;  // multiplied with every token, all layers together
  std::int64_t head_weights = 0;   // multiplied with every row of logits
  std::int64_t layer_bytes = 0;    // size of the layer_weights as packed
  std::int64_t head_bytes = 0;
  // Weights of one expert, summed over all layers. They are not part of the layer_weights.
  std::int64_t expert_weights = 0;
  std::int64_t expert_bytes = 0;
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
  std::int64_t flops_per_pair = 0;      // of a query with a key, all layers together
  std::int64_t kv_bytes_per_token = 0;  // all layers together

  // Two operations for each weight and token, and in each layer four for each pair of query and key
  // and element of a head. Counts all pairs of sliding windows as if there were no window.
  [[nodiscard]] double Flops(const StepTotals& totals) const;
  // Reads weights once, and keys and values of every item once. Of a mixture, reads the experts
  // that the tokens choose, if each expert is equally probable.
  [[nodiscard]] double Bytes(const StepTotals& totals) const;

 private:
  [[nodiscard]] double ExpertBytes(std::int64_t tokens) const;
};

ModelWork WorkOf(const ModelSpec& model, const ModelWeights& weights, DType kv_dtype);

}  // namespace twin::exec
