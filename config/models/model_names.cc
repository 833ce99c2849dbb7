#include "config/models/model_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <string>
#include <vector>

#include "config/models/hf_config.h"
#include "config/models/preset_files.h"
#include "core/check.h"
#include "core/csv.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "core/letter_case.h"
#include "core/nearest_names.h"

namespace twin {
namespace {

using TableRow = std::array<std::string_view, 3>;  // cells behind those of the file are empty

// The rows of presets/NAME behind its header.
std::vector<TableRow> ReadTable(std::string_view name) {
  const auto file = std::ranges::find(PresetTables(), name, &EmbeddedFile::name);
  std::vector<TableRow> rows;
  std::string_view rest = file->bytes;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    CsvCells cells;
    CHECK(cells.Split(line) == CsvCells::Result::kSplit);
    std::ranges::copy(cells.cells(), rows.emplace_back().begin());
  }
  rows.erase(rows.begin());
  return rows;
}

bool HasRecurrence(const ModelSpec& model) {
  const auto has = [](const LayerGroup& group) { return group.layer.recurrent.has_value(); };
  return std::ranges::any_of(OrderedLayers(model), has);
}

// Scales of blocks, but of Llama's checkpoints, which have one for a matrix.
void StoreInFp8(ModelSpec& model) {
  StoreWeightsAs(model.name.starts_with("llama") ? DType::kFp8 : DType::kFp8Block, model);
}

// As NVIDIA's ModelOpt stores them: all of a dense model; the MLPs of a mixture, and beside
// recurrent layers its attention and experts.
void StoreInNvfp4(ModelSpec& model) {
  model.kv_dtype = DType::kFp8;
  if (MostExperts(model) == 0) return StoreWeightsAs(DType::kNvfp4, model);
  StoreWeightsAs(DType::kBf16, model);
  model.formats.experts = DType::kNvfp4;
  if (HasRecurrence(model)) {
    model.formats.attention = DType::kNvfp4;
  } else {
    model.formats.dense = model.formats.shared = DType::kNvfp4;
  }
}

void StoreExpertsOrAll(ModelSpec& model, DType experts, DType all) {
  const bool mixes = MostExperts(model) > 0;
  StoreWeightsAs(mixes ? DType::kBf16 : all, model);
  if (mixes) model.formats.experts = experts;
}

struct FormatSuffix {
  std::string_view suffix;
  void (*apply)(ModelSpec& model);
};
constexpr std::array kFormatSuffixes = {
    FormatSuffix{"-fp8", StoreInFp8},
    FormatSuffix{"-fp8-dynamic", [](ModelSpec& m) { StoreWeightsAs(DType::kFp8, m); }},
    FormatSuffix{"-nvfp4", StoreInNvfp4},
    FormatSuffix{"-fp4", StoreInNvfp4},
    FormatSuffix{"-fp4-v2", StoreInNvfp4},
    FormatSuffix{"-awq", [](ModelSpec& m) { StoreWeightsAs(DType::kInt4, m); }},
    FormatSuffix{"-gptq-int4", [](ModelSpec& m) { StoreWeightsAs(DType::kInt4, m); }},
    FormatSuffix{"-quantized.w4a16", [](ModelSpec& m) { StoreWeightsAs(DType::kInt4, m); }},
    FormatSuffix{"-quantized.w8a8", [](ModelSpec& m) { StoreWeightsAs(DType::kInt8, m); }},
    FormatSuffix{"-mxfp4",
                 [](ModelSpec& m) { StoreExpertsOrAll(m, DType::kMxfp4, DType::kMxfp4); }},
    FormatSuffix{"-int4",
                 [](ModelSpec& m) { StoreExpertsOrAll(m, DType::kInt4Group32, DType::kInt4); }},
};

// A config.json whose windows alternate gives their number alone in its shape, and their places
// beside it; a preset lists its layers.
ModelSpec WithListedLayers(const ModelConfig& config) {
  ModelSpec model = config.shape;
  if (ListsLayers(model) || OrderedLayers(model).size() == 1) return model;
  std::vector<LayerSpec> layers(config.layer_windows.size(), model);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].sliding_window = config.layer_windows[i];
  }
  SetLayerList(layers, model);
  return model;
}

// The preset of a row of presets.csv. The row's format is that of the checkpoint where
// quantization_config would list every matrix in 16 bits, as the end of a name.
ModelSpec ReadPreset(std::size_t row) {
  static const std::vector<TableRow> rows = ReadTable("presets.csv");
  const EmbeddedFile& file = PresetConfigs()[row];
  const auto where = fmt::format("config/models/presets/{}/config.json", file.folder);
  ModelSpec model = WithListedLayers(ParseHfConfig(file.bytes, where));
  model.name = file.folder;
  const auto* const format =
      std::ranges::find(kFormatSuffixes, rows[row][1], &FormatSuffix::suffix);
  if (format != kFormatSuffixes.end()) format->apply(model);
  return model;
}

