#include "exec/model/weights.h"

#include "exec/model/checkpoint.h"
#include "exec/model/tensor_plan.h"
#include "exec/model/tensor_source.h"

namespace twin::exec {
namespace {

class WeightReader {
 public:
  WeightReader(const ModelConfig& model, DType format, TensorSource& source,
               kernels::ThreadPool& pool)
      : model_(model), format_(format), source_(source), pool_(pool) {}

  [[nodiscard]] ModelWeights Read(const TensorPlan& plan) const {
    const bool tied = model_.shape.tied_embeddings;
    const DType embedding_format = format_ == DType::kInt8 && !tied ? DType::kBf16 : format_;
    ModelWeights weights;
    weights.embedding = Linear(plan.embedding, embedding_format);
    weights.positions = Linear(plan.positions, DType::kFp32);
    weights.project_in = Linear(plan.project_in, format_);
    for (const LayerPlan& layer : plan.layers) weights.layers.push_back(Layer(layer));
    weights.final_norm = Norm(plan.final_norm);
    weights.project_out = Linear(plan.project_out, format_);
    weights.untied_head = Linear(plan.head, format_);
    return weights;
  }

 private:
  [[nodiscard]] LayerWeights Layer(const LayerPlan& plan) const {
    LayerWeights layer;
    layer.attention_norm = Norm(plan.attention_norm);
    layer.qkv = Linear(plan.qkv, format_);
    layer.query_norm = Norm(plan.query_norm);
    layer.key_norm = Norm(plan.key_norm);
    layer.output = Linear(plan.output, format_);
    layer.attention_post_norm = Norm(plan.attention_post_norm);
    layer.mlp_norm = Norm(plan.mlp_norm);
    layer.up = Linear(plan.up, format_);
    layer.down = Linear(plan.down, format_);
    layer.mlp_post_norm = Norm(plan.mlp_post_norm);
    return layer;
  }

  [[nodiscard]] LinearWeights Linear(const MatrixPlan& plan, DType format) const {
    LinearWeights linear;
    if (plan.parts.empty()) return linear;
    std::vector<MatrixRequest> requests;
    std::int64_t rows = 0;
    for (const MatrixPart& part : plan.parts) {
      requests.push_back({part.weight, part.rows, plan.columns, plan.transposed, part.taken(),
                          plan.taken(), rows});
      source_.Require(requests.back());
      rows += part.taken().count;
    }
    linear.matrix = kernels::WeightMatrix(format, rows, plan.taken().count);
    for (const MatrixRequest& request : requests) source_.Fill(request, pool_, linear.matrix);
    for (const MatrixPart& part : plan.parts) {
      if (part.bias.empty()) continue;
      const std::vector<float> bias = source_.ReadVector(part.bias, part.rows, VectorKind::kBias);
      const auto first = bias.begin() + part.taken().first;
      linear.bias.insert(linear.bias.end(), first, first + part.taken().count);
    }
    return linear;
  }

  [[nodiscard]] NormWeights Norm(const NormPlan& plan) const {
    NormWeights norm;
    if (plan.gain.empty()) return norm;
    norm.gain = source_.ReadVector(plan.gain, plan.width, VectorKind::kGain);
    for (float& gain : norm.gain) gain += model_.norm_gain_offset;
    if (!plan.bias.empty()) {
      norm.bias = source_.ReadVector(plan.bias, plan.width, VectorKind::kBias);
    }
    return norm;
  }

  const ModelConfig& model_;
  DType format_;
  TensorSource& source_;
  kernels::ThreadPool& pool_;
};

// The first of the family's prefixes under which the embedding is found.
TensorPlan PlanFor(const ModelConfig& model, const Checkpoint& checkpoint) {
  const std::vector<std::string> prefixes = PrefixesOf(model.naming);
  for (const std::string& prefix : prefixes) {
    TensorPlan plan = PlanTensors(model, prefix);
    if (checkpoint.Find(plan.embedding.parts.front().weight) != nullptr) return plan;
  }
  return PlanTensors(model, prefixes.front());
}

}  // namespace

std::int64_t ModelWeights::matrix_bytes() const {
  std::int64_t bytes = embedding.matrix.bytes() + positions.matrix.bytes() +
                       project_in.matrix.bytes() + project_out.matrix.bytes() +
                       untied_head.matrix.bytes();
  for (const LayerWeights& layer : layers) {
    bytes += layer.qkv.matrix.bytes() + layer.output.matrix.bytes() + layer.up.matrix.bytes() +
             layer.down.matrix.bytes();
  }
  return bytes;
}

LoadedWeights LoadWeights(const std::filesystem::path& directory, const ModelConfig& model,
                          DType format, kernels::ThreadPool& pool, const GridPlace& place) {
  const Checkpoint checkpoint(directory);
  CheckpointSource source(checkpoint);
  const TensorPlan plan = PlanFor(model, checkpoint);
  LoadedWeights loaded;
  loaded.weights = WeightReader(model, format, source, pool).Read(ShareOf(plan, model, place));
  loaded.warnings = source.Warnings(model.naming, NamesOf(plan));
  return loaded;
}

ModelWeights MakeDummyWeights(const ModelConfig& model, DType format, std::uint64_t seed,
                              kernels::ThreadPool& pool, const GridPlace& place) {
  DummySource source(seed);
  // Adding gemma2's offset to gains of 1 would double every norm.
  ModelConfig plain = model;
  plain.norm_gain_offset = 0;
  const TensorPlan plan = PlanTensors(model, PrefixesOf(model.naming).front());
  return WeightReader(plain, format, source, pool).Read(ShareOf(plan, model, place));
}

}  // namespace twin::exec
