#include "exec/cuda/cuda_model.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "core/check.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/cuda_operations.h"
#include "exec/cuda/decode_buckets.h"
#include "exec/cuda/upload.h"
#include "exec/model/rope.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/expert_gemm.h"
#include "kernels/cuda/quantize.h"
#include "kernels/cuda/routing.h"
#include "kernels/cuda/widening_gemm.h"
#include "kernels/rope.h"

namespace twin::exec::cuda {
namespace {

namespace on = kernels::cuda;

MixtureWidths WidthsOf(const MoeSpec& moe) {
  return {.experts = moe.experts,
          .experts_per_row = moe.experts_per_token,
          .inner = 2 * std::int64_t{moe.expert_intermediate},
          .activated = moe.expert_intermediate};
}

// `quantizes`: rows are quantized before products.
ActivationWidths WidthsOf(const ModelConfig& share, const GridPlace& place, bool quantizes) {
  const ModelSpec& shape = share.shape;
  const std::int64_t mlp =
      shape.moe.experts > 0 ? shape.moe.shared_intermediate : shape.intermediate;
  const std::int64_t ranks = place.grid.tensor;
  const std::int64_t queries = std::int64_t{shape.query_heads} * shape.head_dim;
  const bool narrow = shape.embedding_width > 0 && shape.embedding_width != shape.hidden;
  return {.hidden = shape.hidden,
          .qkv = queries + 2 * std::int64_t{shape.kv_heads} * shape.head_dim,
          .queries = queries,
          .inner = (shape.gated_mlp ? 2 : 1) * mlp,
          .activated = mlp,
          .embedding = narrow ? shape.embedding_width : 0,
          .logits = shape.vocab,
          .own_logits = ranks > 1 ? (shape.vocab + ranks - 1) / ranks : 0,
          .ranks = ranks,
          .quantized = quantizes ? std::max({std::int64_t{shape.hidden}, queries, mlp}) : 0,
          .mixture = WidthsOf(shape.moe)};
}

DeviceBuffer UploadRope(const ModelConfig& config, std::int32_t positions, StreamView stream) {
  if (config.shape.learned_positions > 0) return {};
  const kernels::RopeTable table(InverseFrequencies(config.rope, config.rotary_dimensions),
                                 positions, config.rope.magnitude);
  const auto count = static_cast<std::size_t>(table.positions() * 2 * table.pairs());
  DeviceBuffer buffer(static_cast<std::int64_t>(count * sizeof(float)),
                      "device memory for rotary positions");
  Upload(stream, std::int64_t{1} << 22)
      .Send(std::as_bytes(std::span(table.At(0), count)), buffer.data());
  return buffer;
}

// The largest step has room for the padding of the largest bucket.
CudaModelOptions WithPaddedDecodes(CudaModelOptions options) {
  StepSizes& largest = options.largest_step;
  if (!options.graphs || largest.sequences > largest.tokens) return options;
  const std::int64_t bucket = DecodeBucketOf(largest.sequences);
  largest.sequences = std::max(largest.sequences, bucket);
  largest.tokens = std::max(largest.tokens, bucket);
  return options;
}

std::unique_ptr<DeviceCommunicator> Connected(Communicator* host) {
  return host == nullptr ? nullptr : ConnectDevices(*host);
}

// The matrices that every token of a batch is multiplied with. A model without a part has an empty
// one.
std::array<const DeviceLinear*, 6> ProductsOf(const DeviceLayer& layer) {
  return {&layer.qkv, &layer.output, &layer.up, &layer.down, &layer.router, &layer.shared_gate};
}

}  // namespace

CudaModel::CudaModel(const CudaModelOptions& options, std::unique_ptr<Device> device,
                     DeviceWeights weights)
    : options_(WithPaddedDecodes(options)),
      share_(ShareOf(options.config, options.links.place)),
      device_(std::move(device)),
      tensor_(Connected(options.links.tensor)),
      stages_(Connected(options.links.stages)),
      weights_(std::move(weights)),
      rope_(UploadRope(options.config, options.positions, device_->compute())),
      activations_(WidthsOf(share_, options.links.place,
                            options.format == DType::kFp8 && device_->multiplies_fp8())),
      widened_(WidestBytes(), "device memory for widened weights") {
  CHECK(options.positions >= 1 && options.positions <= options.config.shape.max_position);
  CHECK(weights_.layers.size() == static_cast<std::size_t>(share_.shape.layers));
}

CudaModel::~CudaModel() { AwaitStreamQuietly(device_->compute()); }

kernels::cuda::AttentionShape CudaModel::AttentionShapeOf(std::int64_t block_size) const {
  const std::set<std::int64_t> windows(share_.layer_windows.begin(), share_.layer_windows.end());
  return {.heads = share_.shape.query_heads,
          .kv_heads = share_.shape.kv_heads,
          .head_dim = share_.shape.head_dim,
          .block_size = block_size,
          .dtype = kActivationFormat,
          .scale = share_.attention_scale,
          .logit_cap = share_.attention_cap,
          .windows = {windows.begin(), windows.end()}};
}

std::unique_ptr<kernels::cuda::PagedAttention> CudaModel::MakeAttention(
    std::int64_t block_size, const StepShape& room) const {
  const on::AttentionShape shape = AttentionShapeOf(block_size);
  on::AttentionChoice choice = ChoiceOf(shape);
  if (!decodes_are_fixed()) choice.measured = measured_decodes_;
  return std::make_unique<on::PagedAttention>(shape, choice, room.rows, room.sequences);
}

on::AttentionChoice CudaModel::ChoiceOf(const on::AttentionShape& shape) const {
  const std::int32_t capability = device_->compute_capability();
  if (options_.attention) return *options_.attention;
  return options_.model_options.attention_kernel
             ? on::AttentionWith(*options_.model_options.attention_kernel, shape, capability)
             : on::BestAttention(shape, capability);
}

bool CudaModel::decodes_are_fixed() const {
  return options_.attention.has_value() ||
         (options_.model_options.attention_kernel &&
          on::FixesDecodes(*options_.model_options.attention_kernel));
}

kernels::cuda::RopeAppendOptions CudaModel::RopeOptionsOf(const DeviceLayer& layer) const {
  on::RopeAppendOptions options{.heads = share_.shape.query_heads,
                                .kv_heads = share_.shape.kv_heads,
                                .bias = layer.qkv.bias(),
                                .query_gain = layer.query_norm.gain(),
                                .key_gain = layer.key_norm.gain(),
                                .epsilon = share_.norm_epsilon,
                                .rope_table = rope_.As<float>()};
  if (options.rope_table != nullptr) options.pairs = share_.rotary_dimensions / 2;
  return options;
}

void CudaModel::Activate(const DeviceLayer& layer, Matrix inner, Matrix activated) const {
  const auto activate = share_.shape.gated_mlp ? &on::ActivateGated : &on::Activate;
  activate(device_->compute(), share_.activation, inner, layer.up.bias(), activated);
}

bool CudaModel::capturable() const {
  return (tensor_ == nullptr || tensor_->capturable()) &&
         (stages_ == nullptr || stages_->capturable());
}

std::vector<std::uint32_t> CudaModel::decode_buckets() const {
  std::vector<std::uint32_t> captured;
  if (!options_.graphs || !capturable()) return captured;
  const StepSizes& largest = options_.largest_step;
  const std::int64_t most = std::min(largest.sequences, largest.tokens);
  for (const std::int64_t bucket : DecodeBuckets(most)) {
    if (bucket <= most && Wanted(bucket)) captured.push_back(static_cast<std::uint32_t>(bucket));
  }
  return captured;
}

bool CudaModel::Wanted(std::int64_t bucket) const {
  const std::vector<std::int64_t>& batches = options_.decode_batches;
  return batches.empty() || std::ranges::any_of(batches, [&](std::int64_t batch) {
           return DecodeBucketOf(batch) == bucket;
         });
}

void CudaModel::AwaitStep(const Event& moment) const {
  for (DeviceCommunicator* group : {tensor_.get(), stages_.get()}) {
    // Stages after the first wait without a limit while there is no work.
    const bool idles = group == stages_.get() && !options_.links.place.first_stage();
    if (group != nullptr) group->Await(moment, idles ? Patience::kUnbounded : Patience::kBounded);
  }
  moment.Await("a step");
}

std::vector<std::string> CudaModel::SlowParts() const {
  const on::AttentionShape shape = AttentionShapeOf(kUsualBlockSize);
  const std::int32_t capability = device_->compute_capability();
  std::vector<std::string> parts;
  if (ChoiceOf(shape).prefill == AttentionKernel::kGeneric) {
    const std::string why = on::WhyNotAttention(AttentionKernel::kFa2, shape, capability);
    parts.push_back("attention runs on the kernel for any shape, which is slower: " +
                    (why.empty() ? "attention \"generic\" is asked for" : why));
  }
  const MoeSpec& moe = share_.shape.moe;
  if (moe.experts > 0) {
    for (const std::int32_t width : {share_.shape.hidden, moe.expert_intermediate}) {
      if (width % on::kTensorCoreStep == 0) continue;
      parts.push_back(fmt::format(
          "experts are not multiplied on tensor cores, which is slower: their width {} is no "
          "multiple of {}",
          width, on::kTensorCoreStep));
    }
  }
  return parts;
}

bool CudaModel::Reserve(std::int64_t rows, std::int64_t logit_rows) {
  if (activations_.Holds(rows, logit_rows)) return false;
  AwaitStream(device_->compute(), "work on the device");
  return activations_.Reserve(rows, logit_rows);
}

kernels::cuda::DeviceNorm CudaModel::NormOf(const DeviceNormWeights& norm) const {
  return {.kind = share_.shape.norm,
          .gain = norm.gain(),
          .bias = norm.bias(),
          .epsilon = share_.norm_epsilon};
}

CudaModel::Matrix CudaModel::Forward(const DeviceBatch& batch, const kernels::KvCacheView& cache,
                                     kernels::cuda::PagedAttention& attention, LapEvents& laps) {
  const std::int64_t rows = batch.shape.rows;
  const std::int32_t stage = options_.links.place.stage;
  const Matrix residual = activations_.residual(rows);
  const std::int64_t bytes = rows * residual.stride * ByteSize(residual.dtype);
  if (options_.links.place.first_stage()) {
    Embed(batch, laps);
  } else {
    stages_->Receive(device_->compute(), residual.data, bytes, stage - 1);
    laps.Lap(device_->compute(), StepPart::kCommunication);
  }
  // Input of the first half layer.
  Matrix input =
      share_.norm_placement == NormPlacement::kBehindSum ? residual : activations_.normed(rows);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const DeviceLayer& layer = weights_.layers[i];
    Attend(batch, i, input, cache, attention, laps);
    input = ProjectHalf(activations_.attended(rows), layer.output,
                        {layer.attention_norm, layer.attention_post_norm, &layer.mlp_norm}, laps);
    const HalfNorms norms{layer.mlp_norm, layer.mlp_post_norm, NormAfter(i, batch)};
    input = layer.experts.empty()
                ? ProjectHalf(ComputeMlp(layer, input, laps), layer.down, norms, laps)
                : AddHalf(ComputeMixture(layer, input, laps), nullptr, norms, laps);
  }
  if (options_.links.place.last_stage()) return Logits(batch, input, laps);
  stages_->Send(device_->compute(), residual.data, bytes, stage + 1);
  laps.Lap(device_->compute(), StepPart::kCommunication);
  return {};
}

