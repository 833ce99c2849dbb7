#include "core/model_spec.h"

#include <algorithm>
#include <string>

#include "core/check.h"
#include "core/input_error.h"

namespace twin {
namespace {

[[noreturn]] void Refuse(const ModelSpec& model, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, "model " + model.name, what);
}

void RequirePositive(const ModelSpec& model, const char* field, std::int64_t value) {
  if (value >= 1) return;
  Refuse(model, std::string(field) + " is " + std::to_string(value) + ", must be at least 1");
}

void RequireDivides(const ModelSpec& model, const char* field, std::int64_t value,
                    std::int64_t tensor) {
  if (value % tensor == 0) return;
  Refuse(model, std::string(field) + " " + std::to_string(value) +
                    " does not divide by tensor parallelism " + std::to_string(tensor));
}

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Parameters of one norm over `width` values.
std::int64_t NormParameters(const ModelSpec& m, std::int64_t width) {
  return m.norm == NormKind::kLayerNorm ? 2 * width : width;
}

// One rank's share of an MLP of the given width.
std::int64_t MlpParameters(const ModelSpec& m, std::int64_t width, std::int64_t tensor) {
  const std::int64_t hidden = m.hidden;
  const std::int64_t inputs = m.gated_mlp ? 2 : 1;
  const std::int64_t share = width / tensor;
  const std::int64_t bias = m.mlp_bias ? inputs * share + hidden : 0;
  return (inputs + 1) * hidden * share + bias;
}

std::int64_t AttentionParameters(const ModelSpec& m, const Parallelism& p) {
  const std::int64_t hidden = m.hidden;
  const std::int64_t query = std::int64_t{m.query_heads} / p.tensor * m.head_dim;
  const std::int64_t qkv = query + 2 * std::int64_t{KvHeadsPerRank(m, p)} * m.head_dim;
  std::int64_t count = hidden * qkv + query * hidden;
  if (m.qkv_bias) count += qkv;
  if (m.output_bias) count += hidden;
  if (m.qk_norm) count += 2 * NormParameters(m, m.head_dim);
  return count;
}

// One rank's share of a layer; a mixture in it has `experts` experts.
std::int64_t LayerParameters(const ModelSpec& m, const Parallelism& p, std::int64_t experts) {
  const std::int64_t norms = m.norms_per_layer * NormParameters(m, m.hidden);
  const std::int64_t common = AttentionParameters(m, p) + norms;
  if (m.moe.experts == 0) return common + MlpParameters(m, m.intermediate, p.tensor);
  const std::int64_t router = std::int64_t{m.hidden} * m.moe.experts;
  std::int64_t shared = 0;
  if (m.moe.shared_intermediate > 0) {
    shared = MlpParameters(m, m.moe.shared_intermediate, p.tensor) + m.hidden;
  }
  return common + router + experts * MlpParameters(m, m.moe.expert_intermediate, p.tensor) + shared;
}

std::int64_t EmbeddingWidth(const ModelSpec& m) {
  return m.embedding_width > 0 ? m.embedding_width : m.hidden;
}

// Projection between embedding width and hidden size, in one direction.
std::int64_t EmbeddingProjection(const ModelSpec& m) {
  return EmbeddingWidth(m) == m.hidden ? 0 : EmbeddingWidth(m) * m.hidden;
}

// Parameters of the first stage before its layers (input), and of the last stage after them
// (output).
std::int64_t InputParameters(const ModelSpec& m, std::int64_t tensor) {
  return CeilDiv(m.vocab, tensor) * EmbeddingWidth(m) + EmbeddingProjection(m) +
         std::int64_t{m.learned_positions} * m.hidden;
}

std::int64_t OutputParameters(const ModelSpec& m, std::int64_t tensor, bool shares_embedding) {
  const std::int64_t norm = m.final_norm ? NormParameters(m, m.hidden) : 0;
  const std::int64_t head = CeilDiv(m.vocab, tensor) * EmbeddingWidth(m);
  return norm + EmbeddingProjection(m) + (shares_embedding ? 0 : head);
}

std::int64_t Parameters(const ModelSpec& m, std::int64_t experts) {
  return m.layers * LayerParameters(m, Parallelism{}, experts) + InputParameters(m, 1) +
         OutputParameters(m, 1, m.tied_embeddings);
}

}  // namespace

