// How long sparse attention with an index (DSA: DeepSeek-V3.2, GLM-5) takes: one layer, one rank.
//
// Each new token has its index key compared with those of all tokens before it, the 2,048 largest
// logits chosen, and absorbed latent attention over these keys. The three kernels have tables of
// 64 query heads; other heads scale the work of the attention. Layers that reuse an index run the
// attention alone. Projections, those of the index too, are products of GemmModel.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/hardware_spec.h"
#include "sim/devices/operations/attention_model.h"
#include "sim/devices/operations/estimate.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/measured_operation.h"
#include "sim/devices/operations/operation_kinds.h"

namespace twin::sim {

struct SparseShape {
  LatentSizes sizes;
  std::int32_t heads = 0;  // of one rank
  DType cache_dtype = DType::kBf16;
  std::int32_t index_heads = 64;  // on every rank
  std::int32_t index_dim = 128;
  std::int32_t chosen = 2048;
};

// Thread-safe.
class SparseAttentionModel {
 public:
  SparseAttentionModel(const HardwareSpec& hardware, const SparseShape& shape,
                       KernelLibrary library, const OperationProfile& profile = {});

  // Logits and their choice; 0 seconds without work.
  [[nodiscard]] TimeEstimate Index(const ContextAttention& chunks) const;
  [[nodiscard]] TimeEstimate Index(const GenerationAttention& decodes) const;
  // Attention over the chosen keys.
  [[nodiscard]] TimeEstimate Attention(const ContextAttention& chunks) const;
  [[nodiscard]] TimeEstimate Attention(const GenerationAttention& decodes) const;

 private:
  SparseShape shape_;
  MeasuredOperation logits_;
  MeasuredOperation choice_;
  MeasuredOperation attention_;
};

// Work of the index of so many queries, (query, key) pairs and keys.
[[nodiscard]] OperationWork IndexLogitsWork(double heads, double dim, double queries, double pairs,
                                            double keys);

}  // namespace twin::sim
