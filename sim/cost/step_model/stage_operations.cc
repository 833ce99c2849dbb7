#include "sim/cost/step_model/stage_operations.h"

#include <algorithm>
#include <cmath>

#include "sim/cost/step_profile.h"

namespace twin::sim {
namespace {

// Steps beyond these sizes are computed anew each time.
constexpr std::size_t kRememberedRows = 8192 + 1024;
constexpr std::size_t kRememberedLogits = 1024 + 1;
// Isolated products get faster with more rows at some sizes, and interpolation widens such a bump;
// steps do not show it. So a product costs at most what one of more rows does: of sizes up to a
// tile beyond kFewRows, or the next few multiples of a tile.
constexpr std::int64_t kFewRows = 128;
constexpr std::int64_t kTileRows = 128;
constexpr int kTilesBeyond = 2;
constexpr double kSmallSpread = 0.2;

constexpr std::size_t At(OperationClass operation) { return static_cast<std::size_t>(operation); }

// Depends on the rows that get logits, rather than on all.
constexpr bool OnLogits(OperationClass operation) {
  return operation == OperationClass::kHead || operation == OperationClass::kSampling;
}

GemmFormat FormatOf(DType weights) {
  switch (weights) {
    case DType::kFp8:
      return GemmFormat::kFp8;
    case DType::kInt8:
      return GemmFormat::kInt8;
    default:
      return GemmFormat::kBf16;
  }
}

// Times add; errors of one class are taken as equal in sign.
Estimate operator+(const Estimate& a, const Estimate& b) {
  const double seconds = a.seconds + b.seconds;
  if (seconds == 0) return {};
  return {seconds, (a.seconds * a.log_sd + b.seconds * b.log_sd) / seconds};
}

Estimate operator*(double count, const Estimate& one) { return {count * one.seconds, one.log_sd}; }

// What `all` takes beyond `part`.
Estimate Beyond(const Estimate& all, const Estimate& part) {
  return {std::max(0.0, all.seconds - part.seconds), all.log_sd};
}

std::optional<MoeModel> ExpertsOf(const ModelSpec& model, const HardwareSpec& hardware,
                                  const Parallelism& parallelism, GemmFormat format,
                                  const MoeProfile& profile) {
  if (model.moe.experts == 0) return std::nullopt;
  return MoeModel(hardware,
                  {.hidden = model.hidden,
                   .intermediate = model.moe.expert_intermediate / parallelism.tensor,
                   .experts = model.moe.experts,
                   .experts_per_token = model.moe.experts_per_token,
                   .format = format},
                  profile);
}

// The fastest product with at least so many rows: libraries pad to a faster tile.
Estimate Product(const GemmCurve& curve, std::int64_t rows) {
  Estimate best = curve(rows);
  const auto consider = [&](std::int64_t m) {
    const Estimate other = curve(m);
    if (other.seconds < best.seconds) best = other;
  };
  for (std::int64_t m = rows / 16 * 16 + 16; m <= kFewRows; m += 16) consider(m);
  if (rows > kFewRows) {
    const std::int64_t next = (rows + kTileRows - 1) / kTileRows * kTileRows;
    for (int i = 0; i <= kTilesBeyond; ++i) {
      consider(next + i * kTileRows);
      consider(next + i * kTileRows + 1);
    }
  }
  return best;
}

// The dense products of one layer on one rank.
std::vector<GemmCurve> LayerProducts(const GemmModel& gemm, const ModelSpec& model,
                                     const Parallelism& parallelism, GemmFormat format) {
  const std::int64_t hidden = model.hidden;
  const std::int64_t query = std::int64_t{model.query_heads} / parallelism.tensor * model.head_dim;
  const std::int64_t kv = std::int64_t{KvHeadsPerRank(model, parallelism)} * model.head_dim;
  std::vector<GemmCurve> products;
  const auto add = [&](std::int64_t n, std::int64_t k) {
    products.push_back(gemm.Curve(n, k, format));
  };
  const auto add_mlp = [&](std::int64_t width) {
    const std::int64_t share = width / parallelism.tensor;
    add((model.gated_mlp ? 2 : 1) * share, hidden);
    add(hidden, share);
  };
  add(query + 2 * kv, hidden);
  add(hidden, query);
  if (model.moe.experts == 0) {
    add_mlp(model.intermediate);
    return products;
  }
  add(model.moe.experts, hidden);
  if (model.moe.shared_intermediate > 0) add_mlp(model.moe.shared_intermediate);
  return products;
}

std::int64_t RoundedShare(std::int64_t width, const Parallelism& parallelism) {
  return (width + parallelism.tensor - 1) / parallelism.tensor;
}

}  // namespace

StepPart PartOf(OperationClass operation) {
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

StageOperations::StageOperations(const ModelSpec& model, const HardwareSpec& hardware,
                                 const Parallelism& parallelism, std::int32_t stage,
                                 const DeviceProfile& device, KernelLibrary library,
                                 const ByOperation<double>& errors)
    : model_(model),
      hardware_(hardware),
      parallelism_(parallelism),
      stage_(stage),
      layers_(StageLayers(model, parallelism, stage)),
      query_width_(std::int64_t{model.query_heads} / parallelism.tensor * model.head_dim),
      kv_width_(std::int64_t{KvHeadsPerRank(model, parallelism)} * model.head_dim),
      format_(FormatOf(model.weight_dtype)),
      experts_(ExpertsOf(model, hardware, parallelism, format_, device.moe)),
      attention_(hardware,
                 {.query_heads = model.query_heads / parallelism.tensor,
                  .kv_heads = KvHeadsPerRank(model, parallelism),
                  .head_dim = model.head_dim,
                  .kv_dtype = model.kv_dtype},
                 library, device.attention),
      collective_(hardware, library, device.collectives),
      errors_(errors) {
  const GemmModel gemm(hardware, device.gemm, library);
  layer_products_ = LayerProducts(gemm, model, parallelism, format_);
  if (stage == parallelism.pipeline - 1) {
    head_product_ = gemm.Curve(RoundedShare(model.vocab, parallelism), model.hidden, format_);
  }
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    const auto operation = static_cast<OperationClass>(i);
    const bool logits = OnLogits(operation);
    const bool none = operation == OperationClass::kPrefillAttention ||
                      operation == OperationClass::kDecodeAttention;
    const std::size_t size = none ? 0 : logits ? kRememberedLogits : kRememberedRows;
    medians_.emplace_back(size);
    spreads_.emplace_back(size);
  }
}

double StageOperations::WithError(OperationClass operation, const Estimate& estimate) const {
  const double error = errors_[At(operation)];
  return error == 0 ? estimate.seconds : estimate.seconds * std::exp(error * estimate.log_sd);
}

StageOperations::RowsModel StageOperations::ModelOf(OperationClass operation) const {
  const bool last = stage_ == parallelism_.pipeline - 1;
  switch (operation) {
    case OperationClass::kGemm:
      return &StageOperations::LayerGemms;
    case OperationClass::kExperts:
      return experts_ ? &StageOperations::Experts : nullptr;
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

double StageOperations::Median(OperationClass operation, RowsModel model, std::int64_t rows) const {
  return medians_[At(operation)].At(rows, [&](std::int64_t n) {
    const Estimate estimate = (this->*model)(n);
    spreads_[At(operation)].Store(n, estimate.log_sd);
    return estimate.seconds;
  });
}

double StageOperations::Spread(OperationClass operation, RowsModel model, std::int64_t rows) const {
  return spreads_[At(operation)].At(rows, [&](std::int64_t n) { return (this->*model)(n).log_sd; });
}

ByOperation<Estimate> StageOperations::Estimates(const StepLoad& load) const {
  ByOperation<Estimate> all{};
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    const auto operation = static_cast<OperationClass>(i);
    const std::int64_t rows = OnLogits(operation) ? load.logits : load.rows;
    const RowsModel model = ModelOf(operation);
    if (model == nullptr || rows == 0) continue;
    all[i].seconds = Median(operation, model, rows);
    all[i].log_sd = Spread(operation, model, rows);
  }
  const Attention attention = AttentionOf(load);
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
    seconds[i] = Median(operation, model, rows);
    if (errors_[i] != 0) seconds[i] *= std::exp(errors_[i] * Spread(operation, model, rows));
  }
  const Attention attention = AttentionOf(load);
  seconds[At(OperationClass::kPrefillAttention)] =
      WithError(OperationClass::kPrefillAttention, attention.chunks);
  seconds[At(OperationClass::kDecodeAttention)] =
      WithError(OperationClass::kDecodeAttention, attention.decodes);
  return seconds;
}

Estimate StageOperations::LayerGemms(std::int64_t rows) const {
  Estimate layer;
  for (const GemmCurve& product : layer_products_) layer = layer + Product(product, rows);
  return layers_ * layer;
}

Estimate StageOperations::Experts(std::int64_t rows) const { return layers_ * (*experts_)(rows); }

Estimate StageOperations::MemoryBound(double kernels, double bytes) const {
  const double rate =
      hardware_.memory_bandwidth_bytes_per_s * hardware_.elementwise_bandwidth_fraction;
  return {kernels * hardware_.elementwise_latency_s + bytes / rate, kSmallSpread};
}

// Bytes moved: a norm reads an update and the residual and writes the residual and its result.
Estimate StageOperations::Small(std::int64_t rows) const {
  const auto value = static_cast<double>(ActivationByteSize(model_));
  const auto hidden = static_cast<double>(model_.hidden);
  const double query = static_cast<double>(query_width_);
  const double kv = 2 * static_cast<double>(kv_width_);
  const std::int64_t mlp =
      model_.moe.experts == 0 ? model_.intermediate : model_.moe.shared_intermediate;
  const double inner = static_cast<double>(mlp) / parallelism_.tensor;
  double kernels = model_.norms_per_layer + 2;  // rotary embedding, cache write
  double moved = model_.norms_per_layer * 4 * hidden + 2 * query + 3 * kv;
  if (model_.qk_norm) {
    kernels += 1;
    moved += 2 * query + kv;
  }
  if (inner > 0) {
    kernels += 1;
    moved += (model_.gated_mlp ? 3 : 2) * inner;
  }
  const auto n = static_cast<double>(rows);
  const double ends = stage_ == 0 ? 2 * hidden : 0;
  return MemoryBound(kernels * layers_ + (stage_ == 0 ? 1 : 0),
                     n * value * (layers_ * moved + ends));
}

Estimate StageOperations::Collectives(std::int64_t rows) const {
  const double bytes =
      static_cast<double>(rows) * model_.hidden * static_cast<double>(ActivationByteSize(model_));
  Estimate sum;
  if (parallelism_.tensor > 1) {
    const double count = 2.0 * layers_ + (stage_ == 0 ? 1 : 0);
    sum = count * collective_(Collective::kAllReduce, parallelism_.tensor, bytes);
  }
  if (stage_ < parallelism_.pipeline - 1) {
    sum = sum + collective_(Collective::kSend, 2, bytes / parallelism_.tensor);
  }
  return sum;
}

Estimate StageOperations::Head(std::int64_t logits) const {
  const std::int64_t share = RoundedShare(model_.vocab, parallelism_);
  Estimate sum = Product(*head_product_, logits);
  if (parallelism_.tensor > 1) {
    const double bytes = static_cast<double>(logits * share * ActivationByteSize(model_));
    sum = sum + collective_(Collective::kAllGather, parallelism_.tensor, bytes);
  }
  return sum;
}

// Logits are widened to fp32 (read, write) and read for a maximum.
Estimate StageOperations::Sampling(std::int64_t logits) const {
  const double moved =
      static_cast<double>(model_.vocab) * (static_cast<double>(ActivationByteSize(model_)) + 12);
  constexpr double kKernels = 6;
  return MemoryBound(kKernels, static_cast<double>(logits) * moved);
}

StepLoad StageOperations::Windowed(const StepLoad& load) const {
  const double window = model_.sliding_window;
  StepLoad seen = load;
  ContextAttention& chunks = seen.chunks;
  chunks.pairs = std::min(chunks.pairs, chunks.tokens * window);
  chunks.context_tokens = std::min(chunks.context_tokens, chunks.tokens + chunks.chunks * window);
  GenerationAttention& decodes = seen.decodes;
  decodes.context_tokens = std::min(decodes.context_tokens, decodes.requests * window);
  decodes.context_tokens_max = std::min(decodes.context_tokens_max, window);
  return seen;
}

StageOperations::Attention StageOperations::AttentionOf(const StepLoad& load) const {
  const auto of = [&](const StepLoad& seen, double layers) {
    Attention attention;
    if (seen.chunks.chunks == 0) {
      attention.decodes = layers * attention_(seen.decodes);
      return attention;
    }
    attention.chunks = layers * attention_(seen.chunks);
    if (seen.decodes.requests > 0) {
      attention.decodes = Beyond(layers * attention_(seen.chunks, seen.decodes), attention.chunks);
    }
    return attention;
  };
  const double share = static_cast<double>(model_.windowed_layers) / model_.layers;
  if (model_.sliding_window == 0 || share == 0) return of(load, layers_);
  const Attention near = of(Windowed(load), share * layers_);
  const Attention all = of(load, (1 - share) * layers_);
  return {near.chunks + all.chunks, near.decodes + all.decodes};
}

}  // namespace twin::sim