void CudaModel::Embed(const DeviceBatch& batch, LapEvents& laps) {
  const StreamView stream = device_->compute();
  const Matrix residual = activations_.residual(batch.shape.rows);
  const bool projects = !weights_.project_in.empty();
  CHECK(!projects || share_.embedding_scale == 1);
  const Matrix rows = projects ? activations_.narrow(batch.shape.rows) : residual;
  on::EmbedTokens(stream, weights_.embedding.matrix,
                  {.token_ids = batch.arrays.token_ids,
                   .carried = batch.sampled,
                   .first_token = VocabularyOf(share_.shape, options_.links.place).first,
                   .scale = share_.embedding_scale},
                  rows);
  Sum(rows, laps);
  if (projects) {
    laps.Lap(stream, StepPart::kOther);
    Multiply(rows, weights_.project_in, residual, laps);
  }
  if (!weights_.positions.empty()) {
    on::AddPositionRows(stream, weights_.positions.matrix, batch.arrays.positions,
                        share_.position_offset, residual);
  }
}

const DeviceNormWeights* CudaModel::NormAfter(std::size_t layer, const DeviceBatch& batch) const {
  if (layer + 1 < weights_.layers.size()) return &weights_.layers[layer + 1].attention_norm;
  const bool final_norm = options_.links.place.last_stage() && !weights_.final_norm.empty();
  return final_norm && batch.every_row_has_logits ? &weights_.final_norm : nullptr;
}

