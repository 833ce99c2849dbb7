#include "sim/devices/stage_operations.h"

#include <algorithm>
#include <cmath>

#include "sim/devices/step_profile.h"

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

GemmFormat FormatOf(DType weights) {
  switch (weights) {
    case DType::kFp32:
      return GemmFormat::kFp32;
    case DType::kFp8:
      return GemmFormat::kFp8;
    case DType::kInt8:
      return GemmFormat::kInt8;
    case DType::kInt4:
      return GemmFormat::kInt4;
    default:
      return GemmFormat::kBf16;
  }
}

// Times add; errors of one class are taken as equal in sign.
Estimate operator+(const Estimate& a, const Estimate& b) {
  const double seconds = a.seconds + b.seconds;
  if (seconds == 0) return {};
  return {seconds, (a.seconds * a.log_sd + b.seconds * b.log_sd) / seconds,
          (a.seconds * a.lasting_sd + b.seconds * b.lasting_sd) / seconds};
}

// Times add; errors are independent.
Estimate Independent(const Estimate& a, const Estimate& b) {
  const double seconds = a.seconds + b.seconds;
  if (seconds == 0) return {};
  return {seconds, std::hypot(a.seconds * a.log_sd, b.seconds * b.log_sd) / seconds,
          std::hypot(a.seconds * a.lasting_sd, b.seconds * b.lasting_sd) / seconds};
}

Estimate operator*(double count, const Estimate& one) {
  return {count * one.seconds, one.log_sd, one.lasting_sd};
}

// The time of `all` without that of `part`, which it contains.
Estimate SubtractEstimate(const Estimate& all, const Estimate& part) {
  return {std::max(0.0, all.seconds - part.seconds), all.log_sd, all.lasting_sd};
}

// vLLM has two kernels for experts in fp8. Servers of such checkpoints run the block-wise one; that
// of the tables `fp8` belongs to checkpoints of NVIDIA's ModelOpt and takes up to 3.3 times as long
// as bf16 on Hopper (aiconfigurator's moe_vllm 0.24.0).
GemmFormat FormatOfExperts(GemmFormat layers, const MoeProfile& profile) {
  const bool blocks =
      std::ranges::find(profile.fits, GemmFormat::kFp8Block, &MoeFit::format) != profile.fits.end();
  return layers == GemmFormat::kFp8 && blocks ? GemmFormat::kFp8Block : layers;
}

// The experts of one rank. With whole experts, a rank computes its share of the (token, expert)
// pairs, which Experts() counts.
std::optional<MoeModel> ExpertsOf(const ModelSpec& model, const HardwareSpec& hardware,
                                  const Parallelism& parallelism, GemmFormat format,
                                  bool whole_experts, const MoeProfile& profile) {
  const MoeSpec& moe = model.moe;
  if (moe.experts == 0) return std::nullopt;
  MoeShape shape{.hidden = model.hidden,
                 .intermediate = moe.expert_intermediate / parallelism.tensor,
                 .experts = moe.experts,
                 .experts_per_token = moe.experts_per_token,
                 .format = FormatOfExperts(format, profile)};
  if (whole_experts) {
    shape.intermediate = moe.expert_intermediate;
    shape.experts = (moe.experts + parallelism.tensor - 1) / parallelism.tensor;
    shape.experts_per_token = 1;
  }
  return MoeModel(hardware, shape, profile);
}

// The (token, expert) pairs of the rank that has most of them, if each of `pairs` falls on one of
// `ranks` at random: the mean and sqrt(2 ln ranks) standard deviations.
std::int64_t MostPairs(double pairs, double ranks) {
  const double mean = pairs / ranks;
  const double deviation = std::sqrt(mean * (1 - 1 / ranks));
  return std::llround(std::min(pairs, mean + std::sqrt(2 * std::log(ranks)) * deviation));
}

AttentionHeads HeadsOf(const ModelSpec& model, const Parallelism& parallelism,
                       std::int32_t window) {
  return {.query_heads = model.query_heads / parallelism.tensor,
          .kv_heads = KvHeadsPerRank(model, parallelism),
          .head_dim = model.head_dim,
          .kv_dtype = model.kv_dtype,
          .window = window};
}

