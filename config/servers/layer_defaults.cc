#include "config/servers/layer_defaults.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/dtype.h"
#include "core/layer_groups.h"
#include "core/letter_case.h"

namespace twin {
namespace {

constexpr std::array kLayerKinds = {LayerKind::kFull,   LayerKind::kWindow,  LayerKind::kChunked,
                                    LayerKind::kLatent, LayerKind::kIndexed, LayerKind::kLinear,
                                    LayerKind::kMamba};

std::string InSmallLetters(std::string text) {
  std::ranges::transform(text, text.begin(), LowerCase);
  return text;
}

bool NamesOneOf(std::string_view text, std::string_view words) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find('|'), words.size());
    if (text.find(words.substr(0, end)) != std::string_view::npos) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

LayerKind LayerKindOf(const LayerSpec& layer) {
  if (layer.recurrent) {
    return layer.recurrent->kind == RecurrentKind::kMamba2 ? LayerKind::kMamba : LayerKind::kLinear;
  }
  if (layer.latent) return layer.latent->index_heads > 0 ? LayerKind::kIndexed : LayerKind::kLatent;
  if (layer.chunk > 0) return LayerKind::kChunked;
  return layer.sliding_window > 0 ? LayerKind::kWindow : LayerKind::kFull;
}

bool KeepsState(LayerKind kind) { return kind == LayerKind::kLinear || kind == LayerKind::kMamba; }

void ApplyRule(const LayerRule& rule, LayerDefaults& defaults) {
  const auto set = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  set(rule.prefix_caching, defaults.prefix_caching);
  set(rule.chunks, defaults.chunks);
  set(rule.ahead, defaults.ahead);
  set(rule.block_size, defaults.block_size);
  set(rule.format, defaults.format);
  set(rule.own_pool, defaults.own_pool);
  set(rule.difference, defaults.difference);
  set(rule.stage_difference, defaults.stage_difference);
}

// Leaves in `all` what layers of one more kind allow, too.
void JoinKinds(const LayerDefaults& kind, bool keeps_state, LayerDefaults& all) {
  all.prefix_caching = all.prefix_caching && kind.prefix_caching;
  all.chunks = std::min(all.chunks, kind.chunks);
  all.ahead = std::min(all.ahead, kind.ahead);
  all.block_size = std::max(all.block_size, kind.block_size);
  all.own_pool = all.own_pool || kind.own_pool;
  if (!keeps_state && kind.format != KeptFormat::kModel) all.format = kind.format;
}

void AddDifference(const DefaultDifference& difference, std::vector<DefaultDifference>& all) {
  const bool known = std::ranges::find(all, difference.text, &DefaultDifference::text) != all.end();
  if (!difference.text.empty() && !known) all.push_back(difference);
}

}  // namespace

std::vector<LayerKind> KindsOf(const ModelSpec& model) {
  LayerKinds found = 0;
  for (const LayerGroup& group : OrderedLayers(model)) {
    const bool attends = group.layer.query_heads > 0 || group.layer.recurrent;
    if (attends) found |= static_cast<LayerKinds>(LayerKindOf(group.layer));
  }
  std::vector<LayerKind> kinds;
  for (const LayerKind kind : kLayerKinds) {
    if ((found & static_cast<LayerKinds>(kind)) != 0) kinds.push_back(kind);
  }
  return kinds;
}

DeviceClass ClassOf(const HardwareSpec& hardware) {
  const std::string name = InSmallLetters(hardware.name);
  if (NamesOneOf(name, "b200|b300|b100")) return DeviceClass::kBlackwell;
  return NamesOneOf(name, "h100|h200|h800|h20|gh200") ? DeviceClass::kHopper : DeviceClass::kOther;
}

LayerDefaults DefaultsOfKind(std::span<const LayerRule> rules, const ServerVersion& version,
                             LayerKind kind, const LayerCase& layer) {
  LayerDefaults defaults;
  const std::string name = InSmallLetters(std::string(layer.model));
  for (const LayerRule& rule : rules) {
    if (rule.since > version || (rule.kinds & static_cast<LayerKinds>(kind)) == 0) continue;
    if (rule.device && *rule.device != layer.device) continue;
    if (rule.of_8_bits && !layer.of_8_bits) continue;
    if (!rule.models.empty() && !NamesOneOf(name, rule.models)) continue;
    ApplyRule(rule, defaults);
  }
  return defaults;
}

LayerDefaults DefaultsOfModel(std::span<const LayerRule> rules, const ServerVersion& version,
                              const ModelSpec& model, const HardwareSpec& hardware) {
  const std::vector<LayerKind> kinds = KindsOf(model);
  const bool keeps_all = std::ranges::any_of(kinds, [](LayerKind kind) {
    return kind == LayerKind::kFull || kind == LayerKind::kLatent || kind == LayerKind::kIndexed;
  });
  LayerDefaults all{.prefix_caching = true,
                    .chunks = DefaultChunks::kOn,
                    .ahead = PlansAhead::kAlways,
                    .block_size = 0};
  const LayerCase layer{
      .device = ClassOf(hardware), .model = model.name, .of_8_bits = ByteSize(model.kv_dtype) == 1};
  for (const LayerKind kind : kinds) {
    const LayerDefaults one = DefaultsOfKind(rules, version, kind, layer);
    JoinKinds(one, KeepsState(kind), all);
    if (one.difference.matters != DifferenceMatters::kBesideFullLayers || keeps_all) {
      AddDifference(one.difference, all.differences);
    }
    AddDifference(one.stage_difference, all.differences);
  }
  return all;
}

}  // namespace twin