void CudaModel::Attend(const DeviceBatch& batch, std::size_t layer, Matrix input,
                       const kernels::KvCacheView& cache, kernels::cuda::PagedAttention& attention,
                       LapEvents& laps) {
  const StreamView stream = device_->compute();
  const std::int64_t rows = batch.shape.rows;
  const DeviceLayer& weights = weights_.layers[layer];
  if (layer == 0) {
    if (share_.norm_placement != NormPlacement::kBehindSum) {
      on::Normalize(stream, activations_.residual(rows), NormOf(weights.attention_norm), input);
    }
    laps.Lap(stream, StepPart::kOther);
  }
  const Matrix qkv = activations_.qkv(rows);
  Multiply(input, weights.qkv, qkv, laps);
  const auto cache_layer = static_cast<std::int64_t>(layer);
  on::RopeAppendOptions rope = RopeOptionsOf(weights);
  rope.keeps_keys = attention.ReadsKeysOfRows();
  on::RopeAppend(stream, qkv, batch.arrays.positions, batch.arrays.slots, rope, cache_layer, cache);
  laps.Lap(stream, StepPart::kOther);
  const Matrix attended = activations_.attended(rows);
  attention.Run(stream, qkv, cache, cache_layer, share_.layer_windows[layer], attended);
  laps.Lap(stream, StepPart::kAttention);
}

