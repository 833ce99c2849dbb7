// The coefficients of a cost model that was fitted on measurements of one model on one machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "sim/cost/cost_traits.h"

namespace twin::sim {

// A point of a table (cost_table.h).
struct CostPoint {
  double at = 0;
  double seconds = 0;

  bool operator==(const CostPoint&) const = default;
};

// Seconds that are linear in the requests (`item`) and tokens of a step.
struct LinearPart {
  double base_s = 0;
  double per_item_s = 0;
  double per_token_s = 0;

  bool operator==(const LinearPart&) const = default;
};

// Seconds of attention in a step, all layers, linear in features of step_features.h.
struct AttentionPart {
  double base_s = 0;
  double per_prefill_item_s = 0;
  double per_prefill_token_s = 0;
  double per_prefill_context_token_s = 0;
  double per_prefill_pair_s = 0;
  double per_decode_item_s = 0;
  double per_decode_context_token_s = 0;

  bool operator==(const AttentionPart&) const = default;
};

struct FittedCostConfig {
  static constexpr CostTraits kCostTraits = {.name = "fitted"};

  // The measured model. Only models with the same parameters and formats are predicted.
  std::string model;
  std::int64_t parameters = 0;
  DType weight_dtype = DType::kFp32;
  DType kv_dtype = DType::kFp32;
  std::string machine;
  std::int32_t threads = 0;
  std::string commit;  // of the program that measured

  // Sizes to which the device pads single-token steps, ascending (sched/computed_rows.h).
  std::vector<std::uint32_t> decode_buckets;

  // GEMMs of all layers by tokens, and of the LM head by rows of logits, as measured alone. A step
  // takes their sum times the factor of its phase (decode: single-token steps; prefill: all other
  // steps), plus a constant.
  std::vector<CostPoint> gemm_layers;
  std::vector<CostPoint> gemm_head;
  double gemm_decode_factor = 1;
  double gemm_prefill_factor = 1;
  double gemm_base_s = 0;

  AttentionPart attention;

  // Norms, rotary embedding and activations by tokens.
  std::vector<CostPoint> other;
  double other_factor = 1;
  double other_base_s = 0;

  LinearPart build;
  LinearPart sampling;  // items: rows of logits
  LinearPart schedule;
  LinearPart delivery;

  // Seconds of the fixed work that was timed beside the measurements (exec/speed_probe.h); 0 = it
  // was not timed.
  double decode_probe_s = 0;
  double prefill_probe_s = 0;
  // How much longer the machine takes than while it was measured: factors of all times of
  // single-token steps, and of all times of other steps.
  double decode_slowdown = 1;
  double prefill_slowdown = 1;

  double swap_latency_s = 0;
  double per_swapped_block_s = 0;

  // The largest measured steps; larger ones are extrapolated (StepCost::Covers).
  std::int64_t tokens_max = 0;
  std::int64_t decode_items_max = 0;
  std::int64_t decode_context_tokens_max = 0;
  std::int64_t prefill_context_tokens_max = 0;

  bool operator==(const FittedCostConfig&) const = default;
};

}  // namespace twin::sim