// Studies ask for the same presets on many threads: each file is read once.
std::optional<ModelSpec> FindPreset(std::string_view name) {
  struct Slot {
    std::once_flag is_read;
    ModelSpec model;
  };
  static std::vector<Slot> slots(PresetConfigs().size());
  const auto names = ModelPresetNames();
  const auto row =
      static_cast<std::size_t>(std::ranges::find(names, FindPresetName(name)) - names.begin());
  if (row == names.size()) return std::nullopt;
  std::call_once(slots[row].is_read, [row] { slots[row].model = ReadPreset(row); });
  return slots[row].model;
}

// A checkpoint with the shape of a preset and another name.
std::optional<ModelSpec> FindAlias(std::string_view name) {
  static const std::vector<TableRow> aliases = ReadTable("aliases.csv");
  for (const auto& [alias, preset, max_position] : aliases) {
    if (!EqualsIgnoringSeparators(alias, name)) continue;
    std::optional<ModelSpec> model = FindPreset(preset);
    CHECK(model.has_value());
    model->name = alias;
    (void)std::from_chars(max_position.begin(), max_position.end(), model->max_position);
    return model;
  }
  return std::nullopt;
}

std::optional<ModelSpec> FindPresetOrAlias(std::string_view name) {
  std::optional<ModelSpec> preset = FindPreset(name);
  return preset ? preset : FindAlias(name);
}

// `name` without the first occurrence of `word` that ends there or is followed by a dash; `name`
// itself if there is none.
std::string Without(const std::string& name, std::string_view word) {
  for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (end == name.size() || name[end] == '-') return name.substr(0, at) + name.substr(end);
  }
  return name;
}

std::optional<ModelSpec> FindShape(std::string name) {
  for (const std::string_view publisher : {"meta-", "nvidia-"}) {
    if (name.starts_with(publisher)) name.erase(0, publisher.size());
  }
  if (std::optional<ModelSpec> model = FindPresetOrAlias(name)) return model;
  for (const std::string_view word : {"-hf", "-bf16", "-instruct", "-chat", "-it", "-base"}) {
    std::string shorter = Without(name, word);
    if (shorter == name) continue;
    name = std::move(shorter);
    if (std::optional<ModelSpec> model = FindPresetOrAlias(name)) return model;
  }
  return std::nullopt;
}

}  // namespace

void StoreWeightsAs(DType format, ModelSpec& model) {
  model.weight_dtype = format;
  model.formats = {};
}

std::optional<DType> UniformFormat(const ModelSpec& model) {
  if (model.formats != WeightFormats{}) return std::nullopt;
  return model.weight_dtype;
}

std::span<const std::string_view> ModelPresetNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const EmbeddedFile& file : PresetConfigs()) all.push_back(file.folder);
    return all;
  }();
  return names;
}

std::string_view FindPresetName(std::string_view name) {
  const auto is_named = [name](std::string_view preset) {
    return EqualsIgnoringSeparators(preset, name);
  };
  const auto names = ModelPresetNames();
  const auto found = std::ranges::find_if(names, is_named);
  return found == names.end() ? std::string_view() : *found;
}

std::optional<ModelSpec> FindModel(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), LowerCase);
  if (std::optional<ModelSpec> model = FindShape(lower)) return model;
  for (const FormatSuffix& format : kFormatSuffixes) {
    if (!lower.ends_with(format.suffix)) continue;
    std::optional<ModelSpec> model =
        FindShape(lower.substr(0, lower.size() - format.suffix.size()));
    if (!model) continue;
    format.apply(*model);
    model->name += format.suffix;
    return model;
  }
  return std::nullopt;
}

ModelSpec ModelPreset(std::string_view name) {
  if (std::optional<ModelSpec> model = FindModel(name)) return *std::move(model);
  const std::string nearest = "nearest: " + NearestNames(name, ModelPresetNames());
  if (const std::string_view why = WhyNotDescribed(name); !why.empty()) {
    throw InputError(InputError::Kind::kUsage, "model",
                     "'" + std::string(name) + "' has no preset, as " + std::string(why) +
                         ", which a model's shape cannot say; " + nearest);
  }
  throw InputError(InputError::Kind::kUsage, "model",
                   "unknown model '" + std::string(name) + "'; " + nearest);
}

std::string_view WhyNotDescribed(std::string_view name) {
  const std::string_view bare = name.substr(name.rfind('/') + 1);
  for (const auto& [model, why, unused] : ReadTable("why_not.csv")) {
    if (EqualsIgnoringSeparators(bare.substr(0, model.size()), model)) return why;
  }
  return {};
}

}  // namespace twin
