#include "sim/devices/stage_operations.h"

#include <algorithm>
#include <cmath>

#include "core/layer_groups.h"
#include "sim/devices/layer_launches.h"

namespace twin::sim {
namespace {

// Steps beyond these sizes are computed anew each time.
constexpr std::size_t kRememberedRows = 8192 + 1024;
constexpr std::size_t kRememberedLogits = 1024 + 1;

constexpr std::size_t At(OperationClass operation) { return static_cast<std::size_t>(operation); }

// Depends on the rows that get logits, rather than on all.
constexpr bool OnLogits(OperationClass operation) {
  return operation == OperationClass::kHead || operation == OperationClass::kSampling;
}

std::int64_t RoundedShare(std::int64_t width, const Parallelism& parallelism) {
  return (width + parallelism.tensor - 1) / parallelism.tensor;
}

LayerSpec WithoutMlp(LayerSpec layer) {
  layer.intermediate = 0;
  layer.gated_mlp = true;
  layer.mlp_bias = false;
  layer.moe = {};
  return layer;
}

}  // namespace

StageOperations::StageOperations(const ModelSpec& model, const HardwareSpec& hardware,
                                 const Parallelism& parallelism, std::int32_t stage,
                                 const DeviceProfile& device, const OperationChoices& choices)
    : model_(model),
      hardware_(hardware),
      parallelism_(parallelism),
      stage_(stage),
      collective_(hardware, choices.library, device.collectives),
      memory_bound_(hardware, device.attention.memory_bound),
      has_experts_(MostExperts(model) > 0),
      measured_calls_(kRememberedRows) {
  const GemmModel gemm(hardware, device.gemm, choices.library);
  const LayerContext context{model, hardware, parallelism, device, choices, gemm, memory_bound_};
  for (const LayerGroup& kind : StageLayerKinds(model, parallelism, stage)) AddKind(context, kind);
  if (model.is_mtp_module) {
    join_product_.emplace(gemm.Curve(model.hidden, 2 * std::int64_t{model.hidden},
                                     FormatOf(EmbeddingFormat(model.weight_dtype))));
  }
  if (stage == parallelism.pipeline - 1) {
    head_product_.emplace(gemm.Curve(RoundedShare(model.vocab, parallelism), model.hidden,
                                     FormatOf(EmbeddingFormat(model.weight_dtype))));
  }
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    const auto operation = static_cast<OperationClass>(i);
    const bool logits = OnLogits(operation);
    const bool none = operation == OperationClass::kPrefillAttention ||
                      operation == OperationClass::kDecodeAttention;
    const std::size_t size = none ? 0 : logits ? kRememberedLogits : kRememberedRows;
    remembered_.emplace_back(size);
  }
}

void StageOperations::AddKind(const LayerContext& context, const LayerGroup& kind) {
  if (kind.layer.is_empty()) return;
  layers_ += kind.layers;
  const ModelSpec& model = context.model;
  const bool windowed = kind.layer.sliding_window > 0 || kind.layer.chunk > 0;
  const double share = windowed ? WindowedShare(model) : 0;
  kinds_.push_back({static_cast<double>(kind.layers), LayerOperations(context, kind.layer, share)});
  launched_layers_ += kind.layers * LayerLaunches(model, kind.layer) / kDenseLayerLaunches;
  const LayerSpec attention = WithoutMlp(kind.layer);
  const auto known = std::ranges::find(attentions_, attention, &SharedAttention::layer);
  if (known == attentions_.end()) {
    attentions_.push_back({attention, kinds_.size() - 1, static_cast<double>(kind.layers)});
  } else {
    known->layers += kind.layers;
  }
}

double StageOperations::MeasuredHeat(std::int64_t rows, const HeatMemory& memory) const {
  const BackToBackCalls calls = kinds_.front().operations.products().front().calls();
  if (calls.timed == 0) return 0;
  const double call = measured_calls_.At(rows, [&](std::int64_t n) { return MeasuredCall(n); });
  return memory.Mean(memory.After(0, 1, calls.untimed * call), 1, calls.timed * call);
}

double StageOperations::MeasuredCall(std::int64_t rows) const {
  double seconds = 0;
  double weighted = 0;
  for (const Kind& kind : kinds_) {
    for (const ProductCurve& product : kind.operations.products()) {
      const double one = product(rows).seconds * (kinds_.size() > 1 ? kind.layers : 1);
      seconds += one;
      weighted += one * product.MeasuredCall(rows);
    }
  }
  return weighted / seconds;
}

StageOperations::RowsModel StageOperations::ModelOf(OperationClass operation) const {
  const bool last = stage_ == parallelism_.pipeline - 1;
  switch (operation) {
    case OperationClass::kGemm:
      return &StageOperations::LayerGemms;
    case OperationClass::kExperts:
      return has_experts_ ? &StageOperations::Experts : nullptr;
    case OperationClass::kSmall:
      return &StageOperations::Small;
    case OperationClass::kCollective:
      return parallelism_.devices() > 1 ? &StageOperations::Collectives : nullptr;
    case OperationClass::kHead:
      return last ? &StageOperations::Head : nullptr;
    case OperationClass::kSampling:
      return last ? &StageOperations::Sampling : nullptr;
    case OperationClass::kPrefillAttention:
    case OperationClass::kDecodeAttention:
      break;
  }
  return nullptr;
}

