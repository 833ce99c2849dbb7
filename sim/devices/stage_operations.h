// The operations of one pipeline stage of a transformer, as engines with fused kernels run them.
//
// Per layer: the products of queries, keys and values together, of the attention's output, of gate
// and up together, and down (or router and experts); attention over the cache; two norms with their
// residual additions, norms of queries and keys where the model has them, rotary embedding, cache
// write, activation; two all-reduces between ranks. The first stage embeds; the last one has a
// final norm, the LM head and the sampler for rows that emit; all other stages send their rows on.
// All run on one stream, so that the times of a stage add up.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "core/step_parts.h"
#include "sim/cost/device_state.h"
#include "sim/devices/operations/attention_model.h"
#include "sim/devices/operations/collective_model.h"
#include "sim/devices/operations/device_profile.h"
#include "sim/devices/operations/gemm_model.h"
#include "sim/devices/operations/memory_bound_model.h"
#include "sim/devices/operations/moe_model.h"
#include "sim/devices/product_curve.h"
#include "sim/devices/token_table.h"

namespace twin::sim {

// Operations whose times are predicted by one model and are wrong together.
enum class OperationClass : std::uint8_t {
  kGemm,
  kExperts,
  kPrefillAttention,
  kDecodeAttention,  // in a step with chunks, what decodes add to their attention
  kSmall,            // norms, rotary embedding, cache writes, activations
  kCollective,
  kHead,
  kSampling,
};
constexpr std::size_t kOperationClassCount = 8;
constexpr std::array<std::string_view, kOperationClassCount> kOperationClassNames = {
    "gemm",  "experts",    "prefill_attention", "decode_attention",
    "small", "collective", "lm_head",           "sampling"};

template <class T>
using ByOperation = std::array<T, kOperationClassCount>;

// The part of a step's time that the operation belongs to.
constexpr StepPart PartOf(OperationClass operation) {
  switch (operation) {
    case OperationClass::kGemm:
    case OperationClass::kExperts:
    case OperationClass::kHead:
      return StepPart::kGemm;
    case OperationClass::kPrefillAttention:
    case OperationClass::kDecodeAttention:
      return StepPart::kAttention;
    case OperationClass::kCollective:
      return StepPart::kCommunication;
    case OperationClass::kSampling:
      return StepPart::kSampling;
    case OperationClass::kSmall:
      break;
  }
  return StepPart::kOther;
}

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

  bool operator==(const OperationChoices&) const = default;
};

// Thread-safe. Values that depend on a number of rows alone are computed once, when they are first
// asked for.
class StageOperations {
 public:
  StageOperations(const ModelSpec& model, const HardwareSpec& hardware,
                  const Parallelism& parallelism, std::int32_t stage, const DeviceProfile& device,
                  const OperationChoices& choices);

  // Seconds of each class in isolation, as measured: the median prediction.
  [[nodiscard]] ByOperation<double> Seconds(const StepLoad& load) const;

  // The latest decodes, of layers with a window and of all others.
  struct Batches {
    AttentionModel::Batch near;
    AttentionModel::Batch all;
  };
  // Decode attention alone, as in Seconds(). `batches` are renewed. REQUIRES: they are new, or were
  // used with this stage alone.
  [[nodiscard]] double DecodeAttentionSeconds(const StepLoad& load, Batches& batches) const;

  // Seconds of each class with the spread of the models.
  [[nodiscard]] ByOperation<Estimate> Estimates(const StepLoad& load) const;

  // Mean heat of the device while the products of the layers were measured (device_state.h): their
  // times hold for a device that is as warm. 0 if the benchmark let it rest.
  [[nodiscard]] double MeasuredHeat(std::int64_t rows, const HeatMemory& memory) const;

  [[nodiscard]] std::int32_t layers() const { return layers_; }

 private:
  struct Attention {
    Estimate chunks;
    Estimate decodes;
  };

  using RowsModel = Estimate (StageOperations::*)(std::int64_t rows) const;

  // The model of an operation that depends on a number of rows alone; null if the stage lacks it.
  [[nodiscard]] RowsModel ModelOf(OperationClass operation) const;
  [[nodiscard]] Estimate LayerGemms(std::int64_t rows) const;
  // Seconds of a call: mean of the layers' products, weighted by their times.
  [[nodiscard]] double MeasuredCall(std::int64_t rows) const;
  [[nodiscard]] Estimate Experts(std::int64_t rows) const;
  [[nodiscard]] Estimate Small(std::int64_t rows) const;
  [[nodiscard]] Estimate Collectives(std::int64_t rows) const;
  [[nodiscard]] Estimate Head(std::int64_t logits) const;
  [[nodiscard]] Estimate Sampling(std::int64_t logits) const;
  // kSpread false: seconds alone.
  template <bool kSpread>
  [[nodiscard]] Attention AttentionOf(const StepLoad& load, Batches& batches) const;

  ModelSpec model_;
  HardwareSpec hardware_;
  Parallelism parallelism_;
  std::int32_t stage_;
  std::int32_t layers_;
  std::int64_t query_width_;  // of one rank
  std::int64_t kv_width_;     // likewise
  GemmFormat format_;
  bool expert_parallel_;
  std::vector<ProductCurve> layer_products_;
  std::optional<ProductCurve> head_product_;  // of the last stage
  std::optional<MoeModel> experts_;
  AttentionModel attention_;
  std::optional<AttentionModel> windowed_attention_;  // of layers with a sliding window
  CollectiveModel collective_;
  MemoryBoundModel memory_bound_;
  std::vector<EstimateTable> remembered_;  // by class; attention has none
  TokenTable measured_calls_;
};

}  // namespace twin::sim
