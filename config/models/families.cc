#include "config/models/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace twin {
namespace {

constexpr std::array kRefusedFamilies = {
    ModelFamily{
        .model_type = "deepseek_v4",
        .refused =
            "compressed keys beside windows are not modelled; use a preset of deepseek-v3.2"},
    ModelFamily{
        .model_type = "jamba",
        .refused = "Mamba-1 layers are not modelled; use a model with Mamba-2, as nemotron_h"},
    ModelFamily{
        .model_type = "mamba",
        .refused = "Mamba-1 layers are not modelled; use a model with Mamba-2, as nemotron_h"},
    ModelFamily{.model_type = "mllama",
                .refused = "cross-attention is not modelled; use the text model of the same size"},
    ModelFamily{.model_type = "t5",
                .refused = "encoders are not modelled; use a decoder-only model"},
    ModelFamily{.model_type = "bart",
                .refused = "encoders are not modelled; use a decoder-only model"},
    ModelFamily{.model_type = "bert",
                .refused = "encoders are not modelled; use a decoder-only model"},
};

std::vector<ModelFamily> CollectFamilies() {
  std::vector<ModelFamily> all;
  for (const std::span<const ModelFamily> families :
       {PlainFamilies(), LatentFamilies(), MixtureFamilies(), RecurrentFamilies(), DenseFamilies(),
        std::span<const ModelFamily>(kRefusedFamilies)}) {
    all.insert(all.end(), families.begin(), families.end());
  }
  return all;
}

std::string NamesWhere(bool (*is_named)(const ModelFamily&)) {
  std::string names;
  for (const ModelFamily& family : ModelFamilies()) {
    if (!is_named(family)) continue;
    if (!names.empty()) names += ", ";
    names += family.model_type;
  }
  return names;
}

std::string_view ExecutorsOf(const ModelFamily& family) {
  if (family.is_plain()) return "CPU, CUDA";
  return family.read_computation != nullptr ? "CPU" : "-";
}

// A row of the page: families that share what stands behind their names.
struct PageRow {
  std::string names;
  std::string counts;
  std::string_view executors;
};

}  // namespace

std::span<const ModelFamily> ModelFamilies() {
  static const std::vector<ModelFamily> all = CollectFamilies();
  return all;
}

const ModelFamily* FindModelFamily(std::string_view model_type) {
  const std::span<const ModelFamily> all = ModelFamilies();
  const auto found = std::ranges::find(all, model_type, &ModelFamily::model_type);
  return found == all.end() ? nullptr : &*found;
}

std::string ModelFamilyNames() {
  return NamesWhere([](const ModelFamily& family) { return family.refused.empty(); });
}

std::string PlainFamilyNames() {
  return NamesWhere([](const ModelFamily& family) { return family.is_plain(); });
}

std::string ComputedLayeredNames() {
  return NamesWhere([](const ModelFamily& family) {
    return family.is_layered() && family.read_computation != nullptr;
  });
}

std::string ModelFamilyTable() {
  std::vector<PageRow> rows;
  for (const ModelFamily& family : ModelFamilies()) {
    std::string name = fmt::format("`{}`", family.model_type);
    if (!family.published_as.empty()) name += fmt::format(" ({})", family.published_as);
    const std::string counts = family.refused.empty() ? std::string(family.counts)
                                                      : fmt::format("refused: {}", family.refused);
    const std::string_view executors = ExecutorsOf(family);
    const auto same = std::ranges::find_if(rows, [&](const PageRow& row) {
      return row.counts == counts && row.executors == executors;
    });
    if (same == rows.end()) {
      rows.push_back({name, counts, executors});
    } else {
      same->names += ", " + name;
    }
  }
  std::string table =
      "<!-- Begin of the output of `twinserve doctor --list families`. Do not edit. -->\n\n"
      "| `model_type` | counts | computed on |\n|---|---|---|\n";
  for (const PageRow& row : rows) {
    table += fmt::format("| {} | {} | {} |\n", row.names, row.counts, row.executors);
  }
  return table + "\n<!-- End of the output. -->\n";
}

}  // namespace twin
