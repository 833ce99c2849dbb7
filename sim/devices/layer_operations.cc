#include "sim/devices/layer_operations.h"

#include <algorithm>
#include <cmath>

#include "core/layer_work.h"

namespace twin::sim {
namespace {

// Times add; errors are independent.
TimeEstimate Independent(const TimeEstimate& a, const TimeEstimate& b) {
  const double seconds = a.seconds + b.seconds;
  if (seconds == 0) return {};
  return {seconds, std::hypot(a.seconds * a.log_sd, b.seconds * b.log_sd) / seconds,
          std::hypot(a.seconds * a.lasting_sd, b.seconds * b.lasting_sd) / seconds};
}

// The time of `all` without that of `part`, which it contains.
TimeEstimate SubtractEstimate(const TimeEstimate& all, const TimeEstimate& part) {
  return {std::max(0.0, all.seconds - part.seconds), all.log_sd, all.lasting_sd};
}

// Devices without arithmetic of 4 bits widen such weights to 16 bits; those that have it take
// inputs of 8 bits beside mxfp4. vLLM's measured products with scales of blocks are launch times of
// eager calls (aiconfigurator's tables of vLLM 0.24.0 have no product below 55 us): those with one
// scale take their place.
GemmFormat FormatOn(const LayerContext& context, DType stored) {
  const GemmFormat format = FormatOf(stored);
  const bool has_fp4 = context.hardware.peak_fp4_flops > 0;
  if (format == GemmFormat::kFp4 && !has_fp4) return GemmFormat::kInt4;
  if (format == GemmFormat::kMxfp4 && has_fp4) return GemmFormat::kMxfp4Fp8;
  const bool vllm = context.choices.library == KernelLibrary::kVllm;
  return format == GemmFormat::kFp8Block && vllm ? GemmFormat::kFp8 : format;
}

// vLLM has two kernels for experts in fp8. Servers of such checkpoints run the block-wise one; that
// of the tables `fp8` belongs to checkpoints of NVIDIA's ModelOpt and takes up to 3.3 times as long
// as bf16 on Hopper (aiconfigurator's moe_vllm 0.24.0).
GemmFormat FormatOfExperts(GemmFormat stored, const MoeProfile& profile) {
  const bool blocks =
      std::ranges::find(profile.fits, GemmFormat::kFp8Block, &MoeFit::format) != profile.fits.end();
  return stored == GemmFormat::kFp8 && blocks ? GemmFormat::kFp8Block : stored;
}

// The experts of one rank, if the device has measurements of their format.
std::optional<ExpertsModel> MeasuredExperts(const LayerContext& context, const LayerSpec& layer,
                                            bool whole_experts) {
  const MoeSpec& moe = layer.moe;
  if (moe.experts == 0 || context.device.operations.tables.empty()) return std::nullopt;
  const ModelSpec& model = context.model;
  const double ranks = context.parallelism.tensor;
  const ExpertSizes sizes{.hidden = static_cast<double>(moe.latent > 0 ? moe.latent : model.hidden),
                          .intermediate = static_cast<double>(moe.expert_intermediate),
                          .experts_per_token = static_cast<double>(moe.experts_per_token),
                          .experts = static_cast<double>(moe.experts),
                          .tp_ranks = whole_experts ? 1 : ranks,
                          .ep_ranks = whole_experts ? ranks : 1};
  // Experts of vLLM with scales of blocks were measured well.
  const DType stored = FormatOfPart(model, LayerPart::kExperts);
  const bool blocks = stored == DType::kFp8Block || stored == DType::kFp8;
  const GemmFormat format = blocks ? GemmFormat::kFp8Block : FormatOn(context, stored);
  const KernelLibrary library = context.choices.library;
  // Closed forms of vLLM's own kernels (MoeModel) go before tables of other libraries.
  const bool has_fit = std::ranges::find(context.device.moe.fits, format, &MoeFit::format) !=
                       context.device.moe.fits.end();
  if (library == KernelLibrary::kVllm && has_fit &&
      !ExpertsModel::HasTables(library, context.device.operations)) {
    return std::nullopt;
  }
  ExpertsModel experts(context.hardware, sizes, format, library, context.device.operations,
                       context.choices.experts_kernel);
  if (!experts.measured()) return std::nullopt;
  return experts;
}

// The experts of one rank by MoeModel, for devices without measurements of their format.
std::optional<MoeModel> ExpertsOf(const LayerContext& context, const LayerSpec& layer,
                                  bool whole_experts) {
  const MoeSpec& moe = layer.moe;
  if (moe.experts == 0) return std::nullopt;
  const ModelSpec& model = context.model;
  const std::int32_t ranks = context.parallelism.tensor;
  const GemmFormat stored = FormatOn(context, FormatOfPart(model, LayerPart::kExperts));
  MoeShape shape{.hidden = moe.latent > 0 ? moe.latent : model.hidden,
                 .intermediate = moe.expert_intermediate / ranks,
                 .experts = moe.experts,
                 .experts_per_token = moe.experts_per_token,
                 .format = FormatOfExperts(stored, context.device.moe)};
  if (whole_experts) {
    shape.intermediate = moe.expert_intermediate;
    shape.expert_ranks = ranks;
  }
  return MoeModel(context.hardware, shape, context.device.moe);
}

AttentionHeads HeadsOf(const LayerContext& context, const LayerSpec& layer, std::int32_t window) {
  return {.query_heads = layer.query_heads / context.parallelism.tensor,
          .kv_heads = KvHeadsPerRank(layer, context.parallelism),
          .head_dim = layer.head_dim,
          .kv_dtype = context.model.kv_dtype,
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

// TensorRT-LLM's products of narrow formats take the time between theirs and that of 16 bits.
ProductCurve CurveOf(const LayerContext& context, const LayerProduct& product) {
  const GemmModel& gemm = context.gemm;
  const std::int64_t n = product.outputs;
  const std::int64_t k = product.inputs;
  const GemmFormat format = FormatOn(context, FormatOfPart(context.model, product.part));
  const bool is_narrow = format == GemmFormat::kFp8 || format == GemmFormat::kFp4;
  if (!is_narrow || context.choices.library != KernelLibrary::kTrtllm) {
    return ProductCurve(gemm.Curve(n, k, format));
  }
  const DType stored = format == GemmFormat::kFp8 ? DType::kFp8 : DType::kNvfp4;
  const double share = BytesPerWeight(stored) / BytesPerWeight(DType::kBf16);
  return {gemm.Curve(n, k, format), gemm.Curve(n, k, GemmFormat::kBf16), share};
}

// The products that a layer runs for every row: all but its experts', and those that make keys and
// values of latent vectors for chunks of prompts alone.
std::vector<ProductCurve> CurvesOf(const LayerContext& context, const LayerSpec& layer) {
  std::vector<ProductCurve> curves;
  for (const LayerProduct& product : LayerProducts(context.model, layer, context.parallelism)) {
    if (product.part == LayerPart::kExperts || product.role == ProductRole::kLatentHeads) continue;
    curves.push_back(CurveOf(context, product));
  }
  return curves;
}

RecurrentShape RecurrentShapeOf(const RecurrentSpec& recurrent, const Parallelism& parallelism) {
  return {.kind = recurrent.kind,
          .key_heads = std::max(1, recurrent.key_heads / parallelism.tensor),
          .key_dim = recurrent.key_dim,
          .value_heads = recurrent.value_heads / parallelism.tensor,
          .value_dim = recurrent.value_dim};
}

std::int64_t QueryWidth(const LayerSpec& layer, std::int64_t tensor) {
  return std::int64_t{layer.query_heads} / tensor * layer.head_dim;
}

// One kind of attention over the chunks and decodes of a step, of one layer times `layers`.
template <bool kSpread>
LayerOperations::Attention Attend(const AttentionModel& model, const StepLoad& seen, double layers,
                                  AttentionModel::Batch& batch) {
  LayerOperations::Attention attention;
  if (seen.chunks.chunks == 0) {
    attention.decodes = layers * model.Predict<kSpread>(seen.decodes, batch);
    return attention;
  }
  const TimeEstimate alone = model.Predict<kSpread>(seen.chunks);
  attention.chunks = layers * alone;
  if (seen.decodes.requests > 0) {
    const TimeEstimate both = model.Predict<kSpread>(seen.chunks, seen.decodes, alone, batch);
    attention.decodes = SubtractEstimate(layers * both, attention.chunks);
  }
  return attention;
}

}  // namespace

GemmFormat FormatOf(DType weights) {
  switch (weights) {
    case DType::kFp32:
      return GemmFormat::kFp32;
    case DType::kFp8:
      return GemmFormat::kFp8;
    case DType::kFp8Block:
      return GemmFormat::kFp8Block;
    case DType::kInt8:
      return GemmFormat::kInt8;
    case DType::kInt4:
    case DType::kInt4Group32:
      return GemmFormat::kInt4;
    case DType::kMxfp4:
      return GemmFormat::kMxfp4;
    case DType::kNvfp4:
      return GemmFormat::kFp4;
    case DType::kBf16:
    case DType::kFp16:
      break;
  }
  return GemmFormat::kBf16;
}

LayerOperations::LayerOperations(const LayerContext& context, const LayerSpec& layer,
                                 double windowed_share)
    : layer_(layer),
      tensor_(context.parallelism.tensor),
      hidden_(context.model.hidden),
      activation_bytes_(ActivationByteSize(context.model)),
      query_width_(QueryWidth(layer, tensor_)),
      kv_width_(std::int64_t{KvHeadsPerRank(layer, context.parallelism)} * layer.head_dim),
      reductions_(layer.reductions()),
      windowed_share_(windowed_share),
      products_(CurvesOf(context, layer)),
      measured_experts_(
          MeasuredExperts(context, layer, context.choices.expert_parallel && tensor_ > 1)),
      experts_(measured_experts_
                   ? std::nullopt
                   : ExpertsOf(context, layer, context.choices.expert_parallel && tensor_ > 1)) {
  if (layer.recurrent) {
    recurrent_.emplace(context.hardware, RecurrentShapeOf(*layer.recurrent, context.parallelism),
                       context.choices.library, context.device.operations);
    return;
  }
  if (layer.query_heads == 0) return;
  if (layer.latent) {
    SetLatent(context);
    return;
  }
  const std::int32_t window = std::max(layer.sliding_window, layer.chunk);
  if (window > 0 && windowed_share > 0) {
    windowed_attention_.emplace(context.hardware, HeadsOf(context, layer, window),
                                context.choices.library, context.device.attention);
  }
  attention_.emplace(context.hardware, HeadsOf(context, layer, 0), context.choices.library,
                     context.device.attention);
}

TimeEstimate LayerOperations::Gemms(std::int64_t rows) const {
  TimeEstimate layer;
  for (const ProductCurve& product : products_) layer = Independent(layer, product(rows));
  return layer;
}

// Bytes moved: a norm reads an update and the residual and writes the residual and its result.
TimeEstimate LayerOperations::Small(std::int64_t rows, const MemoryBoundModel& memory_bound) const {
  const auto row = static_cast<double>(rows) * static_cast<double>(activation_bytes_);
  const auto time = [&](MemoryBoundKernel kernel, double numbers) {
    return memory_bound(kernel, row * numbers);
  };
  const auto hidden = static_cast<double>(hidden_);
  const double query = static_cast<double>(query_width_);
  const double kv = 2 * static_cast<double>(kv_width_);
  const std::int64_t mlp =
      layer_.moe.experts == 0 ? layer_.intermediate : layer_.moe.shared_intermediate;
  const double inner = static_cast<double>(mlp) / static_cast<double>(tensor_);
  TimeEstimate layer = layer_.norms_per_layer * time(MemoryBoundKernel::kNorm, 4 * hidden);
  if (layer_.latent) {
    const double cached = layer_.latent->kv_rank + layer_.latent->rope_dim;
    layer = layer + time(MemoryBoundKernel::kNorm, 2 * (layer_.latent->query_rank + cached));
    layer = layer + time(MemoryBoundKernel::kRotary, 2 * query + cached);
    layer = layer + time(MemoryBoundKernel::kRotary, 2 * cached);
  } else if (layer_.query_heads > 0) {
    layer = layer + time(MemoryBoundKernel::kRotary, 2 * query + kv);
    // Writing to the cache moves the heads of keys and values, as rotary positions do.
    layer = layer + time(MemoryBoundKernel::kRotary, 2 * kv);
    if (layer_.qk_norm || layer_.full_qk_norm) {
      layer = layer + time(MemoryBoundKernel::kHeadNorm, 2 * query + kv);
    }
  } else if (layer_.recurrent) {
    const RecurrentSpec& recurrent = *layer_.recurrent;
    const double values =
        static_cast<double>(recurrent.value_heads / tensor_) * recurrent.value_dim;
    layer = layer + time(MemoryBoundKernel::kNorm, 3 * values);
    if (recurrent.kind == RecurrentKind::kGatedDelta) {
      // The joint product is taken apart, and gates are made from the small one.
      const auto ranks = static_cast<double>(tensor_);
      const double keys = recurrent.key_heads / ranks * recurrent.key_dim;
      layer = layer + time(MemoryBoundKernel::kActivation, 4 * (keys + values));
      layer = layer + time(MemoryBoundKernel::kActivation, 4 * recurrent.value_heads / ranks);
    }
  }
  if (layer_.moe.experts > 0 && layer_.moe.shared_intermediate > 0) {
    // The shared experts' output is added to that of the others.
    layer = layer + time(MemoryBoundKernel::kActivation, 3 * hidden);
  }
  if (!layer_.has_mlp()) return layer;
  return layer + time(MemoryBoundKernel::kActivation, (layer_.gated_mlp ? 3 : 2) * inner);
}

void LayerOperations::SetLatent(const LayerContext& context) {
  const LatentSpec& latent = *layer_.latent;
  const auto heads = static_cast<std::int32_t>(layer_.query_heads / tensor_);
  const std::vector<LayerProduct> products =
      LayerProducts(context.model, layer_, context.parallelism);
  const auto to_heads = std::ranges::find(products, ProductRole::kLatentHeads, &LayerProduct::role);
  const GemmFormat format = FormatOn(context, FormatOfPart(context.model, to_heads->part));
  latent_product_.emplace(context.gemm.Curve(to_heads->outputs, to_heads->inputs, format));
  const LatentSizes sizes{.hidden = static_cast<double>(hidden_),
                          .query_rank = static_cast<double>(latent.query_rank),
                          .kv_rank = static_cast<double>(latent.kv_rank),
                          .rope = static_cast<double>(latent.rope_dim),
                          .nope = static_cast<double>(latent.nope_dim),
                          .value = static_cast<double>(latent.value_dim)};
  const DType cache = context.model.kv_dtype;
  latent_.emplace(context.hardware,
                  LatentShape{.sizes = sizes, .heads = heads, .cache_dtype = cache},
                  context.choices.library, context.device.operations);
  if (latent.index_heads == 0) return;
  sparse_.emplace(context.hardware,
                  SparseShape{.sizes = sizes,
                              .heads = heads,
                              .cache_dtype = cache,
                              .index_heads = latent.index_heads,
                              .index_dim = latent.index_dim,
                              .chosen = latent.index_keys},
                  context.choices.library, context.device.operations);
}

// Keys and values of all heads are made from the latent vectors, and attended to as those of plain
// attention; with an index, chosen latent vectors themselves.
TimeEstimate LayerOperations::LatentChunks(const ContextAttention& chunks) const {
  if (chunks.chunks == 0) return {};
  if (sparse_) {
    const TimeEstimate attention = sparse_->Attention(chunks);
    return layer_.latent->reuses_index ? attention : sparse_->Index(chunks) + attention;
  }
  const auto rows = std::max<std::int64_t>(1, std::llround(chunks.context_tokens));
  return (*latent_product_)(rows) + (*latent_)(chunks);
}

// Each head's query attends to the latent vectors themselves, which all heads read together.
TimeEstimate LayerOperations::LatentDecodes(const GenerationAttention& decodes) const {
  if (decodes.requests == 0) return {};
  const TimeEstimate products = latent_->AbsorbedProducts(decodes.requests);
  if (!sparse_) return products + (*latent_)(decodes);
  const TimeEstimate attention = products + sparse_->Attention(decodes);
  return layer_.latent->reuses_index ? attention : sparse_->Index(decodes) + attention;
}

template <bool kSpread>
LayerOperations::Attention LayerOperations::AttentionOf(const StepLoad& load, double layers,
                                                        Batches& batches) const {
  if (layer_.recurrent) {
    return {layers * recurrent_->Context(load.chunks.chunks, load.chunks.tokens),
            layers * recurrent_->Generation(load.decodes.requests)};
  }
  if (layer_.latent) {
    return {layers * LatentChunks(load.chunks), layers * LatentDecodes(load.decodes)};
  }
  if (!attention_) return {};
  if (!windowed_attention_) return Attend<kSpread>(*attention_, load, layers, batches.all);
  const double window = std::max(layer_.sliding_window, layer_.chunk);
  const Attention near = Attend<kSpread>(*windowed_attention_, Windowed(load, window),
                                         windowed_share_ * layers, batches.near);
  if (windowed_share_ == 1) return near;
  const Attention all =
      Attend<kSpread>(*attention_, load, (1 - windowed_share_) * layers, batches.all);
  return {near.chunks + all.chunks, near.decodes + all.decodes};
}

template LayerOperations::Attention LayerOperations::AttentionOf<true>(const StepLoad&, double,
                                                                       Batches&) const;
template LayerOperations::Attention LayerOperations::AttentionOf<false>(const StepLoad&, double,
                                                                        Batches&) const;

}  // namespace twin::sim
