// docs/server-defaults.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/servers/layer_defaults.h"
#include "config/servers/servers.h"

namespace twin {
namespace {

constexpr const char* kServerDefaultsHead = R"(# What servers decide unasked

<!-- Generated from config/servers by `twinserve doctor --list server-defaults`. Do not edit. -->

`system.server` fills in what a release of a server decides when nobody says anything. Some of it
depends on the kinds of the model's layers: the tables have a row where a decision changes, for
releases from there on. A model with layers of several kinds gets what all of them allow, and the
longest of their blocks. What the experiment or an option says holds against the table.

- **Ahead**: whether steps are planned before the results of the steps before them are back; "one
  stage": not with `pipeline_parallel` above 1.
- **Block**: tokens of a block of the KV cache, on GPUs of the generations Hopper / Blackwell /
  others; "state": as long as a state is large.
- **Keeps**: the format of the cache where config.json names none; of states, likewise.
- **Not simulated**: what a run says in one line, where it matters for the model and the workload.

The source of a row is what was read in the named release's own source. Models of encoders are
refused, and so have no row.
)";

constexpr std::array kDeviceClasses = {DeviceClass::kHopper, DeviceClass::kBlackwell,
                                       DeviceClass::kOther};
constexpr std::array<std::pair<LayerKind, std::string_view>, 7> kLayerKindNames = {
    {{LayerKind::kFull, "full attention"},
     {LayerKind::kWindow, "windows"},
     {LayerKind::kChunked, "chunked attention"},
     {LayerKind::kLatent, "latent vectors"},
     {LayerKind::kIndexed, "latent vectors with a sparse index"},
     {LayerKind::kLinear, "states of linear attention"},
     {LayerKind::kMamba, "states of Mamba-2"}}};

// Joins the values of the three classes, or gives the one that they share.
std::string JoinedByDevice(const std::array<std::string, 3>& values) {
  const bool same = values[0] == values[1] && values[1] == values[2];
  return same ? values[0] : fmt::format("{} / {} / {}", values[0], values[1], values[2]);
}

std::string DecisionText(DefaultChunks chunks) {
  switch (chunks) {
    case DefaultChunks::kOff:
      return "off";
    case DefaultChunks::kLongContexts:
      return fmt::format("on above {} tokens", kLongContext);
    case DefaultChunks::kOn:
      return "on";
  }
  return {};
}

std::string DecisionText(PlansAhead ahead) {
  switch (ahead) {
    case PlansAhead::kNo:
      return "no";
    case PlansAhead::kOneStage:
      return "one stage";
    case PlansAhead::kAlways:
      return "yes";
  }
  return {};
}

std::string DecisionText(KeptFormat format) {
  switch (format) {
    case KeptFormat::kModel:
      return "the model's";
    case KeptFormat::kFp8:
      return "fp8";
    case KeptFormat::k16Bits:
      return "16 bits";
    case KeptFormat::k32Bits:
      return "32 bits";
  }
  return {};
}

// The cells of a row behind its kinds, without the source.
std::vector<std::string> DecisionCells(std::span<const LayerRule> rules,
                                       const ServerVersion& version, LayerKind kind,
                                       std::string_view model) {
  std::array<std::string, 3> caching;
  std::array<std::string, 3> blocks;
  std::array<std::string, 3> formats;
  LayerDefaults one;
  for (std::size_t i = 0; i < kDeviceClasses.size(); ++i) {
    const LayerDefaults of_device =
        DefaultsOfKind(rules, version, kind, {.device = kDeviceClasses.at(i), .model = model});
    caching.at(i) = of_device.prefix_caching ? "on" : "off";
    blocks.at(i) = of_device.block_size > 0 ? fmt::format("{}", of_device.block_size) : "state";
    formats.at(i) = DecisionText(of_device.format);
    if (i == 0) one = of_device;
  }
  std::string differs(one.difference.text);
  if (!one.stage_difference.text.empty()) {
    differs += fmt::format("{}{}", differs.empty() ? "" : "; ", one.stage_difference.text);
  }
  return {JoinedByDevice(caching),
          DecisionText(one.chunks),
          DecisionText(one.ahead),
          JoinedByDevice(blocks),
          JoinedByDevice(formats) + (one.own_pool ? ", in a pool of their own" : ""),
          differs};
}

std::string SourcesSince(std::span<const LayerRule> rules, const ServerVersion& version,
                         LayerKind kind, std::string_view models) {
  std::vector<std::string_view> sources;
  for (const LayerRule& rule : rules) {
    const bool of_kind = (rule.kinds & static_cast<LayerKinds>(kind)) != 0;
    const bool of_models = rule.models.empty() || rule.models == models;
    if (rule.since != version || !of_kind || !of_models) continue;
    if (std::ranges::find(sources, rule.source) == sources.end()) sources.push_back(rule.source);
  }
  return fmt::format("{}", fmt::join(sources, "; "));
}

std::string_view FirstModelWord(std::string_view words) { return words.substr(0, words.find('|')); }

// The rows of one release: kinds that decide alike are one row.
class DecisionRows {
 public:
  DecisionRows(std::span<const LayerRule> rules, const ServerVersion& version)
      : rules_(rules), version_(version) {}

