// The operations of one pipeline stage of a transformer, as engines with fused kernels run them.
//
// A stage has the operations of its layers (layer_operations.h). The first stage embeds; the last
// one has a final norm, the LM head and the sampler for rows that emit; all other stages send their
// rows on. All run on one stream, so that the times of a stage add up.
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
#include "sim/devices/layer_operations.h"
#include "sim/devices/operations/collective_model.h"
#include "sim/devices/operations/device_profile.h"
#include "sim/devices/operations/memory_bound_model.h"
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

// Thread-safe. Values that depend on a number of rows alone are computed once, when they are first
// asked for.
class StageOperations {
 public:
  StageOperations(const ModelSpec& model, const HardwareSpec& hardware,
                  const Parallelism& parallelism, std::int32_t stage, const DeviceProfile& device,
                  const OperationChoices& choices);

  // Seconds of each class in isolation, as measured: the median prediction.
  [[nodiscard]] ByOperation<double> Seconds(const StepLoad& load) const;

  // The latest decodes, of each kind of attention in the stage.
  struct Batches {
    LayerOperations::Batches first;
    std::vector<LayerOperations::Batches> others;
  };
  // Decode attention alone, as in Seconds(). `batches` are renewed. REQUIRES: they are new, or were
  // used with this stage alone.
  [[nodiscard]] double DecodeAttentionSeconds(const StepLoad& load, Batches& batches) const;

  // Seconds of each class with the spread of the models.
  [[nodiscard]] ByOperation<TimeEstimate> Estimates(const StepLoad& load) const;

  // Mean heat of the device while the products of the layers were measured (device_state.h): their
  // times hold for a device that is as warm. 0 if the benchmark let it rest.
  [[nodiscard]] double MeasuredHeat(std::int64_t rows, const HeatMemory& memory) const;

  // Layers that do more than return their input.
  [[nodiscard]] std::int32_t layers() const { return layers_; }
  // Its layers, each counted by its kernels relative to those of a dense one (layer_launches.h).
  [[nodiscard]] double launched_layers() const { return launched_layers_; }

 private:
  struct Kind {
    double layers = 0;
    LayerOperations operations;
  };
  // Layers of several kinds may have the same attention.
  struct SharedAttention {
    LayerSpec layer;       // without its MLP
    std::size_t kind = 0;  // the first one, of kinds_
    double layers = 0;
  };

  using RowsModel = TimeEstimate (StageOperations::*)(std::int64_t rows) const;

  void AddKind(const LayerContext& context, const LayerGroup& kind);
  template <class Of>
  [[nodiscard]] TimeEstimate SumOfLayers(const Of& of) const;
  // The model of an operation that depends on a number of rows alone; null if the stage lacks it.
  [[nodiscard]] RowsModel ModelOf(OperationClass operation) const;
  [[nodiscard]] TimeEstimate LayerGemms(std::int64_t rows) const;
  // Seconds of a call: mean of the layers' products, weighted by their times.
  [[nodiscard]] double MeasuredCall(std::int64_t rows) const;
  [[nodiscard]] TimeEstimate Experts(std::int64_t rows) const;
  [[nodiscard]] TimeEstimate Small(std::int64_t rows) const;
  [[nodiscard]] TimeEstimate Collectives(std::int64_t rows) const;
  [[nodiscard]] TimeEstimate Head(std::int64_t logits) const;
  [[nodiscard]] TimeEstimate Sampling(std::int64_t logits) const;
  // kSpread false: seconds alone.
  template <bool kSpread>
  [[nodiscard]] LayerOperations::Attention AttentionOf(const StepLoad& load,
                                                       Batches& batches) const;

  ModelSpec model_;
  HardwareSpec hardware_;
  Parallelism parallelism_;
  std::int32_t stage_;
  std::int32_t layers_ = 0;
  double launched_layers_ = 0;
  std::vector<Kind> kinds_;
  std::vector<SharedAttention> attentions_;
  std::optional<ProductCurve> head_product_;  // of the last stage
  std::optional<ProductCurve> join_product_;  // of a module of multi-token prediction
  CollectiveModel collective_;
  MemoryBoundModel memory_bound_;
  bool has_experts_;
  std::vector<EstimateTable> remembered_;  // by class; attention has none
  TokenTable measured_calls_;
};

}  // namespace twin::sim