CudaModel::Matrix CudaModel::ComputeMlp(const DeviceLayer& layer, Matrix input, LapEvents& laps) {
  const StreamView stream = device_->compute();
  const Matrix inner = activations_.inner(input.rows);
  const Matrix activated = activations_.activated(input.rows);
  Multiply(input, layer.up, inner, laps);
  Activate(layer, inner, activated);
  laps.Lap(stream, StepPart::kOther);
  return activated;
}

CudaModel::Matrix CudaModel::ComputeMixture(const DeviceLayer& layer, Matrix input,
                                            LapEvents& laps) {
  const Matrix delta = activations_.normed(input.rows);
  MixExperts(layer, input, delta, [&](MixturePart part) {
    laps.Lap(device_->compute(), IsProduct(part) ? StepPart::kGemm : StepPart::kOther);
  });
  return delta;
}

void CudaModel::MixExperts(const DeviceLayer& layer, Matrix x, Matrix y, const MixtureLap& lap) {
  CHECK(layer.experts.size() == 1 && share_.shape.gated_mlp);
  const StreamView stream = device_->compute();
  const Matrix logits = activations_.router_logits(x.rows);
  Multiply(x, layer.router, logits);
  lap(MixturePart::kRouter);
  const on::RoutedPairs routed = activations_.routed(x.rows);
  on::RouteRows(stream, logits, share_.normalises_expert_weights, routed);
  lap(MixturePart::kRouting);
  const DeviceLinear& up = layer.experts.front().up;
  const DeviceLinear& down = layer.experts.front().down;
  const Matrix inner = activations_.expert_inner(x.rows);
  const Matrix activated = activations_.expert_activated(x.rows);
  const Matrix outputs = activations_.expert_outputs(x.rows);
  on::ExpertGemm(stream, x, up.matrix, routed, on::ExpertInput::kRows, inner);
  lap(MixturePart::kExpertUp);
  on::ActivateGated(stream, share_.activation, inner, nullptr, activated);
  lap(MixturePart::kActivation);
  on::ExpertGemm(stream, activated, down.matrix, routed, on::ExpertInput::kPlaces, outputs);
  lap(MixturePart::kExpertDown);
  on::SharedExpert shared;
  if (!layer.up.empty()) {
    shared = {x, layer.shared_gate.matrix, activations_.shared_output(x.rows)};
    const Matrix shared_inner = activations_.inner(x.rows);
    const Matrix shared_activated = activations_.activated(x.rows);
    Multiply(x, layer.up, shared_inner);
    lap(MixturePart::kSharedUp);
    Activate(layer, shared_inner, shared_activated);
    lap(MixturePart::kActivation);
    Multiply(shared_activated, layer.down, shared.output);
    lap(MixturePart::kSharedDown);
  }
  on::SumExperts(stream, outputs, routed, shared, y);
  lap(MixturePart::kRouting);
}