  void Add(LayerKind kind, std::string_view kind_name, std::string_view models,
           std::map<std::string, std::vector<std::string>>& printed) {
    const std::vector<std::string> cells =
        DecisionCells(rules_, version_, kind, FirstModelWord(models));
    std::vector<std::string>& before = printed[fmt::format("{}|{}", kind_name, models)];
    if (cells == before) return;
    before = cells;
    const std::string text = fmt::format("{} | {}", fmt::join(cells, " | "),
                                         SourcesSince(rules_, version_, kind, models));
    std::string name(kind_name);
    if (!models.empty()) {
      std::string words(models);
      for (std::size_t at = 0; (at = words.find('|', at)) != std::string::npos; at += 2) {
        words.replace(at, 1, ", ");
      }
      name += fmt::format(" ({})", words);
    }
    const auto known = std::ranges::find(rows_, text, &std::pair<std::string, std::string>::first);
    if (known == rows_.end()) {
      rows_.emplace_back(text, name);
    } else {
      known->second += ", " + name;
    }
  }

  [[nodiscard]] std::string Text() const {
    std::string page;
    for (const auto& [text, kinds] : rows_) {
      page += fmt::format("| {} | {} | {} |\n", fmt::join(version_, "."), kinds, text);
    }
    return page;
  }

 private:
  std::span<const LayerRule> rules_;
  ServerVersion version_;
  std::vector<std::pair<std::string, std::string>> rows_;
};

std::string DecisionTable(const Server& server) {
  std::set<ServerVersion> versions;
  for (const LayerRule& rule : server.layer_rules) versions.insert(rule.since);
  std::map<std::string, std::vector<std::string>> printed;
  std::string page = fmt::format(
      "\n## {}\n\n| from | layers | prefix caching | prompts in chunks | ahead | block | keeps | "
      "not "
      "simulated | source |\n|---|---|---|---|---|---|---|---|---|\n",
      server.title);
  for (const ServerVersion& version : versions) {
    DecisionRows rows(server.layer_rules, version);
    for (const auto& [kind, name] : kLayerKindNames) {
      rows.Add(kind, name, "", printed);
      for (const LayerRule& rule : server.layer_rules) {
        const bool of_kind = (rule.kinds & static_cast<LayerKinds>(kind)) != 0;
        const bool is_own = rule.kinds != kAllLayerKinds || kind == LayerKind::kFull;
        if (rule.models.empty() || rule.since != version || !of_kind || !is_own) continue;
        rows.Add(kind, name, rule.models, printed);
      }
    }
    page += rows.Text();
  }
  return page;
}

}  // namespace

std::string ServerDefaultsPage() {
  std::string page = kServerDefaultsHead;
  for (const Server* const server : Servers()) page += DecisionTable(*server);
  return page;
}

}  // namespace twin
