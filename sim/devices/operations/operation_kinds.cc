#include "sim/devices/operations/operation_kinds.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace twin::sim {
namespace {

using Sizes = std::span<const double>;
using Place = std::array<double, kPlacesMax>;

constexpr double kBf16 = 2;
constexpr double kState = 4;            // bytes of a value of a recurrent state
constexpr double kQueryTileRows = 128;  // queries of a thread block
constexpr double kChunk = 64;           // tokens of a chunk of linear attention
constexpr double kSparseBlock = 128;
constexpr double kIndexDim = 128;
constexpr double kIndexTop = 2048;
constexpr double kIndexKeyBytes = 132;  // 128 of fp8 and a scale
constexpr double kSglangHeads = 64;     // of the parts of sparse attention
constexpr LatentSizes kDeepSeek{};
constexpr LatentSizes kGlm{.hidden = 6144, .query_rank = 2048, .nope = 192, .value = 256};

double Log2(double size) { return std::log2(std::max(size, 1.0)); }

std::string_view Word(std::string_view variant, int index) {
  for (; index > 0; --index) {
    const std::size_t end = variant.find(' ');
    if (end == std::string_view::npos) return {};
    variant.remove_prefix(end + 1);
  }
  return variant.substr(0, variant.find(' '));
}

double CacheBytes(std::string_view word) { return word.starts_with("fp8") ? 1 : kBf16; }

double BytesPerValue(GemmFormat format) {
  switch (format) {
    case GemmFormat::kFp32:
      return 4;
    case GemmFormat::kBf16:
      return kBf16;
    case GemmFormat::kFp8:
    case GemmFormat::kFp8Block:
    case GemmFormat::kInt8:
      return 1;
    case GemmFormat::kInt4:
    case GemmFormat::kFp4:
      return 0.5 + 1.0 / 16;
    case GemmFormat::kMxfp4:
    case GemmFormat::kMxfp4Fp8:
      return 0.5 + 1.0 / 32;
  }
  return kBf16;
}

double Causal(double batch, double tokens, double past) {
  return batch * tokens * (past + (tokens + 1) / 2);
}

double At(Sizes sizes, std::size_t i) { return i < sizes.size() ? sizes[i] : 0; }

// Weights of the projections: down, query up, output; and key and value up for context.
double ProjectionWeights(const LatentSizes& s, double heads, bool context) {
  const double down = s.hidden * (s.query_rank + s.kv_rank + s.rope);
  const double query = s.query_rank * heads * (s.nope + s.rope);
  const double out = heads * s.value * s.hidden;
  const double up = s.kv_rank * heads * (s.nope + s.value);
  return down + query + out + (context ? up : 0);
}

void AddProjections(const LatentSizes& sizes, double weights, double tokens, GemmFormat format,
                    OperationWork& work) {
  work.format = format;
  work.other_flops = work.flops;
  work.flops = 2 * tokens * weights;
  work.bytes += weights * BytesPerValue(format) + 4 * kBf16 * tokens * sizes.hidden;
}

OperationWork ContextModule(const LatentSizes& sizes, double heads, Sizes call, GemmFormat format) {
  const double batch = call[0];
  const double tokens = call[1];
  const double past = At(call, 2);
  OperationWork work = LatentContextWork(sizes, heads, batch * tokens, batch * (past + tokens),
                                         Causal(batch, tokens, past));
  AddProjections(sizes, ProjectionWeights(sizes, heads, true), batch * tokens, format, work);
  work.flops += 2 * batch * past * sizes.kv_rank * heads * (sizes.nope + sizes.value);
  return work;
}

OperationWork GenerationModule(const LatentSizes& sizes, double heads, double batch, double keys,
                               double cache_bytes, GemmFormat format) {
  OperationWork work = LatentGenerationWork(sizes, heads, batch, batch * keys, cache_bytes);
  const OperationWork absorbed = AbsorbedProductWork(sizes, heads, batch, GemmFormat::kBf16);
  work.flops += 2 * absorbed.flops;
  work.bytes += 2 * absorbed.bytes;
  AddProjections(sizes, ProjectionWeights(sizes, heads, false), batch, format, work);
  return work;
}

// Index keys, their logits and the pass over these that finds the largest.
void AddIndex(double index_heads, double pairs, double keys, OperationWork& work) {
  work.other_flops += 2 * index_heads * kIndexDim * pairs / 2;  // fp8, at twice the rate
  work.bytes += kIndexKeyBytes * keys + 2 * 4 * pairs;
}

double IndexHeads(double hidden) { return hidden < 7000 ? 32 : 64; }

const LatentSizes& SparseSizes(double hidden) { return hidden < 7000 ? kGlm : kDeepSeek; }

// Sparse attention with an index: dense as latent attention up to the number of chosen keys.
OperationWork SparseContext(Sizes shape, Sizes call, std::string_view variant) {
  const LatentSizes& sizes = SparseSizes(shape[0]);
  const double heads = shape[1];
  const double batch = call[0];
  const double tokens = call[1];
  const double past = At(call, 2);
  const double pairs = Causal(batch, tokens, past);
  const double mean = pairs / (batch * tokens);
  const double cache = CacheBytes(Word(variant, 2));
  const double queries = batch * tokens;
  OperationWork work;
  if (past + tokens <= kIndexTop) {
    work = LatentContextWork(sizes, heads, queries, batch * (past + tokens), pairs);
  } else {
    work = LatentGenerationWork(sizes, heads, queries, queries * std::min(mean, kIndexTop), cache);
  }
  work.blocks = queries / kQueryTileRows;
  work.chain = tokens / kQueryTileRows;
  AddProjections(sizes, ProjectionWeights(sizes, heads, true), queries,
                 FormatOfWord(Word(variant, 1)), work);
  const bool indexed = variant.find("skip_indexer") == std::string_view::npos;
  if (indexed) AddIndex(IndexHeads(shape[0]), pairs, batch * (past + tokens), work);
  return work;
}

OperationWork SparseGeneration(Sizes shape, Sizes call, std::string_view variant) {
  const LatentSizes& sizes = SparseSizes(shape[0]);
  const double batch = call[0];
  const double keys = call[1];
  OperationWork work =
      GenerationModule(sizes, shape[1], batch, std::min(keys, kIndexTop),
                       CacheBytes(Word(variant, 2)), FormatOfWord(Word(variant, 1)));
  const bool indexed = variant.find("skip_indexer") == std::string_view::npos;
  if (indexed) AddIndex(IndexHeads(shape[0]), batch * keys, batch * keys, work);
  return work;
}

// A part of sparse attention as SGLang calls it: 64 heads of a query.
OperationWork SparsePart(Sizes call, bool logits, bool attention) {
  const double batch = call[0];
  const double queries = batch * call[1];
  const double pairs = Causal(batch, call[1], At(call, 2));
  const double keys = batch * (call[1] + At(call, 2));
  OperationWork work;
  if (attention) {
    const double chosen = std::min(pairs, queries * kIndexTop);
    work = LatentGenerationWork(kDeepSeek, kSglangHeads, queries, chosen, kBf16);
  } else if (logits) {
    work.format = GemmFormat::kFp8;
    work.flops = 2 * kSglangHeads * kIndexDim * pairs;
    work.bytes = kIndexKeyBytes * keys + 4 * pairs + queries * kSglangHeads * kIndexDim;
  } else {
    work.bytes = 4 * pairs + 4 * queries * kIndexTop;
  }
  work.blocks = queries;
  work.chain = pairs / queries / kQueryTileRows;
  return work;
}

// MiniMax-M3: grouped attention of heads of 128 over 16 blocks of 128 keys.
OperationWork BlockSparse(double heads, double batch, double tokens, double past, GemmFormat format,
                          double cache_bytes) {
  constexpr double kHidden = 6144;
  constexpr double kHeadDim = 128;
  const double pairs = Causal(batch, tokens, past);
  const double queries = batch * tokens;
  const double seen = std::min(pairs, queries * kIndexTop);
  OperationWork work;
  const double weights = kHidden * kHeadDim * (2 * heads + 4);
  work.format = format;
  work.flops = 2 * queries * weights;
  work.other_flops = 4 * seen * heads * kHeadDim + 2 * pairs * kHeadDim;
  work.bytes = weights * BytesPerValue(format) + 4 * kBf16 * queries * kHidden +
               (tokens > 1 ? batch * (past + tokens) : seen) * 2 * kHeadDim * cache_bytes +
               kBf16 * kHeadDim * batch * (past + tokens);
  work.blocks = queries * heads / kQueryTileRows;
  work.chain = pairs / queries / kSparseBlock;
  return work;
}

// A kernel of linear attention or of a state space: `key_heads` with keys and queries of `key`
// values, `heads` with values of `value`.
OperationWork Recurrent(double key_heads, double key, double heads, double value, Sizes call,
                        std::string_view variant) {
  const double batch = call[0];
  const double tokens = batch * At(call, 1);
  const bool generation = Word(variant, 0) == "generation";
  const double width = 2 * key_heads * key + heads * value;
  OperationWork work;
  if (variant.find("conv1d") != std::string_view::npos) {
    work.bytes = 2 * kBf16 * tokens * width + 2 * 3 * kBf16 * batch * width;
    work.blocks = tokens * width / (kChunk * kQueryTileRows);
    return work;
  }
  work.bytes = kBf16 * tokens * (width + heads * value) + 2 * kState * batch * heads * key * value;
  work.blocks = batch * heads;
  if (generation) {
    work.flops = 8 * tokens * heads * key * value;
    work.format = GemmFormat::kFp32;
  } else {
    work.flops = tokens * heads * (2 * kChunk * (key + value) + 4 * key * value);
    work.chain = std::ceil(At(call, 1) / kChunk);
  }
  return work;
}

Place HeadsPlace(Sizes shape) { return {Log2(shape[0])}; }
Place PairPlace(Sizes shape) { return {4 * Log2(shape[0]), Log2(shape[1])}; }
// By the sizes of one rank: of several weights these predicted shapes that were left out best.
Place ExpertsPlace(Sizes s) {
  return {Log2(s[0]), Log2(s[1] / s[4]), Log2(s[2]), Log2(s[3] / s[5]), Log2(s[5])};
}

ExpertSizes ExpertSizesOf(Sizes s) { return {s[0], s[1], s[2], s[3], s[4], s[5]}; }

std::vector<OperationKind> MakeLatentKinds() {
  std::vector<OperationKind> kinds;
  const std::vector<std::string_view> heads = {"num_heads"};
  kinds.push_back({"mla_context_kernel",
                   heads,
                   {"batch", "seq_len"},
                   {"kv_dtype", "kernel"},
                   [](Sizes s, Sizes c, std::string_view) {
                     return LatentContextWork(kDeepSeek, s[0], c[0] * c[1], c[0] * c[1],
                                              Causal(c[0], c[1], 0));
                   },
                   HeadsPlace});
  kinds.push_back({"mla_generation_kernel",
                   heads,
                   {"batch", "kv_len"},
                   {"kv_dtype", "kernel"},
                   [](Sizes s, Sizes c, std::string_view v) {
                     return LatentGenerationWork(kDeepSeek, s[0], c[0], c[0] * c[1], CacheBytes(v));
                   },
                   HeadsPlace});
  kinds.push_back({"mla_bmm",
                   heads,
                   {"num_tokens"},
                   {"bmm_dtype", "op", "kernel"},
                   [](Sizes s, Sizes c, std::string_view v) {
                     return AbsorbedProductWork(kDeepSeek, s[0], c[0], FormatOfWord(v));
                   },
                   HeadsPlace});
  for (const std::string_view name : {"mla_context_module", "mla_wide_context"}) {
    kinds.push_back({name,
                     heads,
                     {"batch", "seq_len", "past"},
                     {"gemm_dtype", "kv_dtype", "kernel"},
                     [](Sizes s, Sizes c, std::string_view v) {
                       return ContextModule(kDeepSeek, s[0], c, FormatOfWord(v));
                     },
                     HeadsPlace});
  }
  for (const std::string_view name : {"mla_generation_module", "mla_wide_generation"}) {
    kinds.push_back({name,
                     heads,
                     {"batch", "kv_len"},
                     {"gemm_dtype", "kv_dtype", "kernel"},
                     [](Sizes s, Sizes c, std::string_view v) {
                       return GenerationModule(kDeepSeek, s[0], c[0], c[1], CacheBytes(Word(v, 1)),
                                               FormatOfWord(v));
                     },
                     HeadsPlace});
  }
  return kinds;
}

std::vector<OperationKind> MakeSparseKinds() {
  std::vector<OperationKind> kinds;
  const std::vector<std::string_view> words = {"op", "gemm_dtype", "kv_dtype", "kernel"};
  kinds.push_back({"dsa_context_module",
                   {"hidden", "num_heads"},
                   {"batch", "seq_len", "past"},
                   words,
                   SparseContext,
                   PairPlace});
  kinds.push_back({"dsa_generation_module",
                   {"hidden", "num_heads"},
                   {"batch", "kv_len"},
                   words,
                   SparseGeneration,
                   PairPlace});
  const std::vector<std::string_view> call = {"batch", "seq_len", "past"};
  const auto nowhere = [](Sizes) { return Place{}; };
  kinds.push_back({"dsa_topk",
                   {},
                   call,
                   {"score_mode", "kernel"},
                   [](Sizes, Sizes c, std::string_view) { return SparsePart(c, false, false); },
                   nowhere});
  kinds.push_back({"dsa_logits",
                   {},
                   call,
                   {"kernel"},
                   [](Sizes, Sizes c, std::string_view) { return SparsePart(c, true, false); },
                   nowhere});
  kinds.push_back({"dsa_attention",
                   {},
                   call,
                   {"kernel"},
                   [](Sizes, Sizes c, std::string_view) { return SparsePart(c, false, true); },
                   nowhere});
  const std::vector<std::string_view> formats = {"gemm_dtype", "kv_dtype", "kernel"};
  kinds.push_back({"msa_context_module",
                   {"num_heads"},
                   call,
                   formats,
                   [](Sizes s, Sizes c, std::string_view v) {
                     return BlockSparse(s[0], c[0], c[1], At(c, 2), FormatOfWord(v),
                                        CacheBytes(Word(v, 1)));
                   },
                   HeadsPlace});
  kinds.push_back({"msa_generation_module",
                   {"num_heads"},
                   {"batch", "kv_len"},
                   formats,
                   [](Sizes s, Sizes c, std::string_view v) {
                     return BlockSparse(s[0], c[0], 1, c[1] - 1, FormatOfWord(v),
                                        CacheBytes(Word(v, 1)));
                   },
                   HeadsPlace});
  return kinds;
}

std::vector<OperationKind> MakeRecurrentKinds() {
  constexpr double kHead = 128;
  std::vector<OperationKind> kinds;
  const std::vector<std::string_view> call = {"batch", "seq_len"};
  const std::vector<std::string_view> words = {"phase", "kernel"};
  kinds.push_back({"gdn",
                   {"num_k_heads", "num_v_heads"},
                   call,
                   words,
                   [](Sizes s, Sizes c, std::string_view v) {
                     return Recurrent(s[0], kHead, s[1], kHead, c, v);
                   },
                   [](Sizes s) {
                     return Place{Log2(s[0]), Log2(s[1])};
                   }});
  kinds.push_back({"kda",
                   {"num_k_heads"},
                   call,
                   words,
                   [](Sizes s, Sizes c, std::string_view v) {
                     return Recurrent(s[0], kHead, s[0], kHead, c, v);
                   },
                   HeadsPlace});
  kinds.push_back(
      {"mamba2",
       {"nheads", "head_dim", "d_state", "n_groups"},
       call,
       words,
       [](Sizes s, Sizes c, std::string_view v) { return Recurrent(s[3], s[2], s[0], s[1], c, v); },
       [](Sizes s) {
         return Place{Log2(s[0]), Log2(s[1]), Log2(s[2]), 0.5 * Log2(s[3])};
       }});
  return kinds;
}

std::vector<OperationKind> MakeExpertKinds() {
  std::vector<OperationKind> kinds;
  for (const std::string_view name : {"moe_vllm", "moe_sglang", "moe_trtllm"}) {
    kinds.push_back(
        {name,
         {"hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"},
         {"num_tokens"},
         {"moe_dtype", "distribution", "kernel"},
         [](Sizes s, Sizes c, std::string_view v) {
           return ExpertsWork(ExpertSizesOf(s), c[0], FormatOfWord(v));
         },
         ExpertsPlace});
  }
  const auto quantised = [](Sizes s, Sizes c, std::string_view) {
    OperationWork work;
    work.bytes = 3 * s[0] * c[0];
    work.blocks = c[0];
    return work;
  };
  for (const std::string_view name : {"compute_scale", "scale_matrix"}) {
    kinds.push_back({name, {"k"}, {"m"}, {"kernel"}, quantised, HeadsPlace});
  }
  return kinds;
}

}  // namespace

