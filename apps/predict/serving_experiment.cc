#include "apps/predict/serving_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "config/models/named_model.h"
#include "config/servers/servers.h"
#include "config/servers/settings.h"
#include "config/servers/stored_format.h"
#include "core/dtype.h"
#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "run/deployment.h"
#include "traces/mixed_outputs.h"

namespace twin::run {
namespace {

constexpr std::int64_t kRequestsPerUser = 10;
constexpr std::int64_t kSettingMax = 1 << 24;

[[noreturn]] void Refuse(std::string_view where, const std::string& what) {
  throw InputError(InputError::Kind::kData, std::string(where), what);
}

// Columns that are settings of the server (config/servers/settings/NAME.csv).
constexpr std::string_view kSettingColumns[] = {"max_batched_tokens", "max_seqs", "max_len",
                                                "memory_fraction", "graph_max_batch"};

const Server& EngineOf(const ServingRow& row) {
  for (const Server* const server : Servers()) {
    const bool has_kernels = server != &kTgiServer;
    if (has_kernels && EqualsIgnoringCase(server->family, row.Text("engine"))) return *server;
  }
  Refuse("engine",
         fmt::format("is \"{}\"; allowed: vllm, sglang, trtllm", Printable(row.Text("engine"))));
}

// The preset that stands in for a version, also for one that is older than the oldest preset. A
// version that names no release (a nightly build, the version of a container) gets the newest.
std::string NearestServer(const Server& engine, const std::string& version) {
  const std::string asked = fmt::format("{} {}", engine.family, version);
  if (FindServer(asked)) return asked;
  const std::optional<ServerName> name = ParseServerName(asked);
  const ServerPreset& oldest = engine.presets.front();
  const bool older = name && name->version && *name->version < oldest.since;
  return std::string(older ? oldest.name : engine.presets.back().name);
}

// A format that a column names.
std::string FormatOf(const ServingRow& row, std::string_view column) {
  const std::string& text = row.Text(column);
  if (ParseDType(text)) return text;
  Refuse(column, fmt::format("{} cannot be described", Printable(text)));
}

// Checkpoints have these formats in some parts alone, which depends on the model.
bool IsOfParts(std::string_view weights) {
  return weights == "nvfp4" || weights == "mxfp4" || weights == "int4";
}

// The name of the model in the format of the row.
std::string ModelOf(const ServingRow& row) {
  const std::string& weights = row.Text("weights");
  return IsOfParts(weights) ? fmt::format("{}-{}", row.Text("model"), weights) : row.Text("model");
}

void RequireSimulated(const ServingRow& row) {
  const std::string& mode = row.Text("mode");
  if (!mode.empty() && mode != "agg") {
    Refuse("mode", fmt::format("is {}; allowed: agg, one deployment that prefills and decodes",
                               Printable(mode)));
  }
  if (row.Count("attention_dp").value_or(1) > 1) {
    Refuse("attention_dp", "attention data parallelism is not simulated; allowed: 1");
  }
  const std::string& speculation = row.Text("speculation");
  if (!speculation.empty() && speculation != "none") {
    Refuse("speculation", fmt::format("is {}; allowed: none", Printable(speculation)));
  }
}

// Checks that the ranks of a row fit together; returns the number of devices.
std::int64_t DevicesOf(const ServingRow& row) {
  const std::int64_t tensor = row.RequiredCount("tp");
  const std::int64_t experts = row.Count("ep").value_or(0);
  if (experts > 0) {
    const std::int64_t width = row.Count("moe_tp", 1).value_or(tensor / experts);
    if (experts * width != tensor) {
      Refuse("ep", fmt::format("{} x moe_tp {} is not tp {}", experts, width, tensor));
    }
    if (experts > 1 && experts < tensor) {
      Refuse("ep", fmt::format("is {} of {} ranks; allowed: 1, or all of them", experts, tensor));
    }
  }
  const std::int64_t devices = tensor * row.Count("pp", 1).value_or(1);
  if (const auto told = row.Count("devices", 1); told && *told != devices) {
    Refuse("devices", fmt::format("is {}, but the ranks are {}", *told, devices));
  }
  return devices;
}

// Lengths of one kind of tokens: the nominal one, or from the share `ratio` of it on.
struct LengthRange {
  std::int64_t low = 0;
  std::int64_t high = 0;

