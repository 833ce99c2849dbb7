#include "config/models/excluded_modules.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <regex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/layer_groups.h"
#include "core/printable.h"

namespace twin {
namespace {

// Modules that ModelSpec counts in no part with a format, or not at all.
bool IsUncounted(std::string_view name) {
  constexpr std::array kAnywhere = {"lm_head",      "embed_tokens", "embeddings",
                                    "visual",       "vision",       "multi_modal",
                                    "mm_projector", "audio",        "e_score_correction_bias",
                                    "norm",         "mtp",          "eh_proj"};
  constexpr std::array kAtEnd = {
      "gate",         "router",     "router.*",        "shared_expert_gate",
      "conv1d",       "in_proj_ba", "in_proj_a",       "in_proj_b",
      "weights_proj", "g_proj",     "indexers_proj",   "b_proj",
      "f_a_proj",     "f_b_proj",   "fc1_latent_proj", "fc2_latent_proj"};
  const auto contains = [name](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  };
  while (name.ends_with('*') || name.ends_with('$')) name.remove_suffix(1);
  const std::size_t dot = name.find_last_of(".*");
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  return std::ranges::any_of(kAnywhere, contains) ||
         std::ranges::find(kAtEnd, last) != kAtEnd.end();
}

// Whether the name is one of a layer behind the model's own, such as that of DeepSeek's module of
// multi-token prediction.
bool IsBehindLayers(std::string_view name, std::int32_t layers) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.find(kLayers);
  if (at == std::string_view::npos) return false;
  std::int32_t index = -1;
  const char* const begin = name.data() + at + kLayers.size();
  (void)std::from_chars(begin, name.data() + name.size(), index);
  return index >= layers;
}

// A matrix by its names in checkpoints of different families, behind the layer's name.
using Matrix = std::vector<std::string>;

std::vector<Matrix> Mlp(std::span<const char* const> blocks, bool gated) {
  Matrix gate;
  Matrix up;
  Matrix down;
  for (const std::string block : blocks) {
    for (const char* const name : {".gate_proj", ".w1", ".gate_up_proj"})
      gate.push_back(block + name);
    for (const char* const name : {".up_proj", ".w3", ".gate_up_proj"}) up.push_back(block + name);
    for (const char* const name : {".down_proj", ".w2"}) down.push_back(block + name);
  }
  if (gated) return {gate, up, down};
  return {up, down};
}

std::vector<Matrix> Attention(const LayerSpec& layer) {
  if (!layer.latent) {
    std::vector<Matrix> matrices;
    for (const char* const part : {"q", "k", "v"}) {
      matrices.push_back({fmt::format("self_attn.{}_proj", part), "self_attn.qkv_proj",
                          fmt::format("mixer.{}_proj", part),
                          fmt::format("self_attention.{}_proj", part),
                          "attention.query_key_value"});
    }
    matrices.push_back(
        {"self_attn.o_proj", "mixer.o_proj", "self_attention.o_proj", "attention.dense"});
    return matrices;
  }
  std::vector<Matrix> matrices = {
      {"self_attn.kv_a_proj_with_mqa", "self_attn.fused_qkv_a_proj_with_mqa"},
      {"self_attn.kv_b_proj"},
      {"self_attn.o_proj"}};
  if (layer.latent->query_rank > 0) {
    matrices.push_back({"self_attn.q_a_proj", "self_attn.fused_qkv_a_proj_with_mqa"});
    matrices.push_back({"self_attn.q_b_proj"});
  } else {
    matrices.push_back({"self_attn.q_proj"});
  }
  if (layer.latent->owns_index()) {
    matrices.push_back({"self_attn.indexer.wq_b"});
    matrices.push_back({"self_attn.indexer.wk"});
  }
  return matrices;
}

std::vector<Matrix> Recurrent(const RecurrentSpec& recurrent) {
  switch (recurrent.kind) {
    case RecurrentKind::kGatedDelta:
      return {{"linear_attn.in_proj_qkvz", "linear_attn.in_proj_qkv"},
              {"linear_attn.in_proj_qkvz", "linear_attn.in_proj_z"},
              {"linear_attn.out_proj"}};
    case RecurrentKind::kKimiDelta:
      return {
          {"self_attn.q_proj"}, {"self_attn.k_proj"}, {"self_attn.v_proj"}, {"self_attn.o_proj"}};
    case RecurrentKind::kMamba2:
      return {{"mixer.in_proj", "mamba.in_proj"}, {"mixer.out_proj", "mamba.out_proj"}};
    case RecurrentKind::kLightning:
      return {{"self_attn.qkv_proj", "self_attn.query_key_value"},
              {"self_attn.output_gate", "self_attn.g_proj"},
              {"self_attn.out_proj", "self_attn.dense"}};
  }
  return {};
}

constexpr const char* kDense[] = {"mlp", "feed_forward", "mixer", "shared_mlp"};
constexpr const char* kShared[] = {"mlp.shared_expert",
                                   "mlp.shared_experts",
                                   "feed_forward.shared_expert",
                                   "mixer.shared_experts",
                                   "block_sparse_moe.shared_experts",
                                   "shared_mlp"};
constexpr const char* kExperts[] = {"mlp.experts.0",
                                    "mlp.experts",
                                    "block_sparse_moe.experts.0",
                                    "block_sparse_moe.experts",
                                    "feed_forward.experts",
                                    "mixer.experts.0"};

// Whether entries name a module, by whichever of their kinds.
class Entries {
 public:
  Entries(const ConfigFields& stored, const char* field, const std::vector<std::string>& entries)
      : stored_(stored), field_(field), names_(entries), used_(entries.size(), false) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const std::string& name = names_[i];
      if (name.starts_with("re:")) {
        try {
          expressions_.emplace_back(i, std::regex(name.substr(3)));
        } catch (const std::regex_error&) {
          Refuse(name, "is no regular expression that is read");
        }
      } else if (name.find('*') != std::string::npos) {
        patterns_.push_back(i);
      } else {
        exact_.emplace(name, i);
      }
    }
  }

  [[noreturn]] void Refuse(const std::string& what, std::string_view why) const {
    stored_.Refuse(fmt::format("{} has '{}', which {}", field_, Printable(what), why));
  }

  [[nodiscard]] std::string NoteOf(std::size_t out, std::size_t all, const char* part) const {
    return fmt::format("{} leaves {} of the {} matrices of {} in 16 bits; all {} are computed so",
                       field_, out, all, part, all);
  }

  // Marks the entries that name the module.
  bool Has(const std::string& module) {
    bool found = false;
    const auto use = [&](std::size_t i) { used_[i] = found = true; };
    for (std::size_t end = module.size(); end != std::string::npos;
         end = end == 0 ? std::string::npos : module.find_last_of('.', end - 1)) {
      if (const auto known = exact_.find(module.substr(0, end)); known != exact_.end()) {
        use(known->second);
      }
    }
    for (const std::size_t i : patterns_) {
      if (fnmatch(names_[i].c_str(), module.c_str(), 0) == 0) use(i);
    }
    for (const auto& [i, expression] : expressions_) {
      if (std::regex_search(module, expression, std::regex_constants::match_continuous)) use(i);
    }
    return found;
  }

  void RequireKnown(std::int32_t layers) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const std::string_view name = names_[i];
      if (used_[i] || IsUncounted(name) || IsBehindLayers(name, layers)) continue;
      Refuse(names_[i],
             "names no module of this model; allowed: modules of its layers, head, "
             "embedding, routers and norms");
    }
  }

 private:
  const ConfigFields& stored_;
  const char* field_;
  const std::vector<std::string>& names_;
  std::vector<bool> used_;
  std::unordered_map<std::string, std::size_t> exact_;
  std::vector<std::size_t> patterns_;
  std::vector<std::pair<std::size_t, std::regex>> expressions_;
};

