// CudaModel: logits from the output of the last layer, and its executors, operations and tuning.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/cuda_model.h"
#include "exec/cuda/cuda_operations.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/widening_gemm.h"

namespace twin::exec::cuda {
namespace {

// The matrices that every token of a batch is multiplied with. A model without a part has an empty
// one.
std::array<const DeviceLinear*, 6> ProductsOf(const DeviceLayer& layer) {
  return {&layer.qkv, &layer.output, &layer.up, &layer.down, &layer.router, &layer.shared_gate};
}

}  // namespace

namespace on = kernels::cuda;

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

std::optional<on::GemmShape> CudaModel::ProductShape(std::int64_t tokens,
                                                     const DeviceLinear& linear,
                                                     DType output) const {
  if (linear.empty()) return std::nullopt;
  on::DeviceMatrix weights = linear.matrix;
  on::Fp8Accumulation accumulation{};
  if (Widens(linear)) {
    if (tokens <= on::kWideningTokensMax) return std::nullopt;
    weights = Widened(linear);
  } else if (weights.dtype == DType::kFp8) {
    weights = linear.padded().values;
    accumulation = AccumulationOf(options_);
  }
  return on::GemmShape{.tokens = tokens,
                       .outputs = weights.rows,
                       .inputs = weights.columns,
                       .input_dtype = weights.dtype,
                       .output_dtype = output,
                       .accumulation = accumulation};
}

std::vector<on::GemmShape> CudaModel::ProductShapes(std::int64_t tokens, bool logits) const {
  const DeviceLayer& layer = weights_.layers.front();
  std::vector<on::GemmShape> shapes;
  const auto add = [&](const DeviceLinear& linear, DType output) {
    if (const auto shape = ProductShape(tokens, linear, output)) shapes.push_back(*shape);
  };
  add(layer.router, DType::kFp32);
  for (const DeviceLinear* linear : {&layer.qkv, &layer.output, &layer.up, &layer.down}) {
    add(*linear, kActivationFormat);
  }
  if (logits && options_.links.place.last_stage()) add(weights_.head(), DType::kFp32);
  return shapes;
}

bool CudaModel::TuneProduct(const on::GemmShape& shape, std::vector<std::string>& failures) {
  try {
    device_->gemm().Tune(device_->compute(), shape);
    return true;
  } catch (const on::HungDevice&) {
    throw;
  } catch (const on::DeviceError& error) {
    if (!error.out_of_memory()) {
      failures.push_back(
          fmt::format("the product of {} x {} weights and {} tokens is not tuned: {}",
                      shape.outputs, shape.inputs, shape.tokens, error.what()));
    }
    return false;
  }
}

void CudaModel::LoadProducts() {
  const DeviceLayer& layer = weights_.layers.front();
  const std::int64_t largest = options_.largest_step.tokens;
  for (std::int64_t tokens = 1; tokens <= largest; tokens = on::RoundedTokens(tokens + 1)) {
    Multiply(activations_.normed(tokens), layer.qkv, activations_.qkv(tokens));
    Multiply(activations_.attended(tokens), layer.output, activations_.normed(tokens));
    if (layer.up.empty()) continue;
    Multiply(activations_.residual(tokens), layer.up, activations_.inner(tokens));
    Multiply(activations_.activated(tokens), layer.down, activations_.normed(tokens));
  }
}

std::vector<std::string> CudaModel::TuneProducts() {
  struct Size {
    std::int64_t tokens;
    bool decodes;
  };
  std::vector<Size> sizes;
  for (const std::uint32_t bucket : decode_buckets()) sizes.push_back({bucket, true});
  for (const std::int64_t tokens : PrefillSizes(options_.largest_step)) {
    sizes.push_back({tokens, false});
  }
  std::vector<std::string> failures;
  for (const Size& size : sizes) {
    bool tuned = false;
    for (const on::GemmShape& shape : ProductShapes(size.tokens, size.decodes)) {
      const double flops = 2 * static_cast<double>(shape.tokens) *
                           static_cast<double>(shape.outputs) * static_cast<double>(shape.inputs);
      const bool small = !size.decodes && flops < options_.tuned_flops_min;
      if (small || device_->gemm().Measured(shape)) continue;
      if (TuneProduct(shape, failures)) tuned = true;
    }
    if (tuned) device_->gemm().Save();
  }
  return failures;
}

}  // namespace twin::exec::cuda