OperationWork LatentContextWork(const LatentSizes& sizes, double heads, double tokens,
                                double context, double pairs) {
  const double key = sizes.nope + sizes.rope;
  OperationWork work;
  work.flops = 2 * heads * pairs * (key + sizes.value);
  work.bytes = kBf16 * heads * (tokens + context) * (key + sizes.value);
  work.blocks = tokens * heads / kQueryTileRows;
  work.chain = tokens > 0 ? pairs / tokens / kQueryTileRows : 0;
  return work;
}

OperationWork LatentGenerationWork(const LatentSizes& sizes, double heads, double queries,
                                   double pairs, double bytes) {
  OperationWork work;
  work.flops = 2 * heads * pairs * (2 * sizes.kv_rank + sizes.rope);
  work.bytes = bytes * pairs * (sizes.kv_rank + sizes.rope) +
               kBf16 * heads * queries * (2 * sizes.kv_rank + sizes.rope);
  work.blocks = queries;
  return work;
}

OperationWork AbsorbedProductWork(const LatentSizes& sizes, double heads, double tokens,
                                  GemmFormat format) {
  OperationWork work;
  const double weights = heads * sizes.kv_rank * sizes.nope;
  work.format = format;
  work.flops = 2 * tokens * weights;
  work.bytes =
      weights * BytesPerValue(format) + kBf16 * tokens * heads * (sizes.kv_rank + sizes.nope);
  work.blocks = heads * std::ceil(tokens / kQueryTileRows);
  return work;
}