CudaModel::Matrix CudaModel::ProjectHalf(Matrix result, const DeviceLinear& projection,
                                         const HalfNorms& norms, LapEvents& laps) {
  const Matrix delta = activations_.normed(result.rows);
  Multiply(result, projection, delta, laps);
  return AddHalf(delta, projection.bias(), norms, laps);
}

CudaModel::Matrix CudaModel::AddHalf(Matrix delta, const float* bias, const HalfNorms& norms,
                                     LapEvents& laps) {
  const StreamView stream = device_->compute();
  const Matrix residual = activations_.residual(delta.rows);
  // Add the bias before the sum over ranks (only one rank has it) and before a norm of the sum.
  if (bias != nullptr && (tensor_ != nullptr || !norms.of_result.empty())) {
    on::AddBias(stream, std::exchange(bias, nullptr), delta);
  }
  Sum(delta, laps);
  if (!norms.of_result.empty()) on::Normalize(stream, delta, NormOf(norms.of_result), delta);
  const on::DeviceSummand summand{.delta = delta, .bias = bias, .scale = share_.residual_scale};
  Matrix output = delta;
  if (share_.norm_placement == NormPlacement::kBehindSum) {
    on::Add(stream, summand, residual);
    on::Normalize(stream, residual, NormOf(norms.own), residual);
    output = residual;
  } else if (norms.next != nullptr) {
    on::AddNormalize(stream, summand, NormOf(*norms.next), residual, delta);
  } else {
    on::Add(stream, summand, residual);
    output = residual;
  }
  laps.Lap(stream, StepPart::kOther);
  return output;
}

