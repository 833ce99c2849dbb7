// The kinds of operations with tables of their own: their sizes, and the work of a call.
//
// Names and columns are those of the tables of aiconfigurator that the project imports. Sizes are
// those of one rank where a column is not said to be of a whole model.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "sim/devices/operations/operation_form.h"

namespace twin::sim {

inline constexpr std::size_t kPlacesMax = 5;

struct OperationKind {
  std::string_view name;
  std::vector<std::string_view> shape;    // columns that are the same in all calls of a layer
  std::vector<std::string_view> call;     // columns of the grid's axes, one to three
  std::vector<std::string_view> variant;  // columns of words, the most important first
  // Work of a call. `variant`: words.
  OperationWork (*work)(std::span<const double> shape, std::span<const double> call,
                        std::string_view variant) = nullptr;
  // Coordinates by which shapes resemble each other, in octaves.
  std::array<double, kPlacesMax> (*place)(std::span<const double> shape) = nullptr;
};

[[nodiscard]] std::span<const OperationKind> OperationKinds();
// Null: no such kind.
[[nodiscard]] const OperationKind* OperationKindOf(std::string_view name);

// The sizes of latent attention (DeepSeek-V2 and after, Kimi, GLM-5).
struct LatentSizes {
  double hidden = 7168;
  double query_rank = 1536;
  double kv_rank = 512;
  double rope = 64;
  double nope = 128;  // of a key; without rotary positions
  double value = 128;
};

// Attention of prompts, with keys of nope + rope and values for each of `heads`: `tokens` queries
// that see `pairs` keys, and `context` keys in all.
[[nodiscard]] OperationWork LatentContextWork(const LatentSizes& sizes, double heads, double tokens,
                                              double context, double pairs);
// Absorbed attention: each query of `heads` reads the cache, kv_rank + rope values of `bytes` bytes
// for a key, once for all heads. `keys` and `pairs` of all `queries`.
[[nodiscard]] OperationWork LatentGenerationWork(const LatentSizes& sizes, double heads,
                                                 double queries, double pairs, double bytes);
// One of the two batched products that surround absorbed attention.
[[nodiscard]] OperationWork AbsorbedProductWork(const LatentSizes& sizes, double heads,
                                                double tokens, GemmFormat format);

// The experts of a layer on one rank: experts / ep_ranks of them, each intermediate / tp_ranks
// wide. `tokens` of all ranks.
struct ExpertSizes {
  double hidden = 0;
  double intermediate = 0;
  double experts_per_token = 0;
  double experts = 0;
  double tp_ranks = 1;
  double ep_ranks = 1;
};
[[nodiscard]] OperationWork ExpertsWork(const ExpertSizes& sizes, double tokens, GemmFormat format);

// The format that the first word of a variant names; bf16 for an unknown one.
[[nodiscard]] GemmFormat FormatOfWord(std::string_view variant);

}  // namespace twin::sim
