#include "exec/model/weights.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/input_error.h"
#include "exec/model/checkpoint.h"
#include "exec/model/part_reading.h"
#include "exec/model/tensor_plan.h"
#include "exec/model/tensor_source.h"

namespace twin::exec {
namespace {

// Reads a matrix as the source stores it. No rows if the source has no part in 4 bits. Throws
// InputError (data) if it has only some parts in 4 bits, or parts in different orders.
kernels::WeightMatrix StoredInt4Matrix(const MatrixPlan& plan,
                                       const std::vector<MatrixRequest>& requests,
                                       const TensorSource& source, kernels::ThreadPool& pool) {
  std::vector<std::unique_ptr<StoredInt4>> parts;
  for (const MatrixRequest& request : requests) {
    if (auto part = source.Int4(request)) parts.push_back(std::move(part));
  }
  if (parts.empty()) return {};
  const bool alike =
      parts.size() == requests.size() && std::ranges::all_of(parts, [&](const auto& part) {
        return part->order() == parts.front()->order();
      });
  if (!alike) {
    throw InputError(InputError::Kind::kData, "tensor '" + requests.front().name + "'",
                     "is stored in 4 bits in another way than '" + requests.back().name +
                         "', with which it is one product; both must have the same g_idx");
  }
  const StoredInt4& first = *parts.front();
  kernels::WeightMatrix matrix =
      kernels::WeightMatrix::Int4(plan.rows(), plan.taken().count, first.group(), first.order());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    matrix.FillInt4(pool, requests[i].first_row, *parts[i]);
  }
  return matrix;
}

class WeightReader {
 public:
  WeightReader(const ModelConfig& model, DType format, TensorSource& source,
               kernels::ThreadPool& pool)
      : model_(model), format_(format), source_(source), pool_(pool) {}

  [[nodiscard]] ModelWeights Read(const TensorPlan& plan) const {
    return {MakeParts<LinearWeights, NormWeights>(
        plan, [this](const MatrixPlan& matrix, MatrixRole role) { return Linear(matrix, role); },
        [this](const NormPlan& norm) { return Norm(norm); },
        [this](const VectorPlan& vector) { return ReadVector(vector, source_); })};
  }

 private:
  [[nodiscard]] DType FormatOf(MatrixRole role) const {
    const bool exact = role == MatrixRole::kPositions || role == MatrixRole::kRouter;
    if (exact) return DType::kFp32;
    // As in other systems, only the projections of layers have 4 bits.
    if (format_ == DType::kInt4) {
      return role == MatrixRole::kProjection ? DType::kInt4 : DType::kBf16;
    }
    const bool looked_up_only = role == MatrixRole::kEmbedding && !model_.shape.tied_embeddings;
    return format_ == DType::kInt8 && looked_up_only ? DType::kBf16 : format_;
  }

  [[nodiscard]] LinearWeights Linear(const MatrixPlan& plan, MatrixRole role) const {
    LinearWeights linear;
    if (plan.parts.empty()) return linear;
    DType format = FormatOf(role);
    if (format == DType::kInt4) {
      linear.matrix = ReadInt4Matrix(plan, source_, pool_);
      format = DType::kBf16;  // if the checkpoint leaves this layer in 16 bits
    }
    if (linear.empty()) {
      const std::vector<MatrixRequest> requests = RequestsOf(plan, source_);
      linear.matrix = kernels::WeightMatrix(format, plan.rows(), plan.taken().count);
      for (const MatrixRequest& request : requests) source_.Fill(request, pool_, linear.matrix);
    }
    linear.bias = ReadBias(plan, source_);
    return linear;
  }

  [[nodiscard]] NormWeights Norm(const NormPlan& plan) const {
    NormWeights norm;
    if (plan.gain.empty()) return norm;
    norm.gain = ReadGain(plan, model_, source_);
    if (!plan.bias.empty()) {
      norm.bias = source_.ReadVector({plan.bias, {plan.width}}, VectorKind::kBias);
    }
    return norm;
  }

  const ModelConfig& model_;
  DType format_;
  TensorSource& source_;
  kernels::ThreadPool& pool_;
};

// Other formats are not computed for layers that only CPUs compute.
void RequireFormat(const ModelConfig& model, DType format) {
  if (HasPlainLayers(model.shape) || format == DType::kFp32 || format == DType::kBf16) return;
  throw InputError(InputError::Kind::kUsage, "the weights' format",
                   std::string(Name(format)) + ", which is not computed for model_type " +
                       model.model_type + "; allowed: fp32, bf16");
}

// Refuses a checkpoint whose config announces 4 bits but whose tensors have none: one of the two is
// wrong.
void RequireInt4(const Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.tensors();
  const bool any = std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.first.ends_with(".qweight");
  });
  if (any) return;
  throw InputError(InputError::Kind::kData, checkpoint.path(),
                   "holds no weights of 4 bits (*.qweight), which quantization_config of "
                   "config.json promises; allowed: such tensors, or a config.json without "
                   "quantization_config");
}

}  // namespace

std::int64_t ModelWeights::matrix_bytes() const {
  std::int64_t bytes = embedding.matrix.bytes() + positions.matrix.bytes() +
                       project_in.matrix.bytes() + project_out.matrix.bytes() +
                       untied_head.matrix.bytes();
  for (const LayerWeights& layer : layers) {
    bytes += layer.qkv.matrix.bytes() + layer.query_up.matrix.bytes() +
             layer.output.matrix.bytes() + layer.up.matrix.bytes() + layer.down.matrix.bytes() +
             layer.router.matrix.bytes() + layer.shared_gate.matrix.bytes();
    for (const auto& head : layer.latent_heads) {
      bytes += head.key.matrix.bytes() + head.value.matrix.bytes();
    }
    for (const auto& expert : layer.experts) {
      bytes += expert.up.matrix.bytes() + expert.down.matrix.bytes();
    }
  }
  return bytes;
}

kernels::WeightMatrix ReadInt4Matrix(const MatrixPlan& plan, TensorSource& source,
                                     kernels::ThreadPool& pool) {
  const std::vector<MatrixRequest> requests = RequestsOf(plan, source);
  if (source.has_int4()) return StoredInt4Matrix(plan, requests, source, pool);
  kernels::WeightMatrix matrix(DType::kInt4, plan.rows(), plan.taken().count);
  for (const MatrixRequest& request : requests) source.Fill(request, pool, matrix);
  return matrix;
}

LoadedWeights LoadWeights(const std::filesystem::path& directory, const ModelConfig& model,
                          DType format, kernels::ThreadPool& pool, const GridPlace& place) {
  RequireFormat(model, format);
  const Checkpoint checkpoint(directory);
  if (model.int4) RequireInt4(checkpoint);
  CheckpointSource source(checkpoint, model.int4);
  const TensorPlan plan = PlanStored(model, checkpoint);
  LoadedWeights loaded;
  loaded.weights = WeightReader(model, format, source, pool).Read(ShareOf(plan, model, place));
  loaded.warnings = source.Warnings(model.naming, NamesOf(plan));
  return loaded;
}

ModelWeights MakeDummyWeights(const ModelConfig& model, DType format, std::uint64_t seed,
                              kernels::ThreadPool& pool, const GridPlace& place) {
  RequireFormat(model, format);
  DummySource source(seed);
  const ModelConfig plain = WithoutGainOffset(model);
  const TensorPlan plan = PlanTensors(model, PrefixesOf(model.naming).front());
  return WeightReader(plain, format, source, pool).Read(ShareOf(plan, model, place));
}

}  // namespace twin::exec
