// Every flag and key of every server, given to each verb that takes them: the fields that it sets,
// or the refusal, compared with a snapshot. TWIN_UPDATE_SNAPSHOTS=1 writes it anew, which a new
// flag or a value with another meaning needs.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/experiment_options/option_experiment.h"
#include "apps/predict/serving_experiment.h"
#include "apps/recommend/server_settings.h"
#include "apps/validate/measured_system.h"
#include "config/servers/servers.h"
#include "config/servers/settings.h"
#include "core/input_error.h"
#include "tests/support/unique_name.h"
#include "traces/benchmark_run.h"

namespace twin::apps {
namespace {

using Lines = std::vector<std::string>;
using Snapshot = std::map<std::string, std::string>;

constexpr const char* kIgnored = "not simulated";
constexpr const char* kNoEffect = "no effect";

// A flag as it is written: without a value, a switch.
struct Flag {
  std::string name;
  std::string value;
};

// Fields that an experiment sets with some flags, and the flags that it leaves out.
struct Answer {
  Lines changes;
  std::set<std::string> ignored;
};

// Values of a setting: those with a meaning of their own, and one that may be wrong.
Lines ValuesOf(const ServerSetting& setting) {
  Lines values;
  for (const auto& [word, value] : setting.words) {
    if (word != "*") values.push_back(word);
  }
  const auto add = [&values](const Lines& further) {
    values.insert(values.end(), further.begin(), further.end());
  };
  switch (setting.value) {
    case SettingValue::kSwitch:
      return {"", "true", "false"};
    case SettingValue::kCount:
      add({"7", "auto", "-3"});
      break;
    case SettingValue::kShare:
      add({"0.5", "auto", "7"});
      break;
    case SettingValue::kNumber:
      add({"0.5", "auto", "-3"});
      break;
    case SettingValue::kList:
      add({"1 2 4", "auto"});
      break;
    case SettingValue::kWord:
    case SettingValue::kText:
      add({"auto", "awq"});
      break;
  }
  return values;
}

// Each verb is asked for one vLLM, SGLang, ... of the newest release.
GivenOptions OptionsFor(std::string_view server) {
  GivenOptions options;
  options.given[ExperimentOption::kModel] = {"--model", "llama-3-8b"};
  options.given[ExperimentOption::kHardware] = {"--hardware", "h100-sxm"};
  options.given[ExperimentOption::kServer] = {"--server", std::string(server)};
  options.given[ExperimentOption::kRate] = {"--rate", "1"};
  return options;
}

Answer AnswerOf(const GivenOptions& options, const std::string& verb) {
  const OptionExperiment made = ExperimentOf(options, verb);
  return {made.changes, {made.not_simulated.begin(), made.not_simulated.end()}};
}

Answer AskRun(std::string_view server, const std::vector<Flag>& flags) {
  GivenOptions options = OptionsFor(server);
  for (const Flag& flag : flags) options.server_flags.push_back({flag.name, flag.value});
  return AnswerOf(options, "run");
}

// A table names flags without dashes, and a switch as flag=true.
Answer AskPredictServing(std::string_view server, const std::vector<Flag>& flags) {
  const ListedServer listed = *FindServer(server);
  std::string text;
  std::map<std::string, std::string> names;
  for (const Flag& flag : flags) {
    text += flag.name + (flag.value.empty() ? "" : "=" + flag.value) + ";";
    std::string name = flag.name.substr(flag.name.find_first_not_of('-'));
    std::ranges::replace(name, '-', '_');
    names[name] = flag.name;
  }
  const std::string version(server.substr(server.find('-') + 1));
  const run::ServingRow row({{"id", "row"},
                             {"model", "llama-3-8b"},
                             {"engine", std::string(listed.server->family)},
                             {"version", version},
                             {"device", "h100-sxm"},
                             {"isl", "100"},
                             {"osl", "10"},
                             {"concurrency", "4"},
                             {"tp", "1"},
                             {"server", text}});
  const run::ServingChanges made = run::ChangesOfRow(row, 1);
  Answer answer{made.changes, {}};
  for (const std::string& unused : made.unused) answer.ignored.insert(names.at(unused));
  return answer;
}

// Files write the value of a switch.
Answer AskValidate(std::string_view server, const std::vector<Flag>& flags) {
  GivenOptions options = OptionsFor(server);
  BenchmarkRun run;
  run.name = "measured.json";
  for (const Flag& flag : flags) {
    run.facts.push_back({flag.name, flag.value.empty() ? "true" : flag.value, flag.name});
  }
  std::vector<KnownFact> facts;
  IgnoredFacts ignored;
  TakeSettings(run, options, facts, ignored);
  Answer answer = AnswerOf(options, "validate");
  for (const auto& list : {ignored.others, ignored.drafts}) {
    for (const KnownFact& fact : list) answer.ignored.insert(fact.origin);
  }
  return answer;
}

struct Verb {
  const char* name;
  std::function<Answer(std::string_view, const std::vector<Flag>&)> ask;
};

const std::vector<Verb>& Verbs() {
  static const std::vector<Verb> verbs = {
      {"run", AskRun}, {"predict serving", AskPredictServing}, {"validate", AskValidate}};
  return verbs;
}

// Tables for `predict serving` have rows of the servers whose kernels were measured.
bool Takes(const Verb& verb, const Server& server) {
  return std::string_view(verb.name) != "predict serving" || server.family != "tgi";
}

// The changes that `plain` has not, and those that it alone has.
std::string Difference(const Lines& changes, const Lines& plain) {
  Lines told;
  for (const std::string& change : changes) {
    if (std::ranges::find(plain, change) == plain.end()) told.push_back(change);
  }
  for (const std::string& change : plain) {
    if (std::ranges::find(changes, change) == changes.end()) told.push_back("without " + change);
  }
  return told.empty() ? "nothing" : fmt::format("{}", fmt::join(told, " "));
}

// The refusal without the verb and the flag that it begins with.
std::string WithoutPlace(const std::string& refusal, const std::string& flag) {
  std::string plain = flag.substr(flag.find_first_not_of('-'));
  std::ranges::replace(plain, '-', '_');
  for (const std::string& name : {flag, plain}) {
    const std::size_t at = refusal.find(name + ": ");
    if (at != std::string::npos) return refusal.substr(at + name.size() + 2);
  }
  return refusal;
}

std::string OutcomeOf(const Verb& verb, std::string_view server, const Flag& flag,
                      const Lines& plain) {
  try {
    const Answer answer = verb.ask(server, {flag});
    if (answer.ignored.contains(flag.name)) return kIgnored;
    return Difference(answer.changes, plain);
  } catch (const InputError& error) {
    return fmt::format("refused: {}", WithoutPlace(error.what(), flag.name));
  }
}

// "run, validate: PATH=VALUE; predict serving: nothing".
std::string Joined(const std::vector<std::pair<const char*, std::string>>& outcomes) {
  std::string text;
  std::set<std::string> told;
  for (const auto& [verb, outcome] : outcomes) {
    if (!told.insert(outcome).second) continue;
    std::vector<std::string_view> verbs;
    for (const auto& [other, same] : outcomes) {
      if (same == outcome) verbs.emplace_back(other);
    }
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\t", fmt::join(verbs, ", "), outcome);
  }
  return text;
}

// The settings of a server, but for flags that are options of the program itself, such as --model.
std::vector<ServerSetting> AskedSettingsOf(const Server& server) {
  std::vector<ServerSetting> settings;
  for (const ServerSetting& setting : SettingsOf(server.family)) {
    if (FieldOfOption(setting.flag).empty()) settings.push_back(setting);
  }
  return settings;
}

bool IsUnused(const ServerSetting& setting) {
  return setting.effect == SettingEffect::kIgnored || setting.effect == SettingEffect::kNoEffect;
}

// Asks for settings that are not simulated all at once, and for the other ones one by one.
void AskEach(const Server& server, Snapshot& snapshot) {
  const std::string_view release = server.presets.back().name;
  std::vector<Flag> ignored;
  for (const ServerSetting& setting : AskedSettingsOf(server)) {
    if (IsUnused(setting)) ignored.push_back({setting.flag, "awq"});
  }
  std::map<std::string, Answer> plain;
  std::map<std::string, Answer> with_ignored;
  for (const Verb& verb : Verbs()) {
    if (!Takes(verb, server)) continue;
    plain[verb.name] = verb.ask(release, {});
    with_ignored[verb.name] = verb.ask(release, ignored);
    EXPECT_EQ(with_ignored[verb.name].changes, plain[verb.name].changes) << verb.name;
  }
  for (const ServerSetting& setting : AskedSettingsOf(server)) {
    const bool is_ignored = IsUnused(setting);
    const char* const otherwise =
        setting.effect == SettingEffect::kNoEffect ? kNoEffect : "nothing";
    for (const std::string& value : is_ignored ? Lines{"awq"} : ValuesOf(setting)) {
      std::vector<std::pair<const char*, std::string>> outcomes;
      for (const Verb& verb : Verbs()) {
        if (!Takes(verb, server)) continue;
        const bool listed = with_ignored[verb.name].ignored.contains(setting.flag);
        outcomes.emplace_back(
            verb.name,
            is_ignored ? std::string(listed ? kIgnored : otherwise)
                       : OutcomeOf(verb, release, {setting.flag, value}, plain[verb.name].changes));
      }
      snapshot[fmt::format("{} {}{}{}", release, setting.flag, value.empty() ? "" : "=", value)] =
          Joined(outcomes);
    }
  }
}

void ExpectSnapshot(const Snapshot& snapshot) {
  const std::filesystem::path path =
      std::filesystem::path(TWIN_SOURCE_DIR) / "tests/golden/server_flags.tsv";
  if (std::getenv("TWIN_UPDATE_SNAPSHOTS") != nullptr) {
    std::ofstream out(path, std::ios::binary);
    for (const auto& [name, line] : snapshot) out << name << '\t' << line << '\n';
    return;
  }
  Snapshot expected;
  std::ifstream in(path, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    const std::size_t tab = line.find('\t');
    ASSERT_NE(tab, std::string::npos) << line;
    expected[line.substr(0, tab)] = line.substr(tab + 1);
  }
  for (const auto& [name, line] : snapshot) {
    EXPECT_EQ(line, expected.contains(name) ? expected[name] : "not in the snapshot") << name;
  }
  for (const auto& [name, line] : expected) EXPECT_TRUE(snapshot.contains(name)) << name;
}

TEST(ServerFlagsTest, EveryFlagOfEveryServerInEveryVerb) {
  Snapshot snapshot;
  for (const Server* const server : Servers()) {
    AskEach(*server, snapshot);
    const std::string_view release = server->presets.back().name;
    // A request for `recommend` names settings by words that all servers share.
    run::ForEachOpenSetting([&](Setting setting, auto /*own*/, auto /*open*/) {
      const std::string field = FieldOfServer(release, setting);
      snapshot[fmt::format("{} settings.{}", release, SettingWord(setting))] =
          "recommend: " + (field.empty() ? "no such setting" : field);
    });
  }
  EXPECT_GT(snapshot.size(), 1500U);
  ExpectSnapshot(snapshot);
}

// A verb that knows a flag less than another one drops it in silence, or refuses it as unknown.
TEST(ServerFlagsTest, AFlagThatIsKnownToOneVerbIsKnownToAll) {
  for (const Server* const server : Servers()) {
    const std::string_view release = server->presets.back().name;
    std::vector<Flag> ignored;
    std::set<std::string> names;
    for (const ServerSetting& setting : AskedSettingsOf(*server)) {
      if (setting.effect != SettingEffect::kIgnored) continue;
      ignored.push_back({setting.flag, "awq"});
      names.insert(setting.flag);
    }
    for (const Verb& verb : Verbs()) {
      if (!Takes(verb, *server)) continue;
      EXPECT_EQ(verb.ask(release, ignored).ignored, names) << verb.name;
    }
  }
}

// Its refusal named no value that is allowed.
TEST(ServerFlagsTest, TheModelIsTheProgramsOwnOptionInTheWordsOfAllServers) {
  for (const char* const name : {"--model", "--model-path", "--model-id"}) {
    EXPECT_EQ(FieldOfOption(name), "system.model") << name;
  }
}

// The flag says what the server reads in the checkpoint anyway.
TEST(ServerFlagsTest, TheFormatOfTheCheckpointMayBeNamed) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / testing::UniqueName("server_flags");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "llama", "hidden_size": 64,
      "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9,
      "max_position_embeddings": 256, "torch_dtype": "float16",
      "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128,
                              "version": "gemm", "zero_point": true}})";
  GivenOptions options = OptionsFor("vllm-0.33.0");
  options.given[ExperimentOption::kModel].value = folder.string();
  const Lines plain = AnswerOf(options, "run").changes;
  const auto with = [&](const char* method) {
    GivenOptions asked = options;
    asked.server_flags.push_back({"--quantization", method});
    return AnswerOf(asked, "run").changes;
  };
  EXPECT_EQ(with("awq"), plain);
  EXPECT_EQ(with("awq_marlin"), plain);
  EXPECT_THAT([&] { with("gptq"); }, ::testing::ThrowsMessage<InputError>(
                                         ::testing::StartsWith("run: --quantization: is gptq")));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace twin::apps
