#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/predict/gemm_import.h"
#include "apps/predict/gemm_rows.h"
#include "apps/predict/import_databases.h"
#include "apps/predict/layer_attention_import.h"
#include "apps/predict/memory_bound_fit.h"
#include "apps/predict/operation_predictor.h"
#include "apps/predict/profile_output.h"
#include "config/hardware_file.h"
#include "config/models/model_names.h"
#include "config/profile_folder.h"
#include "core/files/csv.h"
#include "core/input_error.h"
#include "run/run_control.h"
#include "sim/devices/operations/memory_bound_model.h"

namespace twin::run {
namespace {

constexpr std::string_view kPrefix = "profile_";
constexpr std::string_view kDense = "_dense.csv";
constexpr double kTimeUsMax = 1e9;
constexpr double kSecondsOfUs = 1e-6;
constexpr std::int64_t kRanksMax = 64;
constexpr std::int64_t kTokensMost = 1 << 20;

std::string MeasuredSystem() { return fmt::format("{} 0.19.0", NameOf(sim::KernelLibrary::kVllm)); }

// The profile of one model on one device.
struct LayerProfile {
  std::string device;
  std::string model;
  std::filesystem::path dense;
  std::filesystem::path per_sequence;  // may be absent, as the next
  std::filesystem::path attention;
};

std::map<std::string, LayerProfile> ProfilesIn(const std::filesystem::path& folder) {
  std::error_code error;
  std::map<std::string, LayerProfile> profiles;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t end = name.find(kDense);
    if (!name.starts_with(kPrefix) || end == std::string::npos) continue;
    const std::string stem = name.substr(kPrefix.size(), end - kPrefix.size());
    const std::size_t split = stem.find('_');
    if (split == std::string::npos) continue;
    const auto beside = [&](std::string_view ending) {
      std::string other = name;
      return entry.path().parent_path() / other.replace(end, kDense.size(), ending);
    };
    profiles[name] = {stem.substr(0, split), stem.substr(split + 1), entry.path(),
                      beside("_per_sequence.csv"), beside("_attention.csv")};
  }
  if (error) {
    throw InputError(InputError::Kind::kUsage, folder.string(),
                     fmt::format("cannot be read: {}", error.message()));
  }
  return profiles;
}

// (n, k) of a layer on one of `ranks` ranks; (0, 0) for layers that multiply no weights.
std::pair<std::int64_t, std::int64_t> ShapeOf(const ModelSpec& model, std::string_view layer,
                                              std::int64_t ranks) {
  const std::int64_t hidden = model.hidden;
  const std::int64_t queries = std::int64_t{model.query_heads} * model.head_dim / ranks;
  const std::int64_t keys = std::int64_t{model.kv_heads} * model.head_dim / ranks;
  const std::int64_t inner = model.intermediate / ranks;
  if (layer == "qkv_proj") return {queries + 2 * keys, hidden};
  if (layer == "o_proj") return {hidden, queries};
  if (layer == "gate_up_proj") return {2 * inner, hidden};
  if (layer == "down_proj") return {hidden, inner};
  if (layer == "lm_head") return {model.vocab / ranks, hidden};
  return {0, 0};
}

void AddRows(const std::filesystem::path& file, std::string_view tokens, const ModelSpec& model,
             const RunControl& control, GemmRows& rows) {
  CsvTable table(file.string(), {"tp", "layer", tokens, "time_us"});
  while (table.Next()) {
    EndIfStopped(control);
    const std::int64_t ranks = table.Integer("tp", 1, kRanksMax);
    const auto [n, k] = ShapeOf(model, table.Text("layer"), ranks);
    if (n == 0) continue;
    GemmRow row;
    row.m = table.Integer(tokens, 1, kTokensMost);
    row.n = n;
    row.k = k;
    row.seconds = kSecondsOfUs * table.Positive("time_us", kTimeUsMax);
    rows.rows.push_back(row);
  }
}

std::string OriginOf(std::string_view what, std::string_view preset,
                     const std::filesystem::path& file) {
  return fmt::format(
      "{} of {}, from LLMServingSim (MIT), {};\n# written by \"twinserve import llmservingsim\".",
      what, preset, file.filename().string());
}

void ImportProducts(const LayerProfile& profile, const ModelSpec& model, std::string_view preset,
                    ProfileOutput& out, RunControl& control) {
  GemmRows rows;
  rows.versions = {MeasuredSystem()};
  AddRows(profile.dense, "tokens", model, control, rows);
  if (std::filesystem::exists(profile.per_sequence)) {
    AddRows(profile.per_sequence, "sequences", model, control, rows);
  }
  const GemmImport import = ImportGemm(HardwarePreset(preset), rows, control);
  out.Add(preset, ProfilePart::kGemm,
          WriteGemmImport(import, rows, OriginOf("Matrix products", preset, profile.dense)));
}

std::vector<LayerCall> ReadCalls(const std::filesystem::path& path, const ModelSpec& model,
                                 const RunControl& control) {
  CsvTable table(path.string(),
                 {"tp", "prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"});
  const auto count = [&](std::string_view column) {
    return static_cast<std::uint32_t>(table.Integer(column, 0, kTokensMost));
  };
  std::vector<LayerCall> calls;
  while (table.Next()) {
    EndIfStopped(control);
    const auto ranks = static_cast<std::int32_t>(table.Integer("tp", 1, kRanksMax));
    calls.push_back({.query_heads = model.query_heads / ranks,
                     .kv_heads = std::max(1, model.kv_heads / ranks),
                     .chunk = count("prefill_chunk"),
                     .past = count("kv_prefill"),
                     .decodes = count("n_decode"),
                     .context = count("kv_decode"),
                     .microseconds = table.Positive("time_us", kTimeUsMax)});
  }
  return calls;
}

struct SmallKernel {
  std::string_view layer;
  sim::MemoryBoundKernel kernel;
};

constexpr SmallKernel kSmallKernels[] = {{"embedding", sim::MemoryBoundKernel::kEmbedding},
                                         {"layernorm", sim::MemoryBoundKernel::kNorm},
                                         {"rotary_emb", sim::MemoryBoundKernel::kRotary},
                                         {"act_fn", sim::MemoryBoundKernel::kActivation},
                                         {"sampler", sim::MemoryBoundKernel::kSampling}};

using SmallRows = std::map<sim::MemoryBoundKernel, std::vector<MemoryBoundRow>>;

void AddSmallRows(const std::filesystem::path& file, std::string_view tokens,
                  const ModelSpec& model, const RunControl& control, SmallRows& rows) {
  CsvTable table(file.string(), {"tp", "layer", tokens, "time_us"});
  while (table.Next()) {
    EndIfStopped(control);
    const auto ranks = static_cast<double>(table.Integer("tp", 1, kRanksMax));
    const sim::MemoryBoundShape shape{.hidden = static_cast<double>(model.hidden),
                                      .query_heads = model.query_heads / ranks,
                                      .kv_heads = model.kv_heads / ranks,
                                      .head_dim = static_cast<double>(model.head_dim),
                                      .intermediate = model.intermediate / ranks,
                                      .vocabulary = static_cast<double>(model.vocab)};
    for (const auto& [layer, kernel] : kSmallKernels) {
      if (table.Text("layer") != layer) continue;
      const auto count = static_cast<double>(table.Integer(tokens, 1, kTokensMost));
      rows[kernel].push_back(
          {sim::MemoryBoundBytes(kernel, shape, count), table.Positive("time_us", kTimeUsMax)});
    }
  }
}

// The kernels of profile_DEVICE_MODEL_dense and _per_sequence that multiply no weights.
sim::MemoryBoundProfile SmallKernelsOf(const LayerProfile& profile, const ModelSpec& model,
                                       const HardwareSpec& hardware, const RunControl& control) {
  SmallRows rows;
  AddSmallRows(profile.dense, "tokens", model, control, rows);
  if (std::filesystem::exists(profile.per_sequence)) {
    AddSmallRows(profile.per_sequence, "sequences", model, control, rows);
  }
  sim::MemoryBoundProfile result;
  for (const auto& [kernel, of_kernel] : rows) {
    result.kernels.push_back(FitMemoryBound(hardware, kernel, of_kernel));
  }
  return result;
}

void ImportCalls(const LayerProfile& profile, const ModelSpec& model, std::string_view preset,
                 ProfileOutput& out, RunControl& control) {
  LayerAttentionImport import = ImportLayerAttention(HardwarePreset(preset), model.head_dim,
                                                     ReadCalls(profile.attention, model, control),
                                                     profile.attention.string(), control);
  std::string text = fmt::format(
      "# {}\n# {}. Rows, errors (median / p90) of the closed form, and of heads that the table is\n"
      "# made without:\n# {}\n",
      OriginOf("Attention", preset, profile.attention), MeasuredSystem(),
      fmt::join(import.report, "\n# "));
  sim::DeviceProfile device;
  device.attention = std::move(import.profile);
  device.attention.memory_bound = SmallKernelsOf(profile, model, HardwarePreset(preset), control);
  text += WriteProfilePart(device, ProfilePart::kAttention);
  out.Add(preset, ProfilePart::kAttention, text);
}

// The shape of the profile's model; nothing, with a warning, of models without a preset.
std::optional<ModelSpec> ModelOf(const LayerProfile& profile, RunControl& control) {
  try {
    return ModelPreset(profile.model);
  } catch (const InputError& error) {
    control.OnWarning(
        fmt::format("{}: skipped, {}", profile.dense.filename().string(), error.what()));
    return std::nullopt;
  }
}

}  // namespace

