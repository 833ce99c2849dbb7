#include "apps/predict/serving_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "config/models/named_model.h"
#include "config/servers/servers.h"
#include "core/dtype.h"
#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "run/deployment.h"

namespace twin::run {
namespace {

constexpr std::int64_t kRequestsPerUser = 10;
constexpr std::int64_t kSettingMax = 1 << 24;
// Outputs without a range are spread by this part of their length to both sides.
constexpr std::int64_t kOutputSpreadPart = 10;

[[noreturn]] void Refuse(std::string_view where, const std::string& what) {
  throw InputError(InputError::Kind::kData, std::string(where), what);
}

// How a flag of a server, or a column, becomes a field of the experiment.
enum class Meaning : std::uint8_t {
  kCount,
  kShare,
  kFactor,
  kSwitch,      // true or false
  kSwitchOff,   // the field is the opposite
  kWord,        // as it is
  kChunks,      // of TensorRT-LLM
  kBlockReuse,  // of TensorRT-LLM, whose simulated policy never reuses blocks
  kExperts,     // kernels of experts
  kDescribed,   // a column says the same
};

struct Setting {
  std::string_view flag;   // with underscores
  std::string_view field;  // as --set names it
  Meaning meaning;
};

constexpr std::string_view kCaptured = "cost.profile.captured_size_max";
constexpr std::string_view kUtilization = "system.memory.utilization";
constexpr std::string_view kExpertsKernel = "cost.profile.experts_kernel";
constexpr std::string_view kBlockSize = "system.memory.block_size";

constexpr Setting kVllmSettings[] = {
    {"max_num_batched_tokens", "policy.vllm_v1.max_num_batched_tokens", Meaning::kCount},
    {"max_num_seqs", "policy.vllm_v1.max_num_seqs", Meaning::kCount},
    {"max_model_len", "policy.vllm_v1.max_model_len", Meaning::kCount},
    {"async_scheduling", "policy.vllm_v1.async_scheduling", Meaning::kSwitch},
    {"no_async_scheduling", "policy.vllm_v1.async_scheduling", Meaning::kSwitchOff},
    {"enable_prefix_caching", "policy.vllm_v1.enable_prefix_caching", Meaning::kSwitch},
    {"no_enable_prefix_caching", "policy.vllm_v1.enable_prefix_caching", Meaning::kSwitchOff},
    {"enable_chunked_prefill", "policy.vllm_v1.enable_chunked_prefill", Meaning::kSwitch},
    {"no_enable_chunked_prefill", "policy.vllm_v1.enable_chunked_prefill", Meaning::kSwitchOff},
    {"gpu_memory_utilization", kUtilization, Meaning::kShare},
    {"block_size", kBlockSize, Meaning::kCount},
    {"max_cudagraph_capture_size", kCaptured, Meaning::kCount},
    {"cuda_graph_sizes", kCaptured, Meaning::kCount},
    {"tensor_parallel_size", "", Meaning::kDescribed},
    {"enable_expert_parallel", "", Meaning::kDescribed},
    {"kv_cache_dtype", "", Meaning::kDescribed}};

constexpr Setting kSglangSettings[] = {
    {"chunked_prefill_size", "policy.sglang.chunked_prefill_size", Meaning::kCount},
    {"max_prefill_tokens", "policy.sglang.max_prefill_tokens", Meaning::kCount},
    {"max_running_requests", "policy.sglang.max_running_requests", Meaning::kCount},
    {"context_length", "policy.sglang.context_length", Meaning::kCount},
    {"schedule_policy", "policy.sglang.schedule_policy", Meaning::kWord},
    {"schedule_conservativeness", "policy.sglang.schedule_conservativeness", Meaning::kFactor},
    {"enable_mixed_chunk", "policy.sglang.enable_mixed_chunk", Meaning::kSwitch},
    {"scheduler_recv_interval", "policy.sglang.scheduler_recv_interval", Meaning::kCount},
    {"disable_radix_cache", "policy.sglang.radix_cache", Meaning::kSwitchOff},
    {"disable_overlap_schedule", "policy.sglang.overlap", Meaning::kSwitchOff},
    {"mem_fraction_static", kUtilization, Meaning::kShare},
    {"page_size", kBlockSize, Meaning::kCount},
    {"cuda_graph_max_bs", kCaptured, Meaning::kCount},
    {"moe_runner_backend", kExpertsKernel, Meaning::kExperts},
    {"enable_flashinfer_trtllm_moe", kExpertsKernel, Meaning::kExperts},
    {"tensor_parallel_size", "", Meaning::kDescribed},
    {"data_parallel_size", "", Meaning::kDescribed},
    {"ep_size", "", Meaning::kDescribed},
    {"enable_ep_moe", "", Meaning::kDescribed},
    {"quantization", "", Meaning::kDescribed},
    {"kv_cache_dtype", "", Meaning::kDescribed}};

constexpr Setting kTrtllmSettings[] = {
    {"max_num_tokens", "policy.trtllm.max_num_tokens", Meaning::kCount},
    {"max_batch_size", "policy.trtllm.max_batch_size", Meaning::kCount},
    {"max_seq_len", "policy.trtllm.max_seq_len", Meaning::kCount},
    {"scheduler_config.capacity_scheduler_policy", "policy.trtllm.capacity_scheduler_policy",
     Meaning::kWord},
    {"batch_wait_timeout_iters", "policy.trtllm.batch_wait_timeout_iters", Meaning::kCount},
    {"batch_wait_max_tokens_ratio", "policy.trtllm.batch_wait_max_tokens_ratio", Meaning::kShare},
    {"enable_chunked_prefill", "policy.trtllm.context_chunking_policy", Meaning::kChunks},
    {"kv_cache_config.free_gpu_memory_fraction", kUtilization, Meaning::kShare},
    {"kv_cache_config.tokens_per_block", kBlockSize, Meaning::kCount},
    {"kv_cache_config.enable_block_reuse", "", Meaning::kBlockReuse},
    {"cuda_graph_config.max_batch_size", kCaptured, Meaning::kCount},
    {"moe_config.backend", kExpertsKernel, Meaning::kExperts},
    {"tp_size", "", Meaning::kDescribed},
    {"ep_size", "", Meaning::kDescribed},
    {"pp_size", "", Meaning::kDescribed},
    {"enable_attention_dp", "", Meaning::kDescribed},
    {"kv_cache_config.dtype", "", Meaning::kDescribed}};

// A column that stands for a flag, by engine.
struct ColumnFlag {
  std::string_view column;
  std::string_view flag;
};
constexpr ColumnFlag kVllmColumns[] = {{"max_batched_tokens", "max_num_batched_tokens"},
                                       {"max_seqs", "max_num_seqs"},
                                       {"max_len", "max_model_len"},
                                       {"memory_fraction", "gpu_memory_utilization"},
                                       {"graph_max_batch", "max_cudagraph_capture_size"}};
constexpr ColumnFlag kSglangColumns[] = {{"max_batched_tokens", "chunked_prefill_size"},
                                         {"max_seqs", "max_running_requests"},
                                         {"max_len", "context_length"},
                                         {"memory_fraction", "mem_fraction_static"},
                                         {"graph_max_batch", "cuda_graph_max_bs"}};
constexpr ColumnFlag kTrtllmColumns[] = {
    {"max_batched_tokens", "max_num_tokens"},
    {"max_seqs", "max_batch_size"},
    {"max_len", "max_seq_len"},
    {"memory_fraction", "kv_cache_config.free_gpu_memory_fraction"},
    {"graph_max_batch", "cuda_graph_config.max_batch_size"}};

struct EngineSettings {
  std::string_view family;  // as in config/servers
  std::span<const Setting> settings;
  std::span<const ColumnFlag> columns;
};
constexpr EngineSettings kEngines[] = {{"vllm", kVllmSettings, kVllmColumns},
                                       {"sglang", kSglangSettings, kSglangColumns},
                                       {"trtllm", kTrtllmSettings, kTrtllmColumns}};

const EngineSettings& EngineOf(const ServingRow& row) {
  for (const EngineSettings& engine : kEngines) {
    if (EqualsIgnoringCase(engine.family, row.Text("engine"))) return engine;
  }
  Refuse("engine",
         fmt::format("is \"{}\"; allowed: vllm, sglang, trtllm", Printable(row.Text("engine"))));
}

// The preset that stands in for a version, also for one that is older than the oldest preset. A
// version that names no release (a nightly build, the version of a container) gets the newest.
std::string NearestServer(const EngineSettings& engine, const std::string& version) {
  const std::string asked = fmt::format("{} {}", engine.family, version);
  if (FindServer(asked)) return asked;
  const std::optional<ServerName> name = ParseServerName(asked);
  for (const Server* const server : Servers()) {
    if (server->family != engine.family) continue;
    const ServerPreset& oldest = server->presets.front();
    const bool older = name && name->version && *name->version < oldest.since;
    return std::string(older ? oldest.name : server->presets.back().name);
  }
  return asked;
}

// Kernels of experts as servers name them: TensorRT-LLM in capitals, SGLang with the library that
// they come from. Any, where no measured kernel has the name.
std::string_view ExpertsKernelOf(std::string_view flag, const std::string& text) {
  if (flag == "enable_flashinfer_trtllm_moe") return "trtllm_gen";
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"CUTLASS", "cutlass"},
      {"DEEPGEMM", "deepgemm"},
      {"TRITON", "triton"},
      {"TRTLLM", "trtllm_gen"},
      {"flashinfer_cutlass", "cutlass"},
      {"flashinfer_trtllm", "trtllm_gen"},
      {"deep_gemm", "deepgemm"}};
  for (const auto& [word, kernel] : kWords) {
    if (EqualsIgnoringCase(word, text)) return kernel;
  }
  return "any";
}