// The keys that queries with a window read. Pairs stay as they are, which is how attention models
// take them.
StepLoad Windowed(const StepLoad& load, double window) {
  StepLoad seen = load;
  ContextAttention& chunks = seen.chunks;
  chunks.context_tokens = std::min(chunks.context_tokens, chunks.tokens + chunks.chunks * window);
  GenerationAttention& decodes = seen.decodes;
  decodes.context_tokens = std::min(decodes.context_tokens, decodes.requests * window);
  decodes.context_tokens_max = std::min(decodes.context_tokens_max, window);
  return seen;
}

// The dense products of one layer on one rank.
std::vector<ProductCurve> LayerProducts(const GemmModel& gemm, const ModelSpec& model,
                                        const Parallelism& parallelism, GemmFormat format) {
  const std::int64_t hidden = model.hidden;
  const std::int64_t query = std::int64_t{model.query_heads} / parallelism.tensor * model.head_dim;
  const std::int64_t kv = std::int64_t{KvHeadsPerRank(model, parallelism)} * model.head_dim;
  std::vector<ProductCurve> products;
  const auto add = [&](std::int64_t n, std::int64_t k) {
    products.emplace_back(gemm.Curve(n, k, format));
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

StageOperations::StageOperations(const ModelSpec& model, const HardwareSpec& hardware,
                                 const Parallelism& parallelism, std::int32_t stage,
                                 const DeviceProfile& device, const OperationChoices& choices)
    : model_(model),
      hardware_(hardware),
      parallelism_(parallelism),
      stage_(stage),
      layers_(StageLayers(model, parallelism, stage)),
      query_width_(std::int64_t{model.query_heads} / parallelism.tensor * model.head_dim),
      kv_width_(std::int64_t{KvHeadsPerRank(model, parallelism)} * model.head_dim),
      format_(FormatOf(model.weight_dtype)),
      expert_parallel_(choices.expert_parallel && parallelism.tensor > 1),
      experts_(ExpertsOf(model, hardware, parallelism, format_, expert_parallel_, device.moe)),
      attention_(hardware, HeadsOf(model, parallelism, 0), choices.library, device.attention),
      collective_(hardware, choices.library, device.collectives),
      memory_bound_(hardware, device.attention.memory_bound),
      measured_calls_(kRememberedRows) {
  const GemmModel gemm(hardware, device.gemm, choices.library);
  if (model.sliding_window > 0 && model.windowed_layers > 0) {
    windowed_attention_.emplace(hardware, HeadsOf(model, parallelism, model.sliding_window),
                                choices.library, device.attention);
  }
  layer_products_ = LayerProducts(gemm, model, parallelism, format_);
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

double StageOperations::MeasuredHeat(std::int64_t rows, const HeatMemory& memory) const {
  const BackToBackCalls calls = layer_products_.front().calls();
  if (calls.timed == 0) return 0;
  const double call = measured_calls_.At(rows, [&](std::int64_t n) { return MeasuredCall(n); });
  return memory.Mean(memory.After(0, 1, calls.untimed * call), 1, calls.timed * call);
}

double StageOperations::MeasuredCall(std::int64_t rows) const {
  double seconds = 0;
  double weighted = 0;
  for (const ProductCurve& product : layer_products_) {
    const double one = product(rows).seconds;
    seconds += one;
    weighted += one * product.MeasuredCall(rows);
  }
  return weighted / seconds;
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

ByOperation<Estimate> StageOperations::Estimates(const StepLoad& load) const {
  ByOperation<Estimate> all{};
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    const auto operation = static_cast<OperationClass>(i);
    const std::int64_t rows = OnLogits(operation) ? load.logits : load.rows;
    const RowsModel model = ModelOf(operation);
    if (model == nullptr || rows == 0) continue;
    all[i] = remembered_[i].At(rows, [&](std::int64_t n) { return (this->*model)(n); });
  }
  Batches batches;
  const Attention attention = AttentionOf<true>(load, batches);
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
  const Attention attention = AttentionOf<false>(load, batches);
  seconds[At(OperationClass::kPrefillAttention)] = attention.chunks.seconds;
  seconds[At(OperationClass::kDecodeAttention)] = attention.decodes.seconds;
  return seconds;
}

double StageOperations::DecodeAttentionSeconds(const StepLoad& load, Batches& batches) const {
  return AttentionOf<false>(load, batches).decodes.seconds;
}

Estimate StageOperations::LayerGemms(std::int64_t rows) const {
  Estimate layer;
  for (const ProductCurve& product : layer_products_) layer = Independent(layer, product(rows));
  return layers_ * layer;
}

Estimate StageOperations::Experts(std::int64_t rows) const {
  if (!expert_parallel_) return layers_ * (*experts_)(rows);
  const double pairs = static_cast<double>(rows) * model_.moe.experts_per_token;
  return layers_ * (*experts_)(std::max<std::int64_t>(1, MostPairs(pairs, parallelism_.tensor)));
}

// Bytes moved: a norm reads an update and the residual and writes the residual and its result.
Estimate StageOperations::Small(std::int64_t rows) const {
  const auto row = static_cast<double>(rows) * static_cast<double>(ActivationByteSize(model_));
  const auto time = [&](MemoryBoundKernel kernel, double numbers) {
    return memory_bound_(kernel, row * numbers);
  };
  const auto hidden = static_cast<double>(model_.hidden);
  const double query = static_cast<double>(query_width_);
  const double kv = 2 * static_cast<double>(kv_width_);
  const std::int64_t mlp =
      model_.moe.experts == 0 ? model_.intermediate : model_.moe.shared_intermediate;
  const double inner = static_cast<double>(mlp) / parallelism_.tensor;
  Estimate layer = model_.norms_per_layer * time(MemoryBoundKernel::kNorm, 4 * hidden);
  layer = layer + time(MemoryBoundKernel::kRotary, 2 * query + kv);
  // Writing to the cache moves the heads of keys and values, as rotary positions do.
  layer = layer + time(MemoryBoundKernel::kRotary, 2 * kv);
  if (model_.qk_norm) layer = layer + time(MemoryBoundKernel::kHeadNorm, 2 * query + kv);
  layer = layer + time(MemoryBoundKernel::kActivation, (model_.gated_mlp ? 3 : 2) * inner);
  const Estimate all = layers_ * layer;
  return stage_ == 0 ? all + time(MemoryBoundKernel::kEmbedding, 2 * hidden) : all;
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
  Estimate sum = (*head_product_)(logits);
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
  constexpr MemoryBoundKernel kKernel = MemoryBoundKernel::kSampling;
  if (memory_bound_.Measured(kKernel)) {
    return memory_bound_(kKernel, {.vocabulary = static_cast<double>(model_.vocab)},
                         static_cast<double>(logits));
  }
  constexpr double kKernels = 6;
  return kKernels * memory_bound_(kKernel, static_cast<double>(logits) * moved / kKernels);
}

template <bool kSpread>
StageOperations::Attention StageOperations::AttentionOf(const StepLoad& load,
                                                        Batches& batches) const {
  const auto of = [](const AttentionModel& model, const StepLoad& seen, double layers,
                     AttentionModel::Batch& batch) {
    Attention attention;
    if (seen.chunks.chunks == 0) {
      attention.decodes = layers * model.Predict<kSpread>(seen.decodes, batch);
      return attention;
    }
    const Estimate alone = model.Predict<kSpread>(seen.chunks);
    attention.chunks = layers * alone;
    if (seen.decodes.requests > 0) {
      const Estimate both = model.Predict<kSpread>(seen.chunks, seen.decodes, alone, batch);
      attention.decodes = SubtractEstimate(layers * both, attention.chunks);
    }
    return attention;
  };
  if (!windowed_attention_) return of(attention_, load, layers_, batches.all);
  const double share = static_cast<double>(model_.windowed_layers) / model_.layers;
  const Attention near = of(*windowed_attention_, Windowed(load, model_.sliding_window),
                            share * layers_, batches.near);
  if (share == 1) return near;
  const Attention all = of(attention_, load, (1 - share) * layers_, batches.all);
  return {near.chunks + all.chunks, near.decodes + all.decodes};
}

}  // namespace twin::sim
