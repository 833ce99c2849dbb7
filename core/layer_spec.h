// The shape of one layer of a transformer: how it mixes tokens, and its MLP.
//
// The fields say which kind of attention a layer has: `latent` is set, `recurrent` is set, it has
// query heads and neither of them, or it has none.
#pragma once

#include <cstdint>
#include <optional>

namespace twin {

// The mixture of experts that replaces each layer's MLP. `experts` = 0: the MLP is dense.
struct MoeSpec {
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
  std::int32_t expert_intermediate = 0;
  // Width of the shared expert, an MLP applied to every token; 0 = none. Several shared experts
  // count as one of their total width.
  std::int32_t shared_intermediate = 0;
  bool shared_gate = true;  // the shared expert has a sigmoid gate [hidden]
  // Width that the experts compute in, between two projections of `hidden`; 0 = `hidden`.
  std::int32_t latent = 0;
  bool selection_bias = false;  // the choice of experts adds a learned number to each score
  bool router_bias = false;
  bool expert_bias = false;             // of gate, up and down projections of the experts alone
  std::int32_t identity_experts = 0;    // choices of the router that return their input
  std::int32_t dense_intermediate = 0;  // width of a dense MLP in parallel to the experts; 0 = none

  bool operator==(const MoeSpec&) const = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads are
// projections of one vector of `kv_rank` numbers a token, which the cache holds with a rotated key
// of `rope_dim` numbers that all heads share.
struct LatentSpec {
  std::int32_t query_rank = 0;  // 0 = queries are projected from `hidden` at once
  std::int32_t kv_rank = 0;
  std::int32_t nope_dim = 0;  // part of a head's key without position
  std::int32_t rope_dim = 0;
  std::int32_t value_dim = 0;  // of a head
  // The sparse index (DeepSeek-V3.2): heads that score all keys, of which `index_keys` are read;
  // index_heads 0 = none. A layer may reuse the choice of the layer before it.
  std::int32_t index_heads = 0;
  std::int32_t index_dim = 0;
  std::int32_t index_keys = 0;
  bool reuses_index = false;

  [[nodiscard]] bool owns_index() const { return index_heads > 0 && !reuses_index; }
  bool operator==(const LatentSpec&) const = default;
};

enum class RecurrentKind : std::uint8_t {
  kGatedDelta,  // Gated DeltaNet (arXiv 2412.06464)
  kKimiDelta,   // Kimi Delta Attention (arXiv 2510.26692)
  kMamba2,      // Mamba-2 (arXiv 2405.21060): key_dim = state, key_heads = groups
  kLightning,   // lightning attention (arXiv 2401.04658)
};

// Attention whose cache is a state of fixed size: value_heads x key_dim x value_dim numbers, and
// the latest inputs of a convolution.
struct RecurrentSpec {
  RecurrentKind kind = RecurrentKind::kGatedDelta;
  std::int32_t key_heads = 0;
  std::int32_t value_heads = 0;
  std::int32_t key_dim = 0;
  std::int32_t value_dim = 0;
  std::int32_t convolution = 4;  // taps; 0 = no convolution
  bool full_rank_gate = false;   // kKimiDelta: the output gate is one matrix
  bool full_rank_decay = false;  // kKimiDelta: so is the product that gives the decay
  // Bytes of a number of the state; the convolution's have 2. 0: config.json names no format: 4,
  // but 2 in vLLM's KV groups, which keep the format of the activations.
  std::int32_t state_value_bytes = 4;

  bool operator==(const RecurrentSpec&) const = default;
};

// Block-sparse attention (MiniMax-M3): heads of an index choose blocks of keys.
struct BlockIndexSpec {
  std::int32_t heads = 0;
  std::int32_t dim = 0;
  std::int32_t block = 0;   // keys
  std::int32_t blocks = 0;  // that a query reads

  bool operator==(const BlockIndexSpec&) const = default;
};

enum class OutputGate : std::uint8_t { kNone, kFull, kHead };  // of the attention's output

// Fields have the meaning that they have in public config.json files. Counts are for the whole
// layer, not for one rank.
struct LayerSpec {
  std::int32_t query_heads = 0;  // 0 = no attention, unless `recurrent` is set
  // Queries are products of two factors of this rank, with a norm between them (Step-3, arXiv
  // 2507.19427); 0 = of one matrix. Not with `latent`, which has a rank of its own.
  std::int32_t query_rank = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t value_dim = 0;       // of a head's value; 0 = head_dim
  std::int32_t sliding_window = 0;  // keys that a query sees, itself included; 0 = all
  std::int32_t chunk = 0;           // a query sees keys of its chunk of this many alone; 0 = all
  bool qkv_bias = false;
  bool output_bias = false;   // the attention's output projection has a bias
  bool qk_norm = false;       // a norm of width head_dim on queries and on keys
  bool full_qk_norm = false;  // qk_norm is one norm over all heads' queries, and one over all keys
  bool sinks = false;         // a learned logit for each query head
  bool keys_are_values = false;  // one projection for both; the cache holds both
  OutputGate output_gate = OutputGate::kNone;
  std::optional<LatentSpec> latent;        // with query_heads
  std::optional<RecurrentSpec> recurrent;  // query_heads and kv_heads are 0
  std::optional<BlockIndexSpec> block_index;

  std::int32_t intermediate = 0;  // width of the dense MLP; 0 = none; unused if moe.experts > 0
  bool gated_mlp = true;          // gate, up and down projections; otherwise up and down
  bool mlp_bias = false;
  MoeSpec moe;
  std::int32_t norms_per_layer = 2;
  std::int32_t scales_per_layer = 0;  // further learned numbers
  // Matrices [hidden, hidden] that take the place of attention or MLP (DeciLM).
  std::int32_t linears = 0;

  [[nodiscard]] bool has_mlp() const { return moe.experts > 0 || intermediate > 0; }
  // Outputs that the ranks of a tensor-parallel group sum or gather.
  [[nodiscard]] std::int32_t reductions() const {
    return (query_heads > 0 || recurrent ? 1 : 0) + (has_mlp() ? 1 : 0) + linears;
  }
  // A layer that has nothing returns its input; without norms it is one on purpose.
  [[nodiscard]] bool is_empty() const { return reductions() == 0 && norms_per_layer == 0; }
  [[nodiscard]] std::int32_t value_width() const { return value_dim > 0 ? value_dim : head_dim; }
  bool operator==(const LayerSpec&) const = default;
};

// Equal layers that follow each other.
struct LayerGroup {
  std::int32_t layers = 0;
  LayerSpec layer;

  bool operator==(const LayerGroup&) const = default;
};

}  // namespace twin