bool SwitchOf(std::string_view flag, const std::string& text) {
  if (EqualsIgnoringCase(text, "true") || text == "1") return true;
  if (EqualsIgnoringCase(text, "false") || text == "0") return false;
  Refuse(flag, fmt::format("is \"{}\"; allowed: true, false", Printable(text)));
}

std::string ValueOf(const Setting& setting, const std::string& text) {
  switch (setting.meaning) {
    case Meaning::kCount:
      return std::to_string(WholeNumber(setting.flag, text, -1, kSettingMax));
    case Meaning::kShare:
      return ShortestText(NumberAbove0(setting.flag, text, 1));
    case Meaning::kFactor:
      return ShortestText(NumberAbove0(setting.flag, text, 1000));
    case Meaning::kSwitch:
      return SwitchOf(setting.flag, text) ? "true" : "false";
    case Meaning::kSwitchOff:
      return SwitchOf(setting.flag, text) ? "false" : "true";
    case Meaning::kWord:
      return text;
    case Meaning::kChunks:
      return SwitchOf(setting.flag, text) ? "FIRST_COME_FIRST_SERVED" : "none";
    case Meaning::kExperts:
      return std::string(ExpertsKernelOf(setting.flag, text));
    case Meaning::kBlockReuse:
    case Meaning::kDescribed:
      break;
  }
  return {};
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
  return !EqualsIgnoringCase(row.Text("engine"), "vllm") &&
         MostExperts(ReadNamedShape(row.Text("model"), true)) > 0;
}