CudaModel::Matrix CudaModel::Logits(const DeviceBatch& batch, Matrix last, LapEvents& laps) {
  const StreamView stream = device_->compute();
  const std::int64_t rows = batch.shape.logit_rows;
  if (rows == 0) return {};
  Matrix input = last;
  if (!batch.every_row_has_logits) {
    // Only rows whose logits are wanted pass through the final norm and the head.
    input = activations_.normed(rows);
    on::GatherRows(stream, activations_.residual(batch.shape.rows), batch.arrays.logit_rows, input);
    if (!weights_.final_norm.empty()) {
      on::Normalize(stream, input, NormOf(weights_.final_norm), input);
    }
  } else if (!weights_.final_norm.empty() && share_.norm_placement == NormPlacement::kBehindSum) {
    input = activations_.normed(rows);
    on::Normalize(stream, last, NormOf(weights_.final_norm), input);
  }
  laps.Lap(stream, StepPart::kOther);
  if (!weights_.project_out.empty()) {
    const Matrix narrow = activations_.narrow(rows);
    Multiply(input, weights_.project_out, narrow, laps);
    input = narrow;
  }
  if (tensor_ != nullptr) return GatherLogits(input, laps);
  const Matrix logits = activations_.logits(rows);
  Multiply(input, weights_.head(), logits, laps);
  if (share_.logit_scale != 1 || share_.logit_cap > 0) {
    on::FinishLogits(stream, share_.logit_scale, share_.logit_cap, logits);
    laps.Lap(stream, StepPart::kOther);
  }
  return logits;
}

CudaModel::Matrix CudaModel::GatherLogits(Matrix head_input, LapEvents& laps) {
  const StreamView stream = device_->compute();
  const std::int64_t rows = head_input.rows;
  // Shares of the vocabulary differ by at most one token: all ranks send the largest size.
  const Matrix padded = activations_.own_logits(rows);
  Multiply(head_input, weights_.head(), padded.Columns(0, weights_.head().matrix.rows), laps);
  on::FinishLogits(stream, share_.logit_scale, share_.logit_cap,
                   padded.Columns(0, weights_.head().matrix.rows));
  laps.Lap(stream, StepPart::kOther);
  const std::int64_t share = rows * padded.stride;
  float* const gathered = activations_.gathered_logits();
  tensor_->AllGather(stream, padded.data, gathered,
                     share * static_cast<std::int64_t>(sizeof(float)));
  laps.Lap(stream, StepPart::kCommunication);
  const Matrix logits = activations_.logits(rows);
  GridPlace place = options_.links.place;
  for (place.tensor_rank = 0; place.tensor_rank < place.grid.tensor; ++place.tensor_rank) {
    const IndexRange tokens = VocabularyOf(share_.shape, place);
    const auto bytes = [](std::int64_t floats) {
      return static_cast<std::size_t>(floats) * sizeof(float);
    };
    CheckCuda(cudaMemcpy2DAsync(logits.As<float>() + tokens.first, bytes(logits.stride),
                                gathered + place.tensor_rank * share, bytes(padded.stride),
                                bytes(tokens.count), static_cast<std::size_t>(rows),
                                cudaMemcpyDeviceToDevice, stream.get()),
              "a copy of logits");
  }
  laps.Lap(stream, StepPart::kOther);
  return logits;
}

void CudaModel::Multiply(Matrix x, const DeviceLinear& linear, Matrix y, LapEvents& laps) {
  Multiply(x, linear, y);
  laps.Lap(device_->compute(), StepPart::kGemm);
}

bool CudaModel::Widens(const DeviceLinear& linear) const {
  const DType format = linear.matrix.dtype;
  return format == DType::kInt4 || (format == DType::kFp8 && !device_->multiplies_fp8());
}

std::int64_t CudaModel::WidestBytes() const {
  std::int64_t most = 0;
  for (const DeviceLayer& layer : weights_.layers) {
    for (const DeviceLinear* linear : {&layer.qkv, &layer.output, &layer.up, &layer.down}) {
      if (!Widens(*linear)) continue;
      most = std::max(
          most, linear->matrix.rows * AlignedStride(linear->matrix.columns, kActivationFormat));
    }
  }
  return most * ByteSize(kActivationFormat);
}

CudaModel::Matrix CudaModel::Widened(const DeviceLinear& linear) const {
  const Matrix& matrix = linear.matrix;
  return {widened_.data(), kActivationFormat, matrix.rows, matrix.columns,
          AlignedStride(matrix.columns, kActivationFormat)};
}

