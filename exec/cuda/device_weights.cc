#include "exec/cuda/device_weights.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "exec/cuda/upload.h"
#include "exec/model/checkpoint.h"
#include "exec/model/part_reading.h"
#include "exec/model/weights.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/quantize.h"
#include "kernels/cuda/random_fill.h"
#include "kernels/cuda/widening_gemm.h"

namespace twin::exec::cuda {
namespace {

using kernels::cuda::DenseDeviceMatrix;
using kernels::cuda::DeviceMatrix;

constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

DeviceBuffer UploadFloats(const std::vector<float>& values, Upload& upload) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
  DeviceBuffer buffer(bytes, "device memory for norms and biases");
  upload.Send(std::as_bytes(std::span(values)), buffer.data());
  return buffer;
}

// A matrix that is rounded when it is loaded. Vectors become fp32.
bool IsFp16Matrix(const Checkpoint& checkpoint, const std::string& name) {
  const StoredTensor* const tensor = checkpoint.Find(name);
  return tensor != nullptr && tensor->type == StoredType::kF16 && tensor->shape.size() > 1;
}

DeviceLinear EmptyLinear(const MatrixPlan& plan) {
  const std::int64_t rows = plan.rows();
  const std::int64_t columns = plan.taken().count;
  const std::int64_t stride = AlignedStride(columns, kActivationFormat);
  DeviceLinear linear;
  linear.storage =
      DeviceBuffer(rows * stride * ByteSize(kActivationFormat), "device memory for weights");
  linear.matrix = {linear.storage.data(), kActivationFormat, rows, columns, stride};
  return linear;
}

// Copies weights of 4 bits to the device.
DeviceLinear SendInt4(const kernels::WeightView& weights, kernels::ThreadPool& pool,
                      Upload& upload) {
  const kernels::cuda::Int4Rows rows = kernels::cuda::RowsOfInt4(pool, weights);
  const auto send = [&](std::span<const std::byte> bytes) {
    DeviceBuffer buffer(static_cast<std::int64_t>(bytes.size()), "device memory for weights");
    upload.Send(bytes, buffer.data());
    return buffer;
  };
  DeviceLinear linear;
  linear.storage = send(std::as_bytes(std::span(rows.q)));
  linear.scale_storage = send(std::as_bytes(std::span(rows.scales)));
  linear.zero_storage = send(std::as_bytes(std::span(rows.zeros)));
  linear.group = weights.group;
  linear.matrix = {linear.storage.data(), DType::kInt4, weights.rows, weights.columns, rows.stride};
  return linear;
}

constexpr std::int64_t Fp8Size(std::int64_t size) {
  constexpr std::int64_t kStep = kernels::cuda::kFp8Sizes;
  return (size + kStep - 1) / kStep * kStep;
}

// Buffer for one matrix of a layer in bf16 before its quantization to fp8; reused for all matrices.
class Unquantized {
 public:
  Unquantized(const TensorPlan& plan, StreamView stream) : stream_(stream) {
    std::int64_t most = 0;
    for (const LayerPlan& layer : plan.layers) {
      for (const MatrixPlan* matrix : {&layer.qkv, &layer.output, &layer.up, &layer.down}) {
        most = std::max(most, matrix->rows() * StrideOf(*matrix));
      }
    }
    storage_ = DeviceBuffer(most * ByteSize(kActivationFormat),
                            "device memory for weights to be quantized");
  }
  // Waits for the kernels that read the buffer.
  ~Unquantized() { AwaitStreamQuietly(stream_); }
  Unquantized(const Unquantized&) = delete;
  Unquantized& operator=(const Unquantized&) = delete;

  [[nodiscard]] DeviceMatrix Of(const MatrixPlan& plan) const {
    return {storage_.data(), kActivationFormat, plan.rows(), plan.taken().count, StrideOf(plan)};
  }
  [[nodiscard]] DeviceLinear Quantize(const DeviceMatrix& weights) const;

 private:
  static std::int64_t StrideOf(const MatrixPlan& plan) {
    return AlignedStride(plan.taken().count, kActivationFormat);
  }