// With fixed lengths, users whose outputs all have one length would stay in lockstep: whoever
// begins together ends together, and all prompts come at once. Measured loops do not, because
// clients and servers take requests one after the other. A spread of the outputs about the nominal
// length mixes the users in the same way; the mean stays. `context`: the longest request.
LengthRange OutputsOf(const ServingRow& row, std::int64_t context) {
  const std::int64_t nominal = row.RequiredCount("osl");
  const std::int64_t room = std::max<std::int64_t>(context - PromptsOf(row).high - nominal, 0);
  const double ratio = RangeRatio(row);
  const bool spreads = ratio == 1 && !StaysInStep(row);
  const std::int64_t spread = spreads ? std::min(nominal / kOutputSpreadPart, room) : 0;
  const auto low = static_cast<std::int64_t>(ratio * static_cast<double>(nominal));
  return {std::max<std::int64_t>(low - spread, 1), nominal + spread};
}

class ChangeList {
 public:
  void Set(std::string_view path, std::string_view value) {
    changes_.push_back(fmt::format("{}={}", path, value));
  }
  void SetName(std::string_view path, const std::string& name) {
    Set(path, fmt::format("\"{}\"", Printable(name, kMessageBytesMax)));
  }
  [[nodiscard]] const std::vector<std::string>& changes() const { return changes_; }