OperationWork ExpertsWork(const ExpertSizes& s, double tokens, GemmFormat format) {
  constexpr double kProjections = 3;   // gate, up, down
  constexpr double kPaddingRows = 16;  // of an expert that has tokens
  const double local = std::max(1.0, s.experts / s.ep_ranks);
  const double pairs = tokens * s.experts_per_token / s.ep_ranks;
  const double touched = std::max(
      std::min(1.0, pairs), local * (1 - std::pow(1 - s.experts_per_token / s.experts, tokens)));
  const double width = s.intermediate / s.tp_ranks;
  const double weights = kProjections * s.hidden * width;
  OperationWork work;
  work.format = format;
  work.flops = 2 * weights * (pairs + kPaddingRows * touched);
  work.bytes = touched * weights * BytesPerValue(format) +
               kBf16 * pairs * (2 * s.hidden + kProjections * width);
  work.blocks = touched;
  return work;
}

GemmFormat FormatOfWord(std::string_view variant) {
  const std::string_view word = variant.substr(0, variant.find(' '));
  if (word == "fp8") return GemmFormat::kFp8;
  if (word == "fp8_block") return GemmFormat::kFp8Block;
  if (word == "nvfp4" || word == "fp4") return GemmFormat::kFp4;
  if (word == "int4_wo" || word == "int4") return GemmFormat::kInt4;
  if (word == "w4a16_mxfp4" || word == "mxfp4") return GemmFormat::kMxfp4;
  if (word == "w4a8_mxfp4_mxfp8" || word == "mxfp4_fp8") return GemmFormat::kMxfp4Fp8;
  return GemmFormat::kBf16;
}

std::span<const OperationKind> OperationKinds() {
  static const std::vector<OperationKind> kinds = [] {
    std::vector<OperationKind> all;
    for (auto make : {MakeLatentKinds, MakeSparseKinds, MakeRecurrentKinds, MakeExpertKinds}) {
      std::ranges::copy(make(), std::back_inserter(all));
    }
    return all;
  }();
  return kinds;
}

const OperationKind* OperationKindOf(std::string_view name) {
  const std::span<const OperationKind> kinds = OperationKinds();
  const auto found = std::ranges::find(kinds, name, &OperationKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace twin::sim