bool IsLeftOut(Entries& entries, std::int32_t layer, const Matrix& matrix) {
  constexpr const char* kPrefixes[] = {
      "model.layers",    "model.language_model.layers",    "language_model.model.layers",
      "backbone.layers", "language_model.backbone.layers", "transformer.layers"};
  bool left_out = false;
  for (const std::string& name : matrix) {
    for (const char* const prefix : kPrefixes) {
      left_out |= entries.Has(fmt::format("{}.{}.{}", prefix, layer, name));
    }
  }
  return left_out;
}

// Counts the layers that have a part, and those in which it is left out: most of its matrices are.
struct PartCount {
  const char* name;
  std::int32_t layers = 0;
  std::int32_t left_out = 0;
  std::string note = {};  // on a part of which a matrix is not left out

  void Add(Entries& entries, std::int32_t layer, const std::vector<Matrix>& matrices) {
    ++layers;
    std::size_t out = 0;
    for (const Matrix& matrix : matrices) {
      if (IsLeftOut(entries, layer, matrix)) ++out;
    }
    if (2 * out > matrices.size()) {
      ++left_out;
      if (out < matrices.size()) note = entries.NoteOf(out, matrices.size(), name);
    } else if (out > 0) {
      entries.Refuse(
          fmt::format("layers.{}", layer),
          fmt::format("leaves out {} of the {} matrices of {}; allowed: none, or most of them", out,
                      matrices.size(), name));
    }
  }
  void SetFormat(const Entries& entries, std::optional<DType>& format, std::string& notes) const {
    if (left_out == 0) return;
    if (!note.empty()) notes += (notes.empty() ? "" : "; ") + note;
    if (left_out < layers) {
      entries.Refuse(name, fmt::format("is left out in {} of {} layers; allowed: all or none",
                                       left_out, layers));
    }
    format = DType::kBf16;
  }
};

}  // namespace

void LeaveIn16Bits(const ConfigFields& stored, const char* field,
                   const std::vector<std::string>& entries, const ModelSpec& shape,
                   WeightFormats& formats, std::string& note) {
  if (entries.empty()) return;
  Entries names(stored, field, entries);
  PartCount attention{"attention"};
  PartCount recurrent{"recurrent layers"};
  PartCount dense{"dense MLPs"};
  PartCount shared{"shared experts"};
  PartCount experts{"experts"};
  std::int32_t index = 0;
  for (const LayerGroup& group : OrderedLayers(shape)) {
    const LayerSpec& layer = group.layer;
    for (const std::int32_t end = index + group.layers; index < end; ++index) {
      if (layer.recurrent) {
        recurrent.Add(names, index, Recurrent(*layer.recurrent));
      } else if (layer.query_heads > 0) {
        attention.Add(names, index, Attention(layer));
      }
      if (layer.moe.experts == 0) {
        if (layer.intermediate > 0) dense.Add(names, index, Mlp(kDense, layer.gated_mlp));
        continue;
      }
      experts.Add(names, index, Mlp(kExperts, layer.gated_mlp));
      if (layer.moe.shared_intermediate > 0) {
        shared.Add(names, index, Mlp(kShared, layer.gated_mlp));
      }
    }
  }
  names.RequireKnown(index);
  attention.SetFormat(names, formats.attention, note);
  recurrent.SetFormat(names, formats.recurrent, note);
  dense.SetFormat(names, formats.dense, note);
  shared.SetFormat(names, formats.shared, note);
  experts.SetFormat(names, formats.experts, note);
}

}  // namespace twin