 private:
  std::vector<std::string> changes_;
};

void SetSystem(const ServingRow& row, const EngineSettings& engine, ChangeList& list) {
  list.SetName("system.server", NearestServer(engine, row.Text("version")));
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

// Settings of the launch line. Returns the flags without a meaning. A flag holds against a column.
std::set<std::string> SetServerSettings(const ServingRow& row, const EngineSettings& engine,
                                        ChangeList& list) {
  std::map<std::string, std::string> flags = row.Flags();
  for (const ColumnFlag& column : engine.columns) {
    const bool given = flags.contains(std::string(column.flag)) ||
                       (column.column == "graph_max_batch" && flags.contains("cuda_graph_sizes"));
    if (row.Has(column.column) && !given) {
      flags[std::string(column.flag)] = row.Text(column.column);
    }
  }
  std::set<std::string> unused;
  for (const auto& [flag, text] : flags) {
    const auto setting = std::ranges::find(engine.settings, std::string_view(flag), &Setting::flag);
    if (setting == engine.settings.end()) {
      unused.insert(flag);
    } else if (setting->meaning == Meaning::kBlockReuse) {
      if (SwitchOf(flag, text)) unused.insert(flag);
    } else if (setting->meaning != Meaning::kDescribed) {
      list.Set(setting->field, ValueOf(*setting, text));
    }
  }
  return unused;
}

// Public measurements by TensorRT-LLM 1.0.0rc3 of a dense model, whose settings are not published,
// show one slot less than users: at 8, 16 and 32 users, TTFT grows by 1.07, 0.91 and 0.91 / users
// of the time of an answer. Measurements of mixtures by the same release do not. The cause is not
// known.
void SetObservedSlots(const ServingRow& row, ChangeList& list) {
  const std::int64_t users = row.RequiredCount("concurrency");
  const bool unpublished = RangeRatio(row) == 1 && !row.Has("max_seqs") && !row.Has("server");
  if (!unpublished || users < 2 || !EqualsIgnoringCase(row.Text("engine"), "trtllm")) return;
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

void SetLoad(const ServingRow& row, std::int64_t context, ServingExperiment& made,
             ChangeList& list) {
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

ServingExperiment ExperimentOfRow(const ServingRow& row, std::uint64_t seed,
                                  std::span<const std::string> changes) {
  RequireSimulated(row);
  ServingExperiment made;
  made.devices = DevicesOf(row);
  const EngineSettings& engine = EngineOf(row);
  ChangeList list;
  list.SetName("name", row.Text("id"));
  list.Set("seed", std::to_string(seed));
  SetSystem(row, engine, list);
  const std::int64_t context = SetContext(row, list);
  made.unused = SetServerSettings(row, engine, list);
  SetObservedSlots(row, list);
  SetLoad(row, context, made, list);
  ExperimentTemplate text = ExperimentTemplate::FromText("", row.Text("id"));
  const std::filesystem::path folder = std::filesystem::current_path();
  text.Change(list.changes(), folder);
  text.Change(changes, folder);
  made.config = text.With({}, folder);
  return made;
}

}  // namespace twin::run
