// Decisions that a release of a server makes by itself, by the kinds of a model's layers.
//
// Each server has one table of rules in its own source. A rule changes some decisions from a
// release on, for some kinds of layers; what it leaves open stays as the rules before it say.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/servers/server_name.h"
#include "core/hardware_spec.h"
#include "core/model_spec.h"

namespace twin {

// Sets of kinds are sums.
enum class LayerKind : std::uint8_t {
  kFull = 1,      // all keys and values
  kWindow = 2,    // those of a sliding window
  kChunked = 4,   // those of the current chunk (Llama 4)
  kLatent = 8,    // latent vectors (MLA)
  kIndexed = 16,  // latent vectors of which a sparse index chooses some (DeepSeek-V3.2)
  kLinear = 32,   // states of linear attention (Gated DeltaNet, Kimi Delta, lightning attention)
  kMamba = 64,    // states of Mamba-2
};
using LayerKinds = std::uint8_t;
inline constexpr LayerKinds kAllLayerKinds = 127;
constexpr LayerKinds Kinds(std::initializer_list<LayerKind> kinds) {
  LayerKinds sum = 0;
  for (const LayerKind kind : kinds) sum = static_cast<LayerKinds>(sum | static_cast<int>(kind));
  return sum;
}
inline constexpr LayerKinds kWindowKinds = Kinds({LayerKind::kWindow, LayerKind::kChunked});
inline constexpr LayerKinds kLatentKinds = Kinds({LayerKind::kLatent, LayerKind::kIndexed});
inline constexpr LayerKinds kStateKinds = Kinds({LayerKind::kLinear, LayerKind::kMamba});

// GPUs whose kernels of attention want blocks of different sizes, or formats.
enum class DeviceClass : std::uint8_t { kHopper, kBlackwell, kOther };

// Whether prompts are computed in chunks, least first.
enum class DefaultChunks : std::uint8_t {
  kOff,
  kLongContexts,  // of more than kLongContext tokens
  kOn,
};
inline constexpr std::int32_t kLongContext = 32'768;

// Whether steps are planned ahead of the results of the steps before them, least first.
enum class PlansAhead : std::uint8_t {
  kNo,
  kOneStage,  // unless a pipeline has several stages
  kAlways,
};

// The format of what layers keep, where neither config.json nor an option says.
enum class KeptFormat : std::uint8_t { kModel, kFp8, k16Bits, k32Bits };

// When a difference changes what a run gives.
enum class DifferenceMatters : std::uint8_t {
  kAlways,
  kBesideFullLayers,  // where other layers of the model keep all tokens
  kSharedPrefixes,    // where prompts share prefixes and the policy caches them
  kUncachedPrefixes,  // where prompts share prefixes; the policy has no cache of them
  kStages,            // with several stages of a pipeline
};

// A line of a run whose release does something else than the simulation.
struct DefaultDifference {
  std::string_view text;  // what the server does, then what is done here; empty: nothing differs
  DifferenceMatters matters = DifferenceMatters::kAlways;
};

struct LayerRule {
  ServerVersion since{};
  LayerKinds kinds = kAllLayerKinds;
  std::string_view source;
  std::optional<DeviceClass> device = std::nullopt;  // unset: all
  // Words, with '|' between them, of which a model's name has one; empty: all models.
  std::string_view models = "";
  bool of_8_bits = false;  // only where keys and values are kept in 8 bits

  std::optional<bool> prefix_caching = std::nullopt;
  std::optional<DefaultChunks> chunks = std::nullopt;
  std::optional<PlansAhead> ahead = std::nullopt;
  std::optional<std::int32_t> block_size = std::nullopt;  // tokens; 0: as long as a state is large
  std::optional<KeptFormat> format = std::nullopt;
  std::optional<bool> own_pool = std::nullopt;  // layers have a pool of blocks of their own
  std::optional<DefaultDifference> difference = std::nullopt;
  std::optional<DefaultDifference> stage_difference = std::nullopt;
};

// The decisions for a kind of layers, or for all layers of a model.
struct LayerDefaults {
  bool prefix_caching = false;
  DefaultChunks chunks = DefaultChunks::kOff;
  PlansAhead ahead = PlansAhead::kNo;
  std::int32_t block_size = 16;            // tokens; 0: as long as a state is large
  KeptFormat format = KeptFormat::kModel;  // of a kind: its own; of a model: not that of states
  bool own_pool = false;
  DefaultDifference difference = {};                // of a kind
  DefaultDifference stage_difference = {};          // of a kind
  std::vector<DefaultDifference> differences = {};  // of a model: all that there are
};

// Facts beside its kind that decide for a layer.
struct LayerCase {
  DeviceClass device = DeviceClass::kHopper;
  std::string_view model;  // its name
  bool of_8_bits = false;  // keys and values
};

// The kinds of a model's layers with attention, in the order of LayerKind.
std::vector<LayerKind> KindsOf(const ModelSpec& model);
DeviceClass ClassOf(const HardwareSpec& hardware);

LayerDefaults DefaultsOfKind(std::span<const LayerRule> rules, const ServerVersion& version,
                             LayerKind kind, const LayerCase& layer);

// Decisions for a model: what all its layers allow, and the longest of their blocks.
LayerDefaults DefaultsOfModel(std::span<const LayerRule> rules, const ServerVersion& version,
                              const ModelSpec& model, const HardwareSpec& hardware);

// docs/server-defaults.md: the decisions of every server, release and kind, from its rules.
std::string ServerDefaultsPage();

}  // namespace twin