void Validate(const ModelSpec& model) {
  RequirePositive(model, "layers", model.layers);
  RequirePositive(model, "hidden", model.hidden);
  RequirePositive(model, "query_heads", model.query_heads);
  RequirePositive(model, "kv_heads", model.kv_heads);
  RequirePositive(model, "head_dim", model.head_dim);
  RequirePositive(model, "vocab", model.vocab);
  RequirePositive(model, "max_position", model.max_position);
  if (model.query_heads % model.kv_heads != 0) {
    Refuse(model, "query_heads " + std::to_string(model.query_heads) +
                      " is no multiple of kv_heads " + std::to_string(model.kv_heads));
  }
  if (model.moe.experts == 0) {
    RequirePositive(model, "intermediate", model.intermediate);
  } else {
    RequirePositive(model, "moe.experts", model.moe.experts);
    RequirePositive(model, "moe.experts_per_token", model.moe.experts_per_token);
    RequirePositive(model, "moe.expert_intermediate", model.moe.expert_intermediate);
    if (model.moe.experts_per_token > model.moe.experts) {
      Refuse(model, "moe.experts_per_token " + std::to_string(model.moe.experts_per_token) +
                        " exceeds moe.experts " + std::to_string(model.moe.experts));
    }
  }
  if (model.kv_dtype == DType::kInt4) {
    Refuse(model, "kv_dtype is int4, a format of weights alone");
  }
  if (model.sliding_window < 0 || model.windowed_layers < 0 ||
      model.windowed_layers > model.layers) {
    Refuse(model, "sliding_window must be at least 0 and windowed_layers within 0.." +
                      std::to_string(model.layers));
  }
}

void Validate(const ModelSpec& model, const Parallelism& parallelism) {
  Validate(model);
  RequirePositive(model, "tensor parallelism", parallelism.tensor);
  RequirePositive(model, "pipeline parallelism", parallelism.pipeline);
  const std::int64_t tensor = parallelism.tensor;
  RequireDivides(model, "query_heads", model.query_heads, tensor);
  if (model.kv_heads % tensor != 0 && tensor % model.kv_heads != 0) {
    Refuse(model, "kv_heads " + std::to_string(model.kv_heads) +
                      " can neither be divided nor replicated over tensor parallelism " +
                      std::to_string(tensor));
  }
  if (model.moe.experts == 0) {
    RequireDivides(model, "intermediate", model.intermediate, tensor);
  } else {
    RequireDivides(model, "moe.expert_intermediate", model.moe.expert_intermediate, tensor);
    RequireDivides(model, "moe.shared_intermediate", model.moe.shared_intermediate, tensor);
  }
  if (parallelism.pipeline > model.layers) {
    Refuse(model, "pipeline parallelism " + std::to_string(parallelism.pipeline) + " exceeds its " +
                      std::to_string(model.layers) + " layers");
  }
}

std::int64_t TotalParameters(const ModelSpec& model) {
  return Parameters(model, model.moe.experts);
}

std::int64_t ActiveParameters(const ModelSpec& model) {
  return Parameters(model, model.moe.experts_per_token);
}

std::int64_t ActiveLayerParameters(const ModelSpec& model) {
  return model.layers * LayerParameters(model, Parallelism{}, model.moe.experts_per_token);
}

std::int64_t ActivationByteSize(const ModelSpec& model) {
  return model.weight_dtype == DType::kFp32 ? 4 : 2;
}

std::int32_t StageLayers(const ModelSpec& model, const Parallelism& parallelism,
                         std::int32_t stage) {
  CHECK(stage >= 0 && stage < parallelism.pipeline);
  const std::int32_t share = model.layers / parallelism.pipeline;
  const std::int32_t remainder = model.layers % parallelism.pipeline;
  const std::int32_t last = parallelism.pipeline - 1;
  const bool has_extra = stage < last && stage >= last - remainder;
  return share + (has_extra ? 1 : 0);
}

std::int32_t KvHeadsPerRank(const ModelSpec& model, const Parallelism& parallelism) {
  return std::max(1, model.kv_heads / parallelism.tensor);
}

std::int64_t WeightBytesPerRank(const ModelSpec& model, const Parallelism& parallelism,
                                std::int32_t stage) {
  const bool is_first = stage == 0;
  const bool is_last = stage == parallelism.pipeline - 1;
  const std::int64_t layers = StageLayers(model, parallelism, stage) *
                              LayerParameters(model, parallelism, model.moe.experts);
  std::int64_t ends = is_first ? InputParameters(model, parallelism.tensor) : 0;
  if (is_last) {
    ends += OutputParameters(model, parallelism.tensor, model.tied_embeddings && is_first);
  }
  return static_cast<std::int64_t>(static_cast<double>(layers) *
                                   BytesPerWeight(model.weight_dtype)) +
         ends * ByteSize(EmbeddingFormat(model.weight_dtype));
}

std::int64_t KvBytesPerTokenAndLayer(const ModelSpec& model, const Parallelism& parallelism) {
  return 2 * std::int64_t{KvHeadsPerRank(model, parallelism)} * model.head_dim *
         ByteSize(model.kv_dtype);
}

std::int64_t KvBytesPerToken(const ModelSpec& model, const Parallelism& parallelism,
                             std::int32_t stage) {
  return StageLayers(model, parallelism, stage) * KvBytesPerTokenAndLayer(model, parallelism);
}

std::int64_t KvBytesPerToken(const ModelSpec& model) {
  return KvBytesPerToken(model, Parallelism{}, 0);
}

}  // namespace twin