  [[nodiscard]] double mean() const { return static_cast<double>(low + high) / 2; }
};

// 1, of fixed lengths, where the row says nothing.
double RangeRatio(const ServingRow& row) { return row.Share("range_ratio").value_or(1); }

LengthRange PromptsOf(const ServingRow& row) {
  const std::int64_t nominal = row.RequiredCount("isl");
  const double ratio = RangeRatio(row);
  const auto low = static_cast<std::int64_t>(ratio * static_cast<double>(nominal));
  return {std::max<std::int64_t>(low, 1), nominal};
}

// Mixtures on SGLang and TensorRT-LLM: a step with prompts takes the time of its launches, whatever
// the number of prompts, so that users whose answers end meanwhile begin together in the next one.
// Measured TPOT of such rows is that of users in step: it does not grow where answers get shorter.
bool StaysInStep(const ServingRow& row) {
  return !EqualsIgnoringCase(row.Text("engine"), kVllmServer.family) &&
         MostExperts(ReadNamedShape(row.Text("model"), true)) > 0;
}

// Fixed lengths are spread, unless users stay in step. `context`: the longest request.
LengthRange OutputsOf(const ServingRow& row, std::int64_t context) {
  const std::int64_t nominal = row.RequiredCount("osl");
  const std::int64_t room = std::max<std::int64_t>(context - PromptsOf(row).high - nominal, 0);
  const double ratio = RangeRatio(row);
  const bool spreads = ratio == 1 && !StaysInStep(row);
  const std::int64_t spread = spreads ? std::min(OutputSpread(nominal), room) : 0;
  const auto low = static_cast<std::int64_t>(ratio * static_cast<double>(nominal));
  return {std::max<std::int64_t>(low - spread, 1), nominal + spread};
}

class ChangeList {
 public:
  explicit ChangeList(std::vector<std::string>& changes) : changes_(changes) {}

  void Set(std::string_view path, std::string_view value) {
    changes_.push_back(fmt::format("{}={}", path, value));
  }
  void SetName(std::string_view path, const std::string& name) {
    Set(path, fmt::format("\"{}\"", Printable(name, kMessageBytesMax)));
  }

