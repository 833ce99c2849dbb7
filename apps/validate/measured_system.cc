#include "apps/validate/measured_system.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <utility>

#include "apps/experiment_names.h"
#include "apps/experiment_options/asked_experiment.h"
#include "apps/experiment_options/option_experiment.h"
#include "apps/experiment_options/option_names.h"
#include "apps/experiment_options/option_values.h"
#include "config/experiment_text.h"
#include "config/servers/servers.h"
#include "config/servers/settings.h"
#include "config/servers/stored_format.h"
#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "run/deployment.h"

namespace twin::apps {
namespace {

constexpr const char* kCommand = "validate";

// Facts that have an option of the program itself. The other ones are flags of servers.
struct OwnOption {
  std::string_view option;
  ExperimentOption which;
  const char* what;     // null: it may be left open
  const char* example;  // of the option's value
};
constexpr std::array kOwnOptions = {
    OwnOption{"--model", ExperimentOption::kModel, "the model", "meta-llama/Llama-3.1-8B"},
    OwnOption{"--hardware", ExperimentOption::kHardware, "the device", "h100"},
    OwnOption{"--server", ExperimentOption::kServer, "the server and its version",
              "\"vLLM 0.33.0\""},
    OwnOption{"--tp", ExperimentOption::kTensor, "the ranks of tensor parallelism", "1"},
    OwnOption{"--pp", ExperimentOption::kPipeline, nullptr, ""},
    OwnOption{"--replicas", ExperimentOption::kReplicas, nullptr, ""}};

Setting ParallelismOf(ExperimentOption which) {
  if (which == ExperimentOption::kTensor) return Setting::kTensorParallel;
  if (which == ExperimentOption::kPipeline) return Setting::kPipelineParallel;
  return which == ExperimentOption::kReplicas ? Setting::kReplicas : Setting::kOther;
}

// Whether the options say it, under whatever name.
bool IsGiven(const GivenOptions& options, ExperimentOption which) {
  if (options.Find(which) != nullptr) return true;
  if (which == ExperimentOption::kServer) return !NamedServer(options).value.empty();
  const Setting setting = ParallelismOf(which);
  return setting != Setting::kOther &&
         std::ranges::any_of(options.server_flags, [&](const GivenOption& flag) {
           return SettingOfFlag(flag.name) == setting;
         });
}

const OwnOption* FindOwn(std::string_view option) {
  const auto* const found = std::ranges::find(kOwnOptions, option, &OwnOption::option);
  return found == kOwnOptions.end() ? nullptr : found;
}

// Enters the file's facts that are options of the program among the options, which go first.
void TakeOwnFacts(const BenchmarkRun& run, GivenOptions& options, std::vector<KnownFact>& facts) {
  for (const auto& [which, option] : options.given) {
    facts.push_back({fmt::format("{} {}", option.name, option.value), "option"});
  }
  for (const GivenOption& flag : options.server_flags) {
    facts.push_back({fmt::format("{} {}", flag.name, flag.value), "option"});
  }
  for (const ServerFact& fact : run.facts) {
    const OwnOption* const own = FindOwn(fact.option);
    if (own == nullptr || IsGiven(options, own->which)) continue;
    options.given[own->which] = {fmt::format("{}: {}", run.name, fact.origin), fact.value};
    facts.push_back({fmt::format("{} {}", fact.option, fact.value), fact.origin});
  }
}

bool SaysNothing(std::string_view value) {
  return value == "[]" || value == "{}" || EqualsIgnoringCase(value, "none") ||
         EqualsIgnoringCase(value, "null");
}

// A fact that is a setting of the server, taken as the option of the same name; `ignored` gets
// those that are not simulated. Throws InputError (usage) for one that makes another deployment.
void TakeSetting(const BenchmarkRun& run, const ServerFact& fact, const ListedServer& server,
                 GivenOptions& options, std::vector<KnownFact>& facts, IgnoredFacts& ignored) {
  constexpr std::size_t kShownMax = 60;
  const bool is_secret = fact.option.find("api_key") != std::string::npos ||
                         fact.option.ends_with("token") || fact.option.ends_with("password");
  const std::string text =
      fmt::format("{} {}", fact.option, is_secret ? "***" : Printable(fact.value, kShownMax));
  const std::optional<FoundSetting> setting = FindSetting(server.server->family, fact.option);
  if (SaysNothing(fact.value)) return;
  if (!setting) {
    ignored.others.push_back({text, fact.origin});
    return;
  }
  const bool given = std::ranges::any_of(options.server_flags, [&](const GivenOption& flag) {
    const auto other = FindSetting(server.server->family, flag.name);
    return other && other->row == setting->row;
  });
  const SettingMeaning meaning = MeaningOf(*setting, server.preset->policy, fact.value);
  if (given || meaning.kind == SettingMeaning::Kind::kNothing ||
      meaning.kind == SettingMeaning::Kind::kNoEffect) {
    return;
  }
  // Drafts change the times that are compared, and the report says so.
  const bool drafts = setting->row->setting == Setting::kSpeculation;
  const bool is_wrong = meaning.kind == SettingMeaning::Kind::kWrong;
  if (is_wrong && setting->row->setting == Setting::kWeightFormat &&
      IsStoredFormat(options.Find(ExperimentOption::kModel)->value, fact.value)) {
    return;
  }
  if ((is_wrong || meaning.kind == SettingMeaning::Kind::kRefused) && !drafts) {
    throw InputError(InputError::Kind::kUsage, fmt::format("{}: {}", run.name, fact.origin),
                     meaning.what);
  }
  if (meaning.kind == SettingMeaning::Kind::kIgnored || drafts) {
    const std::string& why = setting->row->why;
    (drafts ? ignored.drafts : ignored.others)
        .push_back({why.empty() ? text : fmt::format("{} ({})", text, why), fact.origin});
    return;
  }
  const bool is_size = setting->row->field == "system.memory.kv_bytes_override" ||
                       setting->row->field == "system.memory.blocks_override";
  const auto& all = run.facts;
  if (is_size && std::ranges::find(all, kFactKvBlocks, &ServerFact::option) != all.end()) return;
  options.server_flags.push_back({fact.option, fact.value});
  facts.push_back({fmt::format("{} {}", setting->row->flag, Printable(fact.value)), fact.origin});
}

}  // namespace

void TakeSettings(const BenchmarkRun& run, GivenOptions& options, std::vector<KnownFact>& facts,
                  IgnoredFacts& ignored) {
  const GivenOption named = NamedServer(options);
  const NamedPart server = NameServer(named.name, named.value);
  const ListedServer listed = *FindServer(server.name);
  for (const ServerFact& fact : run.facts) {
    if (fact.option == kFactKvBlocks || fact.option == kFactKvTokens) continue;
    if (FindOwn(fact.option) != nullptr) continue;
    TakeSetting(run, fact, listed, options, facts, ignored);
  }
}

namespace {

void RequireFacts(const std::string& file, const GivenOptions& options) {
  std::vector<std::string> open;
  std::string line = fmt::format("twinserve validate --measured {}", file);
  for (const OwnOption& own : kOwnOptions) {
    if (own.what == nullptr) continue;
    if (!IsGiven(options, own.which)) open.emplace_back(own.what);
    const GivenOption* const given = options.Find(own.which);
    std::string value = given == nullptr ? own.example : given->value;
    if (value.find(' ') != std::string::npos && value[0] != '"') value = '"' + value + '"';
    line += fmt::format(" {} {}", own.option, value);
  }
  if (open.empty()) return;
  throw InputError(InputError::Kind::kUsage, kCommand,
                   fmt::format("neither {} nor an option says: {}; allowed: such as {}; or "
                               "--system with an experiment file",
                               Printable(file, kMessageBytesMax), fmt::join(open, ", "), line));
}

// The number of KV blocks that the file names, if any.
std::optional<std::int64_t> KvBlocks(const BenchmarkRun& run, const ExperimentTemplate& base,
                                     std::vector<KnownFact>& facts) {
  for (const ServerFact& fact : run.facts) {
    const auto number = NumberFrom<std::int64_t>(fact.value);
    if (!number || *number < 1) continue;
    std::int64_t blocks = *number;
    if (fact.option == kFactKvTokens) {
      blocks /= run::Resolve(base.With({}, {})).engine.kv.block_size;
    } else if (fact.option != kFactKvBlocks) {
      continue;
    }
    if (blocks < 1 || blocks > std::numeric_limits<std::int32_t>::max()) continue;
    facts.push_back({fmt::format("{} KV blocks", blocks), fact.origin});
    return blocks;
  }
  return std::nullopt;
}

ExperimentTemplate ReadBase(const SystemQuestion& asked, const BenchmarkRun& run,
                            std::vector<KnownFact>& facts, IgnoredFacts& ignored) {
  GivenOptions options = asked.options;
  options.given.erase(ExperimentOption::kConcurrency);  // part of the load (TakeLoadOptions)
  options.given.erase(ExperimentOption::kRate);
  if (!asked.system.empty()) {
    if (const auto first = options.FirstGiven()) RefuseBoth(kCommand, *first);
    facts.push_back({asked.system, "--system"});
    return ExperimentTemplate(ExperimentFile(asked.system));
  }
  TakeOwnFacts(run, options, facts);
  RequireFacts(asked.measured, options);
  TakeSettings(run, options, facts, ignored);
  options.given[ExperimentOption::kRate] = {"--rate", "inf"};  // any load: another one replaces it
  OptionExperiment made = ExperimentOf(options, kCommand);
  for (const auto& list : {options.not_simulated, made.not_simulated}) {
    for (const std::string& option : list) ignored.others.push_back({option, "an option"});
  }
  ReadOptions(made, asked.changes, options, kCommand);  // refuses a system that cannot start
  return TemplateOf(made, {}, kCommand);
}

// The field that a fact sets, and its value; nullopt for one that sets none.
std::optional<std::pair<std::string, std::string>> FieldOfFact(const ServerFact& fact,
                                                               const std::string& server) {
  if (FindOwn(fact.option) != nullptr) {
    const bool is_count = NumberFrom<std::int64_t>(fact.value).has_value();
    if (!is_count) return std::nullopt;  // names have several spellings
    return std::pair(std::string(FieldOfOption(fact.option)), fact.value);
  }
  const std::optional<ListedServer> listed = FindServer(server);
  if (!listed) return std::nullopt;
  const auto setting = FindSetting(listed->server->family, fact.option);
  if (!setting || setting->row->setting == Setting::kExpertRanks) return std::nullopt;
  SettingMeaning meaning = MeaningOf(*setting, listed->preset->policy, fact.value);
  if (meaning.kind != SettingMeaning::Kind::kSet) return std::nullopt;
  return std::pair(std::move(meaning.field), std::move(meaning.value));
}

// Notes what the file says otherwise than the simulated system has it, because an option or the
// file of the system says so.
void NoteContradictions(const BenchmarkRun& run, const ExperimentConfig& config,
                        std::vector<std::string>& notes) {
  if (!config.system.groups.empty()) return;  // paths do not tell the groups apart
  std::map<std::string, std::string> values;
  for (const FieldLine& line : LinesOf(WriteResolved(run::Resolve(config).config))) {
    if (line.kind != FieldLine::Kind::kValue) continue;
    values[line.path] = line.text.substr(line.text.find(": ") + 2);
  }
  for (const ServerFact& fact : run.facts) {
    const auto said = FieldOfFact(fact, config.system.server.value_or(""));
    if (!said) continue;
    const auto found = values.find(said->first);
    if (found == values.end() || EqualsIgnoringCase(found->second, said->second)) continue;
    const auto number = NumberFrom<double>(found->second);
    if (number && number == NumberFrom<double>(said->second)) continue;
    notes.push_back(fmt::format("{} says {}, but {} is {}, which is simulated", fact.origin,
                                Printable(fact.value), said->first, found->second));
  }
}

}  // namespace

void TakeLoadOptions(const SystemQuestion& asked, BenchmarkRun& run) {
  const OptionValues values(asked.options, kCommand);
  for (const auto& [which, option] : asked.options.given) {
    const bool open = !run.has_times && !run.rate && !run.cap;
    if (which == ExperimentOption::kConcurrency && !run.cap) {
      run.cap = static_cast<std::int32_t>(
          std::min<std::int64_t>(values.CountOf(option), std::numeric_limits<std::int32_t>::max()));
    } else if (which == ExperimentOption::kRate && open) {
      run.rate = option.value == "inf" ? std::numeric_limits<double>::infinity()
                                       : values.NumberAbove0(option);
    } else if (which >= ExperimentOption::kRate && which <= ExperimentOption::kHorizon) {
      values.Refuse(option.name, fmt::format("the load comes from {}; allowed: without {}",
                                             run.name, option.name));
    }
  }
}

MeasuredSystem ReadMeasuredSystem(const SystemQuestion& asked, const BenchmarkRun& run) {
  std::vector<KnownFact> facts;
  IgnoredFacts ignored;
  ExperimentTemplate base = ReadBase(asked, run, facts, ignored);
  bool known = false;
  if (asked.system.empty()) {
    if (const auto blocks = KvBlocks(run, base, facts)) {
      const std::vector<std::string> change = {
          fmt::format("system.memory.blocks_override={}", *blocks)};
      base.Change(change, {});
      known = true;
    }
  }
  MeasuredSystem system{.base = std::move(base),
                        .changes = asked.changes,
                        .facts = std::move(facts),
                        .ignored = std::move(ignored.others),
                        .drafts = std::move(ignored.drafts),
                        .contradictions = {},
                        .kv_blocks_known = known,
                        .has_options = asked.system.empty()};
  for (const std::string& change : asked.changes) system.facts.push_back({change, "--set"});
  // Any load: the file of a system may have none.
  const std::vector<std::string> load = {
      "workload.arrivals.kind=all_at_once", "workload.requests=1",
      "workload.shape.prompt.kind=fixed",   "workload.shape.prompt.value=1",
      "workload.shape.output.kind=fixed",   "workload.shape.output.value=1"};
  const ExperimentConfig config = ExperimentWith(system, load);
  NoteContradictions(run, config, system.contradictions);
  system.kv_blocks_known = known || config.system.memory.blocks_override.has_value();
  return system;
}

ExperimentConfig ExperimentWith(const MeasuredSystem& system, const std::vector<std::string>& load,
                                const std::vector<std::string>& further) {
  std::vector<std::string> changes = {"!workload", "!metrics"};
  changes.insert(changes.end(), load.begin(), load.end());
  changes.insert(changes.end(), system.changes.begin(), system.changes.end());
  changes.insert(changes.end(), further.begin(), further.end());
  ExperimentConfig config = system.base.With(changes, std::filesystem::current_path());
  if (!IsSimulated(config.world)) {
    throw InputError(InputError::Kind::kUsage, kCommand,
                     "--system: its world is not simulated; allowed: a simulated world, as with "
                     "--unset world");
  }
  return config;
}

}  // namespace twin::apps
