// Source of the fields: config.json of nvidia/Llama-3_3-Nemotron-Super-49B-v1 and
// nvidia/Llama-3_1-Nemotron-Ultra-253B-v1; the width of an MLP: release 0.5.23 of SGLang.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "config/models/layered_readers.h"

namespace twin {
namespace {

enum class BlockPart : std::uint8_t { kNone, kLinear, kWhole };

// An attention or MLP that may be missing, or one matrix [hidden, hidden].
BlockPart ReadBlockPart(const ConfigFields& part) {
  if (part.Flag("no_op", false)) return BlockPart::kNone;
  return part.Flag("replace_with_linear", false) ? BlockPart::kLinear : BlockPart::kWhole;
}

// ffn_mult is relative to an MLP without a gate: two thirds of it, in multiples of 256.
std::int32_t MlpWidthOf(const ConfigFields& mlp, std::int32_t hidden) {
  if (mlp.Has("intermediate_size")) return mlp.Size("intermediate_size");
  constexpr double kMultiple = 256;
  const double whole = std::floor(2 * mlp.Positive("ffn_mult") * hidden / 3);
  const double width = std::ceil(whole / kMultiple) * kMultiple;
  if (width < 1 || width > std::numeric_limits<std::int32_t>::max()) {
    mlp.Refuse(
        fmt::format("ffn_mult makes the MLP {:.0f} wide, must be from 1 to 2^31 - 1", width));
  }
  return static_cast<std::int32_t>(width);
}

void ReadBlockAttention(const ConfigFields& attention, const LayerSpec& heads, LayerSpec& layer) {
  attention.RefuseOthers({"no_op", "replace_with_linear", "n_heads_in_group"});
  const BlockPart part = ReadBlockPart(attention);
  if (part == BlockPart::kNone) return;
  ++layer.norms_per_layer;
  if (part == BlockPart::kLinear) {
    ++layer.linears;
    return;
  }
  const std::int32_t in_group = attention.Size("n_heads_in_group");
  if (heads.query_heads % in_group != 0) {
    attention.Refuse(fmt::format("n_heads_in_group is {}, must divide num_attention_heads {}",
                                 in_group, heads.query_heads));
  }
  layer.query_heads = heads.query_heads;
  layer.kv_heads = heads.query_heads / in_group;
  layer.head_dim = heads.head_dim;
  layer.qkv_bias = layer.output_bias = heads.qkv_bias;
}

ConfigFields PartOf(const ConfigFields& block, const char* field) {
  const auto part = block.Object(field);
  if (!part) block.Refuse(fmt::format("{} is missing, must be an object", field));
  return *part;
}

ModelSpec ReadNemotronNas(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  const std::int32_t hidden = fields.Size("hidden_size");
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = fields.Flag("attention_bias", false);
  const bool mlp_bias = fields.Flag("mlp_bias", false);
  const std::vector<ConfigFields> blocks = fields.Blocks("block_configs", layers);
  std::vector<LayerSpec> list;
  for (const ConfigFields& block : blocks) {
    block.RefuseOthers({"attention", "ffn"});
    LayerSpec layer;
    layer.norms_per_layer = 0;
    ReadBlockAttention(PartOf(block, "attention"), heads, layer);
    const ConfigFields mlp = PartOf(block, "ffn");
    mlp.RefuseOthers({"no_op", "replace_with_linear", "ffn_mult", "intermediate_size"});
    const BlockPart part = ReadBlockPart(mlp);
    if (part != BlockPart::kNone) ++layer.norms_per_layer;
    if (part == BlockPart::kLinear) ++layer.linears;
    if (part == BlockPart::kWhole) {
      layer.intermediate = MlpWidthOf(mlp, hidden);
      layer.mlp_bias = mlp_bias;
    }
    list.push_back(layer);
  }
  return ReadFrame(fields, list);
}

constexpr std::array kBlockReaders = {LayeredReader{"nemotron-nas", ReadNemotronNas}};

}  // namespace

std::span<const LayeredReader> BlockReaders() { return kBlockReaders; }

}  // namespace twin