void CudaModel::MultiplyWidened(Matrix x, const DeviceLinear& linear, Matrix y) {
  const StreamView stream = device_->compute();
  const auto multiply = [&](const auto& weights) {
    if (on::TakesWideningGemm(x, weights, y)) return on::WideningGemm(stream, x, weights, y);
    const Matrix wide = Widened(linear);
    on::Widen(stream, weights, wide);
    device_->gemm().Multiply(stream, x, wide, y);
  };
  if (linear.matrix.dtype == DType::kInt4) return multiply(linear.int4());
  multiply(linear.scaled());
}

void CudaModel::Multiply(Matrix x, const DeviceLinear& linear, Matrix y) {
  if (Widens(linear)) return MultiplyWidened(x, linear, y);
  if (linear.matrix.dtype == DType::kFp8) return MultiplyQuantized(x, linear, y);
  device_->gemm().Multiply(device_->compute(), x, linear.matrix, y);
}

void CudaModel::MultiplyQuantized(Matrix x, const DeviceLinear& linear, Matrix y) {
  const StreamView stream = device_->compute();
  const on::ScaledMatrix weights = linear.padded();
  const on::ScaledMatrix quantized = activations_.quantized(x.rows, weights.values.columns);
  on::QuantizeRows(stream, x, quantized);
  CHECK(y.columns == linear.matrix.rows && y.stride >= weights.values.rows);
  y.columns = weights.values.rows;
  device_->gemm().MultiplyScaled(stream, quantized, weights, y, AccumulationOf(options_));
}

void CudaModel::Sum(Matrix values, LapEvents& laps) {
  if (tensor_ == nullptr) return;
  laps.Lap(device_->compute(), StepPart::kOther);
  // Includes the padding of rows, so that the elements are contiguous.
  tensor_->AllReduceSum(device_->compute(), values.data, values.rows * values.stride, values.dtype);
  laps.Lap(device_->compute(), StepPart::kCommunication);
}

std::unique_ptr<Executor> CudaModel::MakeExecutor(const ExecutorConfig& config) {
  device_->Use();
  return std::make_unique<CudaExecutor>(*this, config);
}

std::unique_ptr<Operations> CudaModel::MakeOperations(const kernels::KvCacheView& cache) {
  device_->Use();
  return std::make_unique<CudaOperations>(*this, cache);
}

ModelWork CudaModel::WorkWith(DType kv_dtype) const {
  const auto elements = [](const DeviceLinear& linear) {
    return linear.matrix.rows * linear.matrix.columns;
  };
  ModelWork work;
  for (const DeviceLayer& layer : weights_.layers) {
    for (const DeviceLinear* linear : ProductsOf(layer)) {
      work.layer_weights += elements(*linear);
      work.layer_bytes += linear->bytes();
    }
    for (const auto& all : layer.experts) {
      const std::int64_t experts = share_.shape.moe.experts;
      work.expert_weights += (elements(all.up) + elements(all.down)) / experts;
      work.expert_bytes += (all.up.bytes() + all.down.bytes()) / experts;
    }
  }
  work.experts = share_.shape.moe.experts;
  work.experts_per_token = share_.shape.moe.experts_per_token;
  work.layer_weights += elements(weights_.project_in);
  work.layer_bytes += weights_.project_in.storage.bytes();
  work.head_weights = elements(weights_.head()) + elements(weights_.project_out);
  work.head_bytes = weights_.head().storage.bytes() + weights_.project_out.storage.bytes();
  const ModelSpec& shape = share_.shape;
  const std::int64_t layers = shape.layers;
  work.flops_per_pair = 4 * layers * shape.query_heads * shape.head_dim;
  work.kv_bytes_per_token = 2 * layers * shape.kv_heads * shape.head_dim * ByteSize(kv_dtype);
  return work;
}

}  // namespace twin::exec::cuda