ByOperation<TimeEstimate> StageOperations::Estimates(const StepLoad& load) const {
  ByOperation<TimeEstimate> all{};
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    const auto operation = static_cast<OperationClass>(i);
    const std::int64_t rows = OnLogits(operation) ? load.logits : load.rows;
    const RowsModel model = ModelOf(operation);
    if (model == nullptr || rows == 0) continue;
    all[i] = remembered_[i].At(rows, [&](std::int64_t n) { return (this->*model)(n); });
  }
  Batches batches;
  const LayerOperations::Attention attention = AttentionOf<true>(load, batches);
  all[At(OperationClass::kPrefillAttention)] = attention.chunks;
  all[At(OperationClass::kDecodeAttention)] = attention.decodes;
  return all;
}

ByOperation<double> StageOperations::Seconds(const StepLoad& load) const {
  ByOperation<double> seconds{};
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    const auto operation = static_cast<OperationClass>(i);
    const std::int64_t rows = OnLogits(operation) ? load.logits : load.rows;
    const RowsModel model = ModelOf(operation);
    if (model == nullptr || rows == 0) continue;
    seconds[i] = remembered_[i].Seconds(rows, [&](std::int64_t n) { return (this->*model)(n); });
  }
  Batches batches;
  const LayerOperations::Attention attention = AttentionOf<false>(load, batches);
  seconds[At(OperationClass::kPrefillAttention)] = attention.chunks.seconds;
  seconds[At(OperationClass::kDecodeAttention)] = attention.decodes.seconds;
  return seconds;
}

double StageOperations::DecodeAttentionSeconds(const StepLoad& load, Batches& batches) const {
  return AttentionOf<false>(load, batches).decodes.seconds;
}

// The sum over all layers of what `of` gives for one of a kind; errors are equal in sign.
template <class Of>
TimeEstimate StageOperations::SumOfLayers(const Of& of) const {
  TimeEstimate sum = kinds_.front().layers * of(kinds_.front().operations);
  for (std::size_t i = 1; i < kinds_.size(); ++i) {
    sum = sum + kinds_[i].layers * of(kinds_[i].operations);
  }
  return sum;
}

TimeEstimate StageOperations::LayerGemms(std::int64_t rows) const {
  const TimeEstimate layers =
      SumOfLayers([&](const LayerOperations& layer) { return layer.Gemms(rows); });
  return join_product_ ? layers + (*join_product_)(rows) : layers;
}

TimeEstimate StageOperations::Experts(std::int64_t rows) const {
  return SumOfLayers([&](const LayerOperations& layer) {
    return layer.has_experts() ? layer.Experts(rows) : TimeEstimate{};
  });
}

TimeEstimate StageOperations::Small(std::int64_t rows) const {
  const TimeEstimate all =
      SumOfLayers([&](const LayerOperations& layer) { return layer.Small(rows, memory_bound_); });
  if (stage_ > 0) return all;
  const double row = static_cast<double>(rows) * static_cast<double>(ActivationByteSize(model_));
  return all + memory_bound_(MemoryBoundKernel::kEmbedding,
                             row * (2 * static_cast<double>(model_.hidden)));
}

TimeEstimate StageOperations::Collectives(std::int64_t rows) const {
  const double bytes =
      static_cast<double>(rows) * model_.hidden * static_cast<double>(ActivationByteSize(model_));
  TimeEstimate sum;
  if (parallelism_.tensor > 1) {
    double count = stage_ == 0 ? 1 : 0;
    for (const Kind& kind : kinds_) count += kind.layers * kind.operations.reductions();
    sum = count * collective_(Collective::kAllReduce, parallelism_.tensor, bytes);
  }
  if (stage_ < parallelism_.pipeline - 1) {
    sum = sum + collective_(Collective::kSend, 2, bytes / parallelism_.tensor);
  }
  return sum;
}

TimeEstimate StageOperations::Head(std::int64_t logits) const {
  const std::int64_t share = RoundedShare(model_.vocab, parallelism_);
  TimeEstimate sum = (*head_product_)(logits);
  if (parallelism_.tensor > 1) {
    const double bytes = static_cast<double>(logits * share * ActivationByteSize(model_));
    sum = sum + collective_(Collective::kAllGather, parallelism_.tensor, bytes);
  }
  return sum;
}

// Logits are widened to fp32 (read, write) and read for a maximum.
TimeEstimate StageOperations::Sampling(std::int64_t logits) const {
  const double moved =
      static_cast<double>(model_.vocab) * (static_cast<double>(ActivationByteSize(model_)) + 12);
  constexpr MemoryBoundKernel kKernel = MemoryBoundKernel::kSampling;
  if (memory_bound_.Measured(kKernel)) {
    return memory_bound_(kKernel, {.vocabulary = static_cast<double>(model_.vocab)},
                         static_cast<double>(logits));
  }
  constexpr double kKernels = 6;
  return kKernels * memory_bound_(kKernel, static_cast<double>(logits) * moved / kKernels);
}

template <bool kSpread>
LayerOperations::Attention StageOperations::AttentionOf(const StepLoad& load,
                                                        Batches& batches) const {
  const auto of = [&](const SharedAttention& shared, LayerOperations::Batches& latest) {
    return kinds_[shared.kind].operations.AttentionOf<kSpread>(load, shared.layers, latest);
  };
  LayerOperations::Attention sum = of(attentions_.front(), batches.first);
  batches.others.resize(attentions_.size() - 1);
  for (std::size_t i = 1; i < attentions_.size(); ++i) {
    const LayerOperations::Attention more = of(attentions_[i], batches.others[i - 1]);
    sum.chunks = sum.chunks + more.chunks;
    sum.decodes = sum.decodes + more.decodes;
  }
  return sum;
}

}  // namespace twin::sim