void ImportLlmServingSim(const std::filesystem::path& folder, const std::filesystem::path& out,
                         RunControl& control) {
  const std::map<std::string, LayerProfile> profiles = ProfilesIn(folder);
  if (profiles.empty()) {
    throw InputError(InputError::Kind::kUsage, folder.string(),
                     "holds no table; allowed: a folder with profile_DEVICE_MODEL_dense.csv or "
                     ".csv.gz");
  }
  ProfileOutput output(out);
  std::map<std::string_view, std::string> imported;  // names by preset
  for (const auto& [name, profile] : profiles) {
    const std::string_view preset = PresetOfDevice(profile.device);
    if (preset.empty()) {
      control.OnWarning(
          fmt::format("{}: skipped, no data sheet of device \"{}\"", name, profile.device));
      continue;
    }
    const std::optional<ModelSpec> model = ModelOf(profile, control);
    if (!model) continue;
    const auto [other, is_new] = imported.emplace(preset, name);
    if (!is_new) {
      throw InputError(InputError::Kind::kData, folder.string(),
                       fmt::format("{} and {} are both of {}; allowed: one model of a device in a "
                                   "folder",
                                   other->second, name, preset));
    }
    ImportProducts(profile, *model, preset, output, control);
    if (std::filesystem::exists(profile.attention)) {
      ImportCalls(profile, *model, preset, output, control);
    }
  }
  if (!output.empty()) {
    output.Commit(control);
    return;
  }
  throw InputError(InputError::Kind::kData, folder.string(),
                   "holds no table of a device with a data sheet and a known model; allowed: one "
                   "or more (twinserve doctor --list hardware, --list models)");
}

}  // namespace twin::run
