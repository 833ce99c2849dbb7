// The operations of one kind of layer on one rank, as engines with fused kernels run them.
//
// Attention over cached keys: the product of queries, keys and values together, norms of queries
// and keys where the layer has them, rotary embedding, cache write, attention, the product of the
// output. Latent attention: products into and out of the latent vectors; decodes attend to the
// latent vectors themselves, between two batched products with the heads' projections, and chunks
// to keys and values made from them. Recurrent attention: products in and out, and the state's
// kernels between them. MLP: gate and up together, down; or router and experts. Norms with their
// residual additions, and an all-reduce between ranks after each half.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/devices/operations/attention_model.h"
#include "sim/devices/operations/device_profile.h"
#include "sim/devices/operations/experts_model.h"
#include "sim/devices/operations/gemm_model.h"
#include "sim/devices/operations/latent_attention_model.h"
#include "sim/devices/operations/memory_bound_model.h"
#include "sim/devices/operations/moe_model.h"
#include "sim/devices/operations/recurrent_model.h"
#include "sim/devices/operations/sparse_attention_model.h"
#include "sim/devices/product_curve.h"

namespace twin::sim {

// Sizes of the operations of a step.
struct StepLoad {
  std::int64_t rows = 0;    // of per-token operations, padding included
  std::int64_t logits = 0;  // rows of the LM head
  ContextAttention chunks;
  GenerationAttention decodes;
};

// How the operations of a model are computed, beside its shapes.
struct OperationChoices {
  KernelLibrary library = KernelLibrary::kVllm;
  // Each rank holds whole experts, rather than a share of every expert.
  bool expert_parallel = false;
  ExpertsKernel experts_kernel = ExpertsKernel::kAny;

  bool operator==(const OperationChoices&) const = default;
};

// The kernels' format of matrices that are stored as `weights`.
GemmFormat FormatOf(DType weights);

// All that the layers of a model have in common.
struct LayerContext {
  const ModelSpec& model;
  const HardwareSpec& hardware;
  const Parallelism& parallelism;
  const DeviceProfile& device;
  OperationChoices choices;
  const GemmModel& gemm;
  const MemoryBoundModel& memory_bound;
};

// Thread-safe.
class LayerOperations {
 public:
  // `windowed_share`: share of the layers that has the window of `layer`, if it has one.
  LayerOperations(const LayerContext& context, const LayerSpec& layer, double windowed_share);

  // Seconds of one layer in isolation. REQUIRES: rows >= 1; for Experts(), has_experts().
  [[nodiscard]] TimeEstimate Gemms(std::int64_t rows) const;  // 0 seconds without products
  [[nodiscard]] TimeEstimate Experts(std::int64_t rows) const {
    return measured_experts_ ? (*measured_experts_)(static_cast<double>(rows)) : (*experts_)(rows);
  }
  [[nodiscard]] TimeEstimate Small(std::int64_t rows, const MemoryBoundModel& memory_bound) const;

  [[nodiscard]] bool has_experts() const { return measured_experts_ || experts_; }
  // All-reduces of a layer.
  [[nodiscard]] double reductions() const { return reductions_; }
  // In the order of a layer.
  [[nodiscard]] const std::vector<ProductCurve>& products() const { return products_; }

  // Attention of the step's chunks and of what its decodes add, of one layer times `layers`.
  struct Attention {
    TimeEstimate chunks;
    TimeEstimate decodes;
  };
  // The latest decodes, of layers with a window and of all others.
  struct Batches {
    AttentionModel::Batch near;
    AttentionModel::Batch all;
  };
  // `batches` are renewed. REQUIRES: they are new, or were used with this object alone. kSpread
  // false: seconds alone.
  template <bool kSpread>
  [[nodiscard]] Attention AttentionOf(const StepLoad& load, double layers, Batches& batches) const;

 private:
  void SetLatent(const LayerContext& context);
  [[nodiscard]] TimeEstimate LatentChunks(const ContextAttention& chunks) const;
  [[nodiscard]] TimeEstimate LatentDecodes(const GenerationAttention& decodes) const;

  LayerSpec layer_;
  std::int64_t tensor_;
  std::int64_t hidden_;
  std::int64_t activation_bytes_;
  std::int64_t query_width_;  // of one rank
  std::int64_t kv_width_;     // numbers of keys, or of values, of one rank
  double reductions_;
  double windowed_share_;
  std::vector<ProductCurve> products_;
  std::optional<ProductCurve> latent_product_;  // from latent vectors to heads' keys and values
  std::optional<LatentAttentionModel> latent_;
  std::optional<SparseAttentionModel> sparse_;  // of latent attention with an index
  std::optional<RecurrentModel> recurrent_;
  std::optional<ExpertsModel> measured_experts_;
  std::optional<MoeModel> experts_;          // where there are no measurements of measured_experts_
  std::optional<AttentionModel> attention_;  // of layers over all cached keys
  std::optional<AttentionModel> windowed_attention_;  // of layers with a sliding window
};

}  // namespace twin::sim
