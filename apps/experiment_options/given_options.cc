#include "apps/experiment_options/given_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "apps/experiment_options/bench_line.h"
#include "apps/experiment_options/launch_line.h"
#include "config/servers/servers.h"
#include "config/servers/settings.h"
#include "core/split_text.h"

namespace twin::apps {
namespace {

constexpr const char* kShown = "An experiment in options, in place of EXPERIMENT";
constexpr const char* kHidden = "";

struct Row {
  ExperimentOption which;
  std::string_view names;  // the first is shown; the others are those of other programs
  const char* value;
  std::string_view field;  // that it sets, if it is one field
  const char* help;        // null: help texts show none of its names
};

constexpr Row kRows[] = {
    {ExperimentOption::kModel, "--model --model-path --model-id -m", "MODEL", "system.model",
     "Model: a name, its id on huggingface.co, its folder or its config.json"},
    {ExperimentOption::kHardware, "--hardware --system", "DEVICE", "system.hardware",
     "Device, such as h100 or l40s (twinserve doctor --list hardware)"},
    {ExperimentOption::kServer, "--server", "SERVER", "system.server",
     "Server and version, such as \"vLLM 0.33.0\" (default: the newest vLLM that is known)"},
    {ExperimentOption::kBackend, "--backend", "NAME", "system.server", nullptr},
    {ExperimentOption::kBackendVersion, "--backend-version", "VERSION", "system.server", nullptr},
    {ExperimentOption::kVllmVersion, "--vllm-version", "VERSION", "system.server", nullptr},
    {ExperimentOption::kRate, "--rate --request-rate", "R", "workload.arrivals.rate",
     "Requests per second, or inf: all at once"},
    {ExperimentOption::kBurstiness, "--burstiness --arrival-smoothness", "B", "",
     "Shape of the gaps between requests: gamma; 1 is Poisson, less is burstier"},
    {ExperimentOption::kConcurrency, "--concurrency --max-concurrency", "N",
     "workload.max_in_flight",
     "Users who wait for their answers; beside --rate or --trace, most requests in flight"},
    {ExperimentOption::kThink, "--think", "S", "workload.arrivals.think.mean_s",
     "Seconds between an answer and the next request of a user"},
    {ExperimentOption::kTrace, "--trace --dataset-path --input-file --trace-data", "FILE",
     "workload.trace.path", "Requests of a trace (twinserve trace info --help lists the formats)"},
    {ExperimentOption::kRateScale, "--rate-scale", "X", "workload.trace.rate_scale",
     "The requests of the trace come X times as fast"},
    {ExperimentOption::kRamp, "--ramp", "R0,R1,S", "",
     "Requests per second that grow from R0 to R1 within S seconds"},
    {ExperimentOption::kRampStrategy, "--ramp-up-strategy", "NAME", "", nullptr},
    {ExperimentOption::kRampStart, "--ramp-up-start-rps", "R", "", nullptr},
    {ExperimentOption::kRampEnd, "--ramp-up-end-rps", "R", "", nullptr},
    {ExperimentOption::kInputLen,
     "--input-len --random-input-len --isl --synthetic-input-tokens-mean --prompt-tokens "
     "--sonnet-input-len",
     "L", "workload.shape.prompt.value", "Tokens of a prompt (default: 1024)"},
    {ExperimentOption::kOutputLen,
     "--output-len --random-output-len --osl --output-tokens --output-tokens-mean "
     "--sonnet-output-len",
     "L", "workload.shape.output.value", "Tokens of an answer (default: 128)"},
    {ExperimentOption::kInputRange, "--input-range", "A,B", "",
     "Tokens of a prompt, uniform from A to B"},
    {ExperimentOption::kOutputRange, "--output-range", "A,B", "",
     "Tokens of an answer, uniform from A to B"},
    {ExperimentOption::kRangeRatio, "--random-range-ratio", "R", "", nullptr},
    {ExperimentOption::kPrefixLen,
     "--prefix-len --random-prefix-len --prefix-tokens --sonnet-prefix-len", "L",
     "workload.shape.shared_prefix.tokens", "Tokens in front of all prompts, which they share"},
    {ExperimentOption::kPreset, "--preset", "NAME", "workload.preset",
     "Lengths as in a trace of Azure: conversation or code"},
    {ExperimentOption::kDataset, "--dataset-name", "NAME", "", nullptr},
    {ExperimentOption::kRequests,
     "--requests --num-prompts --num-prompt --request-count --num-requests --max-requests", "N",
     "workload.requests", "Number of requests (default: 1000, or those of the trace)"},
    {ExperimentOption::kDuration, "--duration --benchmark-duration --max-seconds", "S",
     "workload.duration_s", "Seconds in which requests arrive"},
    {ExperimentOption::kHorizon, "--horizon", "US", "", nullptr},
    {ExperimentOption::kTensor, "--tp", "N", "system.tensor_parallel",
     "Ranks of tensor parallelism"},
    {ExperimentOption::kPipeline, "--pp", "N", "system.pipeline_parallel", "Stages of a pipeline"},
    {ExperimentOption::kReplicas, "--replicas --num-instances", "N", "system.replicas",
     "Copies of the server, behind a router"},
    {ExperimentOption::kRouter, "--router", "NAME", "system.router.kind",
     "Router of the replicas, such as least_requests (default: round_robin)"},
    {ExperimentOption::kSeed, "--seed --random-seed", "N", "seed",
     "Seed of all random numbers (default: 1)"},
    {ExperimentOption::kTtft, "--ttft", "MS", "slo.ttft_s", nullptr},
    {ExperimentOption::kTpot, "--tpot", "MS", "slo.tpot_s", nullptr},
    {ExperimentOption::kPolicy, "--policy", "POLICY", "policy",
     "Policy in place of the server's or the experiment's: a name (twinserve doctor --list "
     "policies), "
     "a shared library (.so), or a file of Python (.py, or .py:CLASS); with --engine also "
     "MODULE:CLASS"},
    {ExperimentOption::kEngine, "--engine", "RELEASE", "policy.own.engine",
     "Release, such as vllm==0.33.0, whose scheduler the class of --policy is; without --policy, "
     "its own scheduler"},
    {ExperimentOption::kSequences, "--max-num-running-reqs", "N", "", nullptr}};

// Options of load generators and servers that say nothing about the experiment.
constexpr std::string_view kIgnoredValues =
    "--host --port --base-url --url --endpoint --endpoint-type --tokenizer --num-warmups "
    "--ready-check-timeout-sec --served-model-name --percentile-metrics --metric-percentiles "
    "--result-dir --result-filename --label --temperature --top-p --top-k --min-p --ui "
    "--extra-body "
    "--artifact-dir --output-file --warmup-request-count --warmup-requests "
    "--profile-export-file --header";
constexpr std::string_view kIgnoredFlags =
    "--ignore-eos --save-result --save-detailed --trust-remote-code --disable-tqdm --streaming "
    "--append-result --flush-cache --profile --output-details --verbose --use-chat-template";

// More of them that only lines of load generators hold (--bench): here they would be neighbours of
// mistyped options.
constexpr std::string_view kBenchValues =
    "--target --backend-type --processor --output-path --output-dir --outputs --service-kind "
    "--tokenizer-mode --tokenize-mode --api-key";
constexpr std::string_view kBenchFlags = "--random-ids --tokenize-on-client --disable-ignore-eos";

constexpr const char* kMetadata = "--metadata";  // takes a list

bool IsAmong(std::string_view words, std::string_view name) {
  bool is_among = false;
  ForEachPart(words, ' ', [&](std::string_view known) { is_among |= known == name; });
  return is_among;
}

std::string Dashed(std::string_view name) {
  std::string dashed(name);
  std::ranges::replace(dashed, '_', '-');
  return dashed;
}

bool IsNamed(const Row& row, std::string_view name) { return IsAmong(row.names, name); }

void AddRow(CommandParser command, const Row& row, std::string_view taken, GivenOptions& asked) {
  const char* group = row.help != nullptr ? kShown : kHidden;
  ForEachPart(row.names, ' ', [&](std::string_view part) {
    const std::string name(part);
    if (name == taken) return;
    const auto take = [&asked, name, which = row.which](const std::string& value) {
      asked.given[which] = {name, value};
    };
    command.AddRepeatable(name, row.value, take, row.help != nullptr ? row.help : "").Group(group);
    group = kHidden;
  });
}

void AddServerFlag(CommandParser command, const std::string& name, SettingValue value,
                   const std::string& help, GivenOptions& asked) {
  const auto take = [&asked, name](const std::string& text) {
    asked.server_flags.push_back({name, text});
  };
  const char* const group = help.empty() ? kHidden : "Flags of the server";
  if (value == SettingValue::kSwitch) {
    command.AddRepeatable(name, "true|false", take, help).ValueOptional().Group(group);
  } else if (value == SettingValue::kList) {
    command.AddList(name, "VALUE", take, help).Group(group);
  } else {
    command.AddRepeatable(name, "VALUE", take, help).Group(group);
  }
}

// Whether an option of the program has this name, such as --model. Asking the parser takes longer.
bool IsOwnOption(std::string_view name) {
  return std::ranges::any_of(kRows, [&](const Row& row) { return IsNamed(row, name); });
}

// A simulated flag and the titles of the servers that have it.
struct SimulatedFlag {
  SettingValue value;
  std::string titles;
};

void AddSimulatedFlags(CommandParser command, GivenOptions& asked) {
  std::map<std::string, SimulatedFlag> flags;
  for (const Server* const server : Servers()) {
    const auto add = [&](const std::string& name, SettingValue value) {
      SimulatedFlag& flag = flags.try_emplace(name, SimulatedFlag{value, ""}).first->second;
      flag.titles += fmt::format("{}{}", flag.titles.empty() ? "" : ", ", server->title);
    };
    for (const ServerSetting& setting : SettingsOf(server->family)) {
      if (setting.effect != SettingEffect::kField || !setting.flag.starts_with("--")) continue;
      if (!IsOwnOption(setting.flag)) add(setting.flag, setting.value);
      for (const std::string& name : setting.names) {
        if (name.starts_with("--no-")) add(name, setting.value);
      }
    }
  }
  for (const auto& [name, flag] : flags) {
    AddServerFlag(command, name, flag.value, fmt::format("As {} takes it", flag.titles), asked);
  }
}

// The setting of a flag of the server that the line names, else of another server.
std::optional<FoundSetting> FindFlag(const std::vector<std::string>& line, std::string_view name) {
  const auto is_named = [&](const Server* server) {
    return std::ranges::any_of(line, [&](std::string_view word) {
      word.remove_prefix(std::min(word.rfind('=') + 1, word.size()));
      const std::optional<ServerName> named = ParseServerName(word);
      return named && named->family == server->family;
    });
  };
  std::optional<FoundSetting> found;
  for (const Server* const server : Servers()) {
    const auto setting = FindSetting(server->family, name);
    if (setting && (!found || is_named(server))) found = setting;
  }
  return found;
}

// Servers have hundreds of flags that are not simulated: those of the line are declared.
void AddNamedFlags(CommandParser command, const std::vector<std::string>& line,
                   GivenOptions& asked) {
  for (const std::string& word : line) {
    if (!word.starts_with("--")) continue;
    const std::string name = word.substr(0, word.find('='));
    if (command.Has(name)) continue;
    if (const auto setting = FindFlag(line, name)) {
      AddServerFlag(command, name, setting->row->value, "", asked);
    }
  }
}

void AddIgnored(CommandParser command, GivenOptions& asked) {
  const auto note = [&asked](const std::string& name) {
    if (std::ranges::find(asked.ignored, name) == asked.ignored.end()) {
      asked.ignored.push_back(name);
    }
  };
  ForEachPart(kIgnoredValues, ' ', [&](std::string_view part) {
    const std::string name(part);
    command
        .AddRepeatable(
            name, "TEXT", [note, name](const std::string&) { note(name); }, "")
        .Group(kHidden);
  });
  command
      .AddList(
          kMetadata, "KEY=VALUE", [note](const std::string&) { note(kMetadata); }, "")
      .Group(kHidden);
  ForEachPart(kIgnoredFlags, ' ', [&](std::string_view part) {
    const std::string name(part);
    command
        .AddFlag(
            name, [note, name] { note(name); }, "")
        .Group(kHidden);
  });
}

}  // namespace

const GivenOption* GivenOptions::Find(ExperimentOption which) const {
  const auto found = given.find(which);
  return found == given.end() ? nullptr : &found->second;
}

std::optional<GivenOption> GivenOptions::FirstGiven() const {
  if (!given.empty()) return given.begin()->second;
  if (!launched.empty()) return GivenOption{launched.front(), ""};
  if (!server_flags.empty()) return server_flags.front();
  if (!goals.empty()) return GivenOption{"--goodput", goals.front()};
  if (!ignored.empty()) return GivenOption{ignored.front(), ""};
  return std::nullopt;
}

void AddExperimentOptions(CommandParser command, const std::vector<std::string>& line,
                          GivenOptions& asked, std::string_view taken) {
  for (const Row& row : kRows) AddRow(command, row, taken, asked);
  command
      .AddOption("--goodput", asked.goals,
                 "Bounds for goodput in milliseconds: ttft:200 tpot:50 e2el:3000")
      .ValueName("KEY:MS")
      .Group(kShown);
  command
      .AddFlag(
          "--fixed-schedule",
          [&asked] {
            asked.given[ExperimentOption::kFixedSchedule] = {"--fixed-schedule", ""};
          },
          "")
      .Group(kHidden);
  command
      .AddLate(
          "--serve", "LINE", [&asked](const std::string& text) { TakeLaunchLine(text, asked); },
          "Command line that starts the server, as it is: 'vllm serve MODEL --max-num-seqs 256'")
      .Group(kShown);
  command
      .AddLate(
          "--bench", "LINE", [&asked](const std::string& text) { TakeBenchLine(text, asked); },
          "Command line of the load generator, as it is: 'vllm bench serve --request-rate 8'")
      .Group(kShown);
  AddIgnored(command, asked);
  AddSimulatedFlags(command, asked);
  AddNamedFlags(command, line, asked);
}

GivenOption NamedServer(const GivenOptions& asked) {
  GivenOption named{"--server", ""};
  if (const GivenOption* const server = asked.Find(ExperimentOption::kServer)) named = *server;
  if (const GivenOption* const version = asked.Find(ExperimentOption::kVllmVersion)) {
    named = {version->name, fmt::format("{} {}", kVllmServer.title, version->value)};
  }
  const GivenOption* const backend = asked.Find(ExperimentOption::kBackend);
  if (backend != nullptr && !backend->value.starts_with("openai") && named.value.empty()) {
    const GivenOption* const version = asked.Find(ExperimentOption::kBackendVersion);
    named = {backend->name, backend->value + (version ? " " + version->value : "")};
  }
  return named;
}

std::optional<ExperimentOption> OptionNamed(std::string_view name) {
  const std::string dashed = Dashed(name);
  const auto* const row =
      std::ranges::find_if(kRows, [&](const Row& known) { return IsNamed(known, dashed); });
  return row == std::end(kRows) ? std::nullopt : std::optional(row->which);
}

bool IsWithoutEffect(std::string_view name) {
  const std::string dashed = Dashed(name);
  return dashed == kMetadata ||
         std::ranges::any_of(std::array{kIgnoredValues, kIgnoredFlags, kBenchValues, kBenchFlags},
                             [&](std::string_view names) { return IsAmong(names, dashed); });
}

ValueCount ValuesOfOption(std::string_view name) {
  const std::string dashed = Dashed(name);
  if (IsAmong(kIgnoredFlags, dashed) || IsAmong(kBenchFlags, dashed)) return ValueCount::kNone;
  const bool has_one =
      OptionNamed(name) || IsAmong(kIgnoredValues, dashed) || IsAmong(kBenchValues, dashed);
  return has_one ? ValueCount::kOne : ValueCount::kMany;
}

std::string_view FieldOfOption(std::string_view name) {
  const auto* const row =
      std::ranges::find_if(kRows, [&](const Row& known) { return IsNamed(known, name); });
  return row == std::end(kRows) ? std::string_view() : row->field;
}

}  // namespace twin::apps
