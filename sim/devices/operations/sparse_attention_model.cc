#include "sim/devices/operations/sparse_attention_model.h"

#include <algorithm>
#include <array>

#include "core/check.h"

namespace twin::sim {
namespace {

constexpr double kLogitBytes = 4;
constexpr double kScaleBytes = 4;  // of an index key
constexpr double kRowsPerTile = 128;

const OperationKind& SparseKind(std::string_view name) {
  const OperationKind* const kind = OperationKindOf(name);
  CHECK(kind != nullptr);
  return *kind;
}

ContextAttention AsChunks(const GenerationAttention& decodes) {
  return {.chunks = decodes.requests,
          .tokens = decodes.requests,
          .context_tokens = decodes.context_tokens,
          .pairs = decodes.context_tokens,
          .context_tokens_max = decodes.context_tokens_max};
}

// Batch, new tokens and past of a chunk.
std::array<double, 3> CallOf(const ContextAttention& chunks) {
  const double tokens = chunks.tokens / chunks.chunks;
  return {chunks.chunks, tokens, std::max(0.0, chunks.context_tokens / chunks.chunks - tokens)};
}

}  // namespace

OperationWork IndexLogitsWork(double heads, double dim, double queries, double pairs, double keys) {
  OperationWork work;
  work.format = GemmFormat::kFp8;
  work.flops = 2 * heads * dim * pairs;
  work.bytes = (dim + kScaleBytes) * keys + kLogitBytes * pairs + queries * heads * dim;
  work.blocks = queries;
  work.chain = queries > 0 ? pairs / queries / kRowsPerTile : 0;
  return work;
}

SparseAttentionModel::SparseAttentionModel(const HardwareSpec& hardware, const SparseShape& shape,
                                           KernelLibrary library, const OperationProfile& profile)
    : shape_(shape),
      logits_(hardware, SparseKind("dsa_logits"), library, "", {}, profile),
      choice_(hardware, SparseKind("dsa_topk"), library, "flat", {}, profile),
      attention_(hardware, SparseKind("dsa_attention"), library, "", {}, profile) {}

TimeEstimate SparseAttentionModel::Index(const ContextAttention& chunks) const {
  if (chunks.chunks <= 0) return {};
  const std::array call = CallOf(chunks);
  const TimeEstimate logits =
      logits_.For(IndexLogitsWork(shape_.index_heads, shape_.index_dim, chunks.tokens, chunks.pairs,
                                  chunks.context_tokens),
                  call);
  return logits + choice_(call);
}

TimeEstimate SparseAttentionModel::Index(const GenerationAttention& decodes) const {
  return Index(AsChunks(decodes));
}

TimeEstimate SparseAttentionModel::Attention(const ContextAttention& chunks) const {
  if (chunks.chunks <= 0) return {};
  const double chosen = std::min(chunks.pairs, chunks.tokens * shape_.chosen);
  OperationWork work = LatentGenerationWork(shape_.sizes, shape_.heads, chunks.tokens, chosen,
                                            static_cast<double>(ByteSize(shape_.cache_dtype)));
  work.chain = chunks.pairs / chunks.tokens / kRowsPerTile;
  return attention_.For(work, CallOf(chunks));
}

TimeEstimate SparseAttentionModel::Attention(const GenerationAttention& decodes) const {
  return Attention(AsChunks(decodes));
}

}  // namespace twin::sim