  StreamView stream_;
  DeviceBuffer storage_;
};

DeviceLinear Unquantized::Quantize(const DeviceMatrix& weights) const {
  const std::int64_t rows = Fp8Size(weights.rows);
  const std::int64_t stride = Fp8Size(weights.columns);
  DeviceLinear linear;
  linear.storage = DeviceBuffer(rows * stride, "device memory for weights");
  linear.scale_storage = DeviceBuffer(rows * static_cast<std::int64_t>(sizeof(float)),
                                      "device memory for scales of weights");
  linear.matrix = {linear.storage.data(), DType::kFp8, weights.rows, weights.columns, stride};
  for (const DeviceBuffer* buffer : {&linear.storage, &linear.scale_storage}) {
    CheckCuda(cudaMemsetAsync(buffer->data(), 0, static_cast<std::size_t>(buffer->bytes()),
                              stream_.get()),
              "cudaMemsetAsync");
  }
  const kernels::cuda::ScaledMatrix padded = linear.padded();
  kernels::cuda::QuantizeRows(stream_, weights,
                              {padded.values.Rows(0, weights.rows), padded.scales});
  return linear;
}

// Transfers the matrices of a source to the device.
class MatrixWay {
 public:
  virtual ~MatrixWay() = default;
  // `matrix` is bf16.
  virtual void Fill(const MatrixRequest& request, const DeviceMatrix& matrix) = 0;
};

class FromFiles final : public MatrixWay {
 public:
  FromFiles(TensorSource& source, kernels::ThreadPool& pool, Upload& upload)
      : source_(source), pool_(pool), upload_(upload) {}
  void Fill(const MatrixRequest& request, const DeviceMatrix& matrix) override {
    DeviceSink sink(upload_, matrix);
    source_.Fill(request, pool_, sink);
  }

 private:
  TensorSource& source_;
  kernels::ThreadPool& pool_;
  Upload& upload_;
};

class MadeThere final : public MatrixWay {
 public:
  MadeThere(std::uint64_t seed, StreamView stream) : seed_(seed), stream_(stream) {}
  void Fill(const MatrixRequest& request, const DeviceMatrix& matrix) override {
    const auto step = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements); };
    const std::int64_t row_step = request.transposed ? 1 : request.columns;
    const std::int64_t column_step = request.transposed ? request.rows : 1;
    kernels::cuda::FillWithNormals(stream_,
                                   {.key = MixWords(seed_, HashText(request.name)),
                                    .first = step(request.taken_rows.first * row_step +
                                                  request.taken_columns.first * column_step),
                                    .row_step = step(row_step),
                                    .column_step = step(column_step),
                                    .deviation = DummySource::kDeviation},
                                   matrix.Rows(request.first_row, request.taken_rows.count));
  }

 private:
  std::uint64_t seed_;
  StreamView stream_;
};

class PartReader {
 public:
  struct Means {
    TensorSource& source;
    MatrixWay& way;
    Upload& upload;
    StreamView stream;
    kernels::ThreadPool& pool;
  };
  PartReader(const ModelConfig& model, DType format, const Means& means)
      : model_(model), format_(format), means_(means) {}

  DeviceWeights Read(const TensorPlan& plan) {
    if (format_ == DType::kFp8) unquantized_.emplace(plan, means_.stream);
    for (const LayerPlan& layer : plan.layers) {
      for (const ExpertPlan& expert : layer.experts) experts_.insert({&expert.up, &expert.down});
    }
    return MakeParts<DeviceLinear, DeviceNormWeights>(
        plan,
        [this](const MatrixPlan& matrix, MatrixRole role) {
          if (matrix.parts.empty()) return DeviceLinear{};
          DeviceLinear linear = Weights(matrix, role == MatrixRole::kProjection);
          linear.bias_storage = UploadFloats(ReadBias(matrix, means_.source), means_.upload);
          return linear;
        },
        [this](const NormPlan& norm) { return Norm(norm); },
        [this](const VectorPlan& vector) { return ReadVector(vector, means_.source); });
  }
  // Number of 4-bit matrices that were widened because of the order of their inputs.
  [[nodiscard]] std::int64_t widened() const { return widened_; }
  // Number of 4-bit matrices of experts that were widened; all experts of a layer count as one.
  [[nodiscard]] std::int64_t widened_of_experts() const { return widened_of_experts_; }

 private:
  // Loads the weights without the bias.
  DeviceLinear Weights(const MatrixPlan& plan, bool projection) {
    if (projection && format_ == DType::kInt4) {
      const kernels::WeightMatrix packed = ReadInt4Matrix(plan, means_.source, means_.pool);
      const bool ordered = packed.view().order != nullptr;
      if (ordered) ++widened_;
      if (packed.view().rows > 0 && !ordered) {
        DeviceLinear linear = SendInt4(packed.view(), means_.pool, means_.upload);
        return experts_.contains(&plan) ? WidenedExperts(plan, linear) : std::move(linear);
      }
    }
    const bool quantizes = projection && unquantized_.has_value();
    DeviceLinear linear = quantizes ? DeviceLinear{} : EmptyLinear(plan);
    const DeviceMatrix to = quantizes ? unquantized_->Of(plan) : linear.matrix;
    for (const MatrixRequest& request : RequestsOf(plan, means_.source)) {
      means_.way.Fill(request, to);
    }
    return quantizes ? unquantized_->Quantize(to) : std::move(linear);
  }