 private:
  std::vector<std::string>& changes_;
};

void SetSystem(const ServingRow& row, const std::string& server, ChangeList& list) {
  list.SetName("system.server", server);
  list.SetName("system.model", ModelOf(row));
  list.SetName("system.hardware", row.Text("device"));
  list.Set("system.tensor_parallel", std::to_string(row.RequiredCount("tp")));
  if (const auto stages = row.Count("pp", 1)) {
    list.Set("system.pipeline_parallel", std::to_string(*stages));
  }
  if (row.Has("weights") && !IsOfParts(row.Text("weights"))) {
    list.Set("system.model_shape.weight_dtype", FormatOf(row, "weights"));
  }
  if (row.Has("kv")) list.Set("system.model_shape.kv_dtype", FormatOf(row, "kv"));
  list.Set("cost", "profile");
  if (row.Count("ep").value_or(0) > 1) list.Set("cost.profile.expert_parallel", "true");
}

// The value of a setting, and the flag or the column that says it.
struct SaidSetting {
  FoundSetting setting;
  std::string where;
  std::string text;
};

// Settings of the launch line, and the flags that are not simulated. A flag holds against a column.
std::vector<SaidSetting> ReadSettings(const ServingRow& row, const Server& engine,
                                      std::set<std::string>& unused) {
  std::vector<SaidSetting> said;
  const auto add = [&](const std::string& name, const std::string& text) {
    const std::optional<FoundSetting> setting = FindSetting(engine.family, name);
    if (!setting) {
      unused.insert(name);
      return;
    }
    std::erase_if(said,
                  [&](const SaidSetting& other) { return other.setting.row == setting->row; });
    said.push_back({*setting, name, text});
  };
  for (const std::string_view column : kSettingColumns) {
    if (row.Has(column)) add(std::string(column), row.Text(column));
  }
  for (const auto& [flag, text] : row.Flags()) add(flag, text);
  return said;
}

void SetServerSettings(const ServingRow& row, const Server& engine, std::string_view policy,
                       std::set<std::string>& unused, ChangeList& list) {
  for (const SaidSetting& said : ReadSettings(row, engine, unused)) {
    const Setting known = said.setting.row->setting;
    // The columns tp, pp, ep, weights and kv (RowWithFlags).
    if (known == Setting::kTensorParallel || known == Setting::kPipelineParallel ||
        known == Setting::kExpertRanks || known == Setting::kKvFormat) {
      continue;
    }
    if (known == Setting::kWeightFormat && row.Has("weights")) continue;
    if (said.setting.row->field == "system.model") {  // the column model names it
      unused.insert(said.where);
      continue;
    }
    if (known == Setting::kReplicas && said.text != "1") {
      Refuse(said.where, fmt::format("is {}; copies of the server are not predicted; allowed: 1",
                                     Printable(said.text)));
    }
    SettingMeaning meaning = MeaningOf(said.setting, policy, said.text);
    switch (meaning.kind) {
      case SettingMeaning::Kind::kWrong:
        if (known == Setting::kWeightFormat && IsStoredFormat(row.Text("model"), said.text)) break;
        [[fallthrough]];
      case SettingMeaning::Kind::kRefused:
        Refuse(said.where, meaning.what);
      case SettingMeaning::Kind::kIgnored:
        unused.insert(said.where);
        break;
      case SettingMeaning::Kind::kNothing:
      case SettingMeaning::Kind::kNoEffect:
        break;
      case SettingMeaning::Kind::kSet:
        if (known == Setting::kSpeculation) {
          Refuse(said.where, "drafts are not predicted; allowed: without it");
        }
        list.Set(meaning.field, meaning.value);
        break;
    }
  }
}

// The row with the columns that its flags describe: --tensor-parallel-size is tp.
ServingRow RowWithFlags(const ServingRow& row, const Server& engine, std::string_view policy) {
  constexpr std::pair<Setting, std::string_view> kColumns[] = {{Setting::kTensorParallel, "tp"},
                                                               {Setting::kPipelineParallel, "pp"},
                                                               {Setting::kExpertRanks, "ep"},
                                                               {Setting::kKvFormat, "kv"},
                                                               {Setting::kMaxModelLen, "max_len"}};
  ServingRow told = row;
  for (const auto& [flag, text] : row.Flags()) {
    const std::optional<FoundSetting> setting = FindSetting(engine.family, flag);
    if (!setting) continue;
    for (const auto& [known, column] : kColumns) {
      if (setting->row->setting != known) continue;
      const SettingMeaning meaning = MeaningOf(*setting, policy, text);
      if (meaning.kind == SettingMeaning::Kind::kWrong) Refuse(flag, meaning.what);
      if (meaning.kind == SettingMeaning::Kind::kSet) told.Set(column, meaning.value);
    }
  }
  return told;
}

// Public measurements by TensorRT-LLM 1.0.0rc3 of a dense model, whose settings are not published,
// show one slot less than users: at 8, 16 and 32 users, TTFT grows by 1.07, 0.91 and 0.91 / users
// of the time of an answer. Measurements of mixtures by the same release do not. The cause is not
// known.
void SetObservedSlots(const ServingRow& row, ChangeList& list) {
  const std::int64_t users = row.RequiredCount("concurrency");
  const bool unpublished = RangeRatio(row) == 1 && !row.Has("max_seqs") && !row.Has("server");
  const bool ran = EqualsIgnoringCase(row.Text("engine"), kTrtllmServer.family);
  if (!unpublished || users < 2 || !ran) return;
  if (!row.Text("version").starts_with("1.0.0rc")) return;
  if (MostExperts(ReadNamedShape(row.Text("model"), true)) > 0) return;
  list.Set("policy.trtllm.max_batch_size", std::to_string(users - 1));
}

// Returns the longest request. A server that is told a longer context than the model's serves it
// all the same.
std::int64_t SetContext(const ServingRow& row, ChangeList& list) {
  const std::int64_t longest = row.RequiredCount("isl") + row.RequiredCount("osl");
  const std::int64_t positions = ReadNamedShape(row.Text("model"), true).max_position;
  const std::optional<std::int64_t> told = row.Count("max_len", 1);
  if (told && *told < longest) {
    Refuse("max_len", fmt::format("is {}, below isl + osl = {}", *told, longest));
  }
  if (!told && positions > 0 && longest > positions) {
    Refuse("isl", fmt::format("isl + osl = {} is above the model's {} positions; allowed: with "
                              "max_len",
                              longest, positions));
  }
  if (told && positions > 0 && *told > positions) {
    list.Set("system.model_shape.max_position", std::to_string(*told));
  }
  return told ? *told : positions > 0 ? positions : kSettingMax;
}

void SetLoad(const ServingRow& row, std::int64_t context, ServingChanges& made, ChangeList& list) {
  const std::int64_t users = row.RequiredCount("concurrency");
  const std::int64_t requests = row.Count("requests", 1).value_or(kRequestsPerUser * users);
  list.Set("workload.requests", std::to_string(requests));
  list.Set("workload.arrivals.kind", "closed_loop");
  list.Set("workload.arrivals.users", std::to_string(users));
  const auto set_lengths = [&](std::string_view shape, const LengthRange& lengths) {
    const std::string path = fmt::format("workload.shape.{}", shape);
    if (lengths.low == lengths.high) {
      list.Set(path, fmt::format("{{ kind: fixed value: {} }}", lengths.high));
    } else {
      list.Set(path, fmt::format("{{ kind: uniform min: {} max: {} }}", lengths.low, lengths.high));
    }
  };
  const LengthRange outputs = OutputsOf(row, context);
  made.output_tokens = outputs.mean();
  set_lengths("prompt", PromptsOf(row));
  set_lengths("output", outputs);
}

}  // namespace

ServingChanges ChangesOfRow(const ServingRow& asked, std::uint64_t seed) {
  const Server& engine = EngineOf(asked);
  const std::string server = NearestServer(engine, asked.Text("version"));
  const std::string_view policy = FindServerPolicy(server);
  const ServingRow row = RowWithFlags(asked, engine, policy);
  RequireSimulated(row);
  ServingChanges made;
  made.devices = DevicesOf(row);
  ChangeList list(made.changes);
  list.SetName("name", row.Text("id"));
  list.Set("seed", std::to_string(seed));
  SetSystem(row, server, list);
  const std::int64_t context = SetContext(row, list);
  SetServerSettings(row, engine, policy, made.unused, list);
  SetObservedSlots(row, list);
  SetLoad(row, context, made, list);
  return made;
}

ServingExperiment ExperimentOfRow(const ServingRow& row, std::uint64_t seed,
                                  std::span<const std::string> changes) {
  ServingExperiment made{.row = ChangesOfRow(row, seed), .config = {}};
  ExperimentTemplate text = ExperimentTemplate::FromText("", row.Text("id"));
  const std::filesystem::path folder = std::filesystem::current_path();
  text.Change(made.row.changes, folder);
  text.Change(changes, folder);
  made.config = text.With({}, folder);
  return made;
}

}  // namespace twin::run
