// How long attention takes on a device: one layer, one rank.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/hardware_spec.h"
#include "sim/cost/operations/estimate.h"
#include "sim/cost/operations/kernel_library.h"

namespace twin::sim {

// Heads of one rank.
struct AttentionHeads {
  std::int32_t query_heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  DType kv_dtype = DType::kBf16;
};

// Prompt chunks of a step, all together.
struct ContextAttention {
  double chunks = 0;
  double tokens = 0;          // queries of all chunks
  double context_tokens = 0;  // keys read: sum of each chunk's end position
  double pairs = 0;           // (query, key) combinations, causal
};

// Decodes of a step: one query each.
struct GenerationAttention {
  double requests = 0;
  double context_tokens = 0;      // sum of the lengths, the new tokens included
  double context_tokens_max = 0;  // of the longest request; the mean if unknown
};

class AttentionModel {
 public:
  AttentionModel(const HardwareSpec& hardware, const AttentionHeads& heads,
                 KernelLibrary library = KernelLibrary::kVllm);

  // Each kind alone; 0 seconds without work.
  [[nodiscard]] Estimate operator()(const ContextAttention& work) const;
  [[nodiscard]] Estimate operator()(const GenerationAttention& work) const;
  // Both kinds in one step.
  [[nodiscard]] Estimate operator()(const ContextAttention& chunks,
                                    const GenerationAttention& decodes) const;

 private:
  HardwareSpec hardware_;
  AttentionHeads heads_;
  KernelLibrary library_;
};

}  // namespace twin::sim