  // Widens the matrices of experts, whose products have 16 bits.
  DeviceLinear WidenedExperts(const MatrixPlan& plan, const DeviceLinear& narrow) {
    ++widened_of_experts_;
    DeviceLinear wide = EmptyLinear(plan);
    kernels::cuda::Widen(means_.stream, narrow.int4(), wide.matrix);
    AwaitStream(means_.stream, "widening weights of 4 bits");  // before `narrow` is given back
    return wide;
  }

  DeviceNormWeights Norm(const NormPlan& plan) {
    DeviceNormWeights norm;
    if (plan.gain.empty()) return norm;
    norm.gain_storage = UploadFloats(ReadGain(plan, model_, means_.source), means_.upload);
    if (!plan.bias.empty()) {
      norm.bias_storage = UploadFloats(
          means_.source.ReadVector({plan.bias, {plan.width}}, VectorKind::kBias), means_.upload);
    }
    return norm;
  }

  const ModelConfig& model_;
  DType format_;
  Means means_;
  std::optional<Unquantized> unquantized_;
  std::set<const MatrixPlan*> experts_;
  std::int64_t widened_ = 0;
  std::int64_t widened_of_experts_ = 0;
};

}  // namespace

kernels::cuda::ScaledMatrix DeviceLinear::scaled() const {
  CHECK(matrix.dtype == DType::kFp8);
  return {matrix, scale_storage.As<float>()};
}

kernels::cuda::ScaledMatrix DeviceLinear::padded() const {
  CHECK(matrix.dtype == DType::kFp8);
  return {DenseDeviceMatrix(matrix.data, matrix.dtype, Fp8Size(matrix.rows), matrix.stride),
          scale_storage.As<float>()};
}

kernels::cuda::Int4Matrix DeviceLinear::int4() const {
  CHECK(matrix.dtype == DType::kInt4);
  return {.q = storage.As<std::uint8_t>(),
          .scales = scale_storage.As<float>(),
          .zeros = zero_storage.As<std::uint8_t>(),
          .rows = matrix.rows,
          .columns = matrix.columns,
          .stride = matrix.stride,
          .group = group};
}

LoadedDeviceWeights LoadDeviceWeights(const std::filesystem::path& directory,
                                      const ModelConfig& model, DType format,
                                      const GridPlace& place, StreamView stream,
                                      kernels::ThreadPool& pool) {
  const Checkpoint checkpoint(directory);
  CheckpointSource source(checkpoint, model.int4);
  const TensorPlan plan = PlanStored(model, checkpoint);
  Upload upload(stream, kChunkBytes);
  FromFiles way(source, pool, upload);
  LoadedDeviceWeights loaded;
  PartReader reader(model, format, {source, way, upload, stream, pool});
  loaded.weights = reader.Read(WithStackedExperts(ShareOf(plan, model, place)));
  const std::vector<std::string> names = NamesOf(plan);
  loaded.warnings = source.Warnings(model.naming, names);
  if (std::ranges::any_of(names,
                          [&](const auto& name) { return IsFp16Matrix(checkpoint, name); })) {
    loaded.warnings.push_back(fmt::format(
        "{}: matrices of fp16 are rounded to bf16, which has 8 significant bits instead "
        "of 11: a CUDA device computes in bf16",
        checkpoint.path()));
  }
  if (reader.widened() > 0) {
    loaded.warnings.push_back(fmt::format(
        "{}: {} matrices are widened to 16 bits: a CUDA device multiplies by 4 bits where groups "
        "are of neighbouring inputs (no g_idx, or one in order)",
        checkpoint.path(), reader.widened()));
  }
  if (reader.widened_of_experts() > 0) {
    loaded.warnings.push_back(
        fmt::format("{}: the experts are widened to 16 bits: a CUDA device multiplies other "
                    "matrices alone by 4 bits",
                    checkpoint.path()));
  }
  return loaded;
}

DeviceWeights MakeDummyDeviceWeights(const ModelConfig& model, DType format, std::uint64_t seed,
                                     const GridPlace& place, StreamView stream,
                                     kernels::ThreadPool& pool) {
  DummySource source(seed);
  const TensorPlan plan = PlanTensors(model, PrefixesOf(model.naming).front());
  Upload upload(stream, std::int64_t{1} << 20);
  MadeThere way(seed, stream);
  const ModelConfig plain = WithoutGainOffset(model);
  return PartReader(plain, format, {source, way, upload, stream, pool})
      .Read(WithStackedExperts(ShareOf(plan, model, place)));
}

}  // namespace twin::exec::cuda
