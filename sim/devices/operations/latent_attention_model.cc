#include "sim/devices/operations/latent_attention_model.h"

#include <array>
#include <string>

#include "core/check.h"

namespace twin::sim {
namespace {

const OperationKind& KnownKind(std::string_view name) {
  const OperationKind* const kind = OperationKindOf(name);
  CHECK(kind != nullptr);
  return *kind;
}

std::string_view CacheWord(DType dtype) { return dtype == DType::kFp8 ? "fp8" : "bfloat16"; }

std::string ProductWords(GemmFormat format, std::string_view op) {
  return std::string(format == GemmFormat::kFp8 ? "fp8 " : "bfloat16 ").append(op);
}

double CacheByteSize(DType dtype) { return static_cast<double>(ByteSize(dtype)); }

}  // namespace

LatentAttentionModel::LatentAttentionModel(const HardwareSpec& hardware, const LatentShape& shape,
                                           KernelLibrary library, const OperationProfile& profile)
    : shape_(shape),
      context_(hardware, KnownKind("mla_context_kernel"), library, CacheWord(shape.cache_dtype),
               {static_cast<double>(shape.heads)}, profile),
      generation_(hardware, KnownKind("mla_generation_kernel"), library,
                  CacheWord(shape.cache_dtype), {static_cast<double>(shape.heads)}, profile),
      into_latent_(hardware, KnownKind("mla_bmm"), library,
                   ProductWords(shape.absorbed_format, "mla_gen_pre"),
                   {static_cast<double>(shape.heads)}, profile),
      out_of_latent_(hardware, KnownKind("mla_bmm"), library,
                     ProductWords(shape.absorbed_format, "mla_gen_post"),
                     {static_cast<double>(shape.heads)}, profile) {}

TimeEstimate LatentAttentionModel::operator()(const ContextAttention& chunks) const {
  if (chunks.chunks <= 0) return {};
  const OperationWork work = LatentContextWork(shape_.sizes, shape_.heads, chunks.tokens,
                                               chunks.context_tokens, chunks.pairs);
  return context_.For(work, std::array{chunks.chunks, chunks.tokens / chunks.chunks});
}

TimeEstimate LatentAttentionModel::operator()(const GenerationAttention& decodes) const {
  if (decodes.requests <= 0) return {};
  const OperationWork work =
      LatentGenerationWork(shape_.sizes, shape_.heads, decodes.requests, decodes.context_tokens,
                           CacheByteSize(shape_.cache_dtype));
  return generation_.For(work,
                         std::array{decodes.requests, decodes.context_tokens / decodes.requests});
}

TimeEstimate LatentAttentionModel::AbsorbedProducts(double tokens) const {
  if (tokens <= 0) return {};
  OperationWork work =
      AbsorbedProductWork(shape_.sizes, shape_.heads, tokens, shape_.absorbed_format);
  const TimeEstimate before = into_latent_.For(work, std::array{tokens});
  LatentSizes after_sizes = shape_.sizes;
  after_sizes.nope = shape_.sizes.value;
  work = AbsorbedProductWork(after_sizes, shape_.heads, tokens, shape_.absorbed_format);
  const TimeEstimate after = out_of_latent_.For(work, std::array{tokens});
  return before + after;
}

}  // namespace twin::sim
