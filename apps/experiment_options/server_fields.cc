#include "apps/experiment_options/server_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/experiment_options/option_names.h"
#include "apps/experiment_options/start_checks.h"
#include "config/models/named_model.h"
#include "config/servers/stored_format.h"
#include "core/printable.h"

namespace twin::apps {
namespace {

// "least-requests" as the schema writes it: LEAST_REQUESTS.
char UpperCaseWord(char c) {
  if (c == '-') return '_';
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

}  // namespace

void ServerFields::Set(const std::string& path, std::string_view value) {
  made_.changes.push_back(fmt::format("{}={}", path, value));
}

void ServerFields::WriteParallelism() {
  if (const GivenOption* const ranks = values_.FindParallelism(Setting::kTensorParallel)) {
    WriteRanks(ranks->name, values_.CountOf(*ranks));
  }
  if (const GivenOption* const stages = values_.FindParallelism(Setting::kPipelineParallel)) {
    Set("system.pipeline_parallel", std::to_string(values_.CountOf(*stages)));
  }
  if (const GivenOption* const copies = values_.FindParallelism(Setting::kReplicas)) {
    WriteReplicas(*copies);
  }
  if (const GivenOption* const router = Find(ExperimentOption::kRouter)) {
    std::string kind = router->value;
    std::ranges::transform(kind, kind.begin(), UpperCaseWord);
    Set("system.router.kind", kind);
  }
}

void ServerFields::WriteRanks(const std::string& option, std::int64_t count) {
  RequireDivision(values_.Where(option), ReadNamedShape(model_, true), count);
  Set("system.tensor_parallel", std::to_string(count));
}

// Ranks of data parallelism of vLLM divide the experts. Those of SGLang are whole copies, unless
// they divide the attention alone. Where a line starts ranks that share experts, as many ranks of
// tensor parallelism stand in for them.
void ServerFields::WriteReplicas(const GivenOption& copies) {
  const std::int64_t count = values_.CountOf(copies);
  const Server& server = *FindServer(server_)->server;
  const bool is_own = copies.name == "--replicas" || copies.name == "--num-instances";
  const bool shares = !is_own && &server == &kVllmServer && count > 1 &&
                      MostExperts(ReadNamedShape(model_, true)) > 0;
  const auto is_of_attention = [&](const GivenOption& flag) {
    const auto setting = FindSetting(server.family, flag.name);
    return setting && setting->row->setting == Setting::kAttentionRanks;
  };
  const bool of_attention = std::ranges::any_of(asked_.server_flags, is_of_attention);
  if (shares && !asked_.has_launch_line) {
    values_.Refuse(copies.name,
                   "replicas of a mixture of experts share them, which is not simulated; "
                   "allowed: --replicas N, whole copies");
  }
  if (!shares && (is_own || !of_attention)) return Set("system.replicas", std::to_string(count));
  const GivenOption* const ranks = values_.FindParallelism(Setting::kTensorParallel);
  const std::int64_t tensor = ranks == nullptr ? 1 : values_.CountOf(*ranks);
  if (shares) WriteRanks(copies.name, tensor * count);
  made_.not_simulated.push_back(
      fmt::format("{} (data parallelism of attention; {} ranks of tensor parallelism stand in)",
                  copies.name, shares ? tensor * count : tensor));
}

void ServerFields::WriteFlags() {
  for (const GivenOption& flag : asked_.server_flags) WriteFlag(flag);
  const GivenOption* const limit = Find(ExperimentOption::kSequences);
  if (limit == nullptr) return;
  const std::string field = FieldOfServer(server_, Setting::kMaxNumSeqs);
  if (field.empty()) {
    values_.Refuse(limit->name, fmt::format("{} has no limit of sequences; allowed: without it",
                                            ServerTitle(server_, "")));
  }
  Set(field, std::to_string(values_.CountOf(*limit)));
}

// Refuses a flag of another server.
void ServerFields::RefuseForeignFlag(const GivenOption& flag, const Server& server) const {
  std::vector<std::string_view> titles;
  std::string_view own;
  for (const Server* const other : Servers()) {
    const std::optional<FoundSetting> setting = FindSetting(other->family, flag.name);
    if (!setting) continue;
    titles.push_back(other->title);
    if (setting->row->setting == Setting::kOther) continue;
    const ServerSetting* const same = FindSetting(server.family, setting->row->setting);
    if (same != nullptr && own.empty()) own = same->flag;
  }
  values_.Refuse(flag.name,
                 fmt::format("no flag of {}, but of {}; allowed: {}", ServerTitle(server_, ""),
                             fmt::join(titles, ", "),
                             own.empty() ? "see twinserve doctor --list server-settings" : own));
}

void ServerFields::WriteFlag(const GivenOption& flag) {
  const ListedServer listed = *FindServer(server_);
  const auto setting = FindSetting(listed.server->family, flag.name);
  if (OptionValues::IsParallelism(SettingOfFlag(flag.name))) return;  // see WriteParallelism()
  if (!setting) RefuseForeignFlag(flag, *listed.server);
  if (setting->row->setting == Setting::kExpertRanks) return WriteExpertRanks(flag);
  const bool is_refused = setting->row->effect == SettingEffect::kRefused;
  if (setting->row->setting == Setting::kSpeculation) {
    if (is_refused && listed.server == &kVllmServer) return WriteSpeculation(flag, *setting->row);
    if (asked_.has_launch_line) return NoteDifference(flag, *setting->row);
  }
  if (setting->row->setting == Setting::kPositions && WritePositions(flag)) return;
  WriteMeaning(flag, *setting, listed.preset->policy);
}

// {"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": N}}, or
// the inner object alone, lengthens the positions and costs no time. False for any other text.
bool ServerFields::WritePositions(const GivenOption& flag) {
  auto object = nlohmann::json::parse(flag.value, nullptr, false);
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    if (object.is_object() && object.size() == 1 && object.contains(key)) object = object[key];
  }
  const auto number = [&](const char* key) {
    const bool has = object.is_object() && object.contains(key) && object[key].is_number();
    return has ? object[key].get<double>() : 0;
  };
  const double positions = number("factor") * number("original_max_position_embeddings");
  if (positions < 1 || positions > std::numeric_limits<std::int32_t>::max()) return false;
  Set("system.model_shape.max_position", std::to_string(static_cast<std::int64_t>(positions)));
  return true;
}

void ServerFields::WriteMeaning(const GivenOption& flag, const FoundSetting& setting,
                                std::string_view policy) {
  const SettingMeaning meaning = MeaningOf(setting, policy, flag.value);
  switch (meaning.kind) {
    case SettingMeaning::Kind::kWrong:
      if (setting.row->setting == Setting::kWeightFormat && IsStoredFormat(model_, flag.value)) {
        return;
      }
      [[fallthrough]];
    case SettingMeaning::Kind::kRefused:
      if (MayDiffer(*setting.row, meaning)) return NoteDifference(flag, *setting.row);
      values_.Refuse(flag.name, meaning.what);
    case SettingMeaning::Kind::kIgnored:
      made_.not_simulated.push_back(flag.name);
      return;
    case SettingMeaning::Kind::kNoEffect:
      made_.without_effect.push_back(flag.name);
      return;
    case SettingMeaning::Kind::kNothing:
      return;
    case SettingMeaning::Kind::kSet:
      break;
  }
  if (meaning.field.starts_with("policy.") && Find(ExperimentOption::kPolicy) != nullptr) {
    values_.Refuse(flag.name,
                   fmt::format("is a flag of {}, whose policy --policy replaces; allowed: --set "
                               "policy.{}.FIELD=VALUE",
                               ServerTitle(server_, ""), Find(ExperimentOption::kPolicy)->value));
  }
  Set(meaning.field, meaning.value);
}

// Lines that start a server are simulated without the flags that make another deployment, and
// without words that no simulation knows, but the answer names these. Numbers are refused.
bool ServerFields::MayDiffer(const ServerSetting& setting, const SettingMeaning& meaning) const {
  const bool is_word = setting.value == SettingValue::kText || setting.value == SettingValue::kWord;
  return asked_.has_launch_line && (meaning.kind == SettingMeaning::Kind::kRefused || is_word);
}

void ServerFields::NoteDifference(const GivenOption& flag, const ServerSetting& setting) {
  const bool is_refused = setting.effect == SettingEffect::kRefused;
  const std::string_view why = is_refused ? setting.why : flag.value;
  made_.not_simulated.push_back(fmt::format("{} ({})", flag.name, Printable(why)));
}

// The ranks divide a mixture's experts whole, or each of them by its width.
void ServerFields::WriteExpertRanks(const GivenOption& flag) {
  const std::int64_t count = values_.CountOf(flag);
  const GivenOption* const tensor = values_.FindParallelism(Setting::kTensorParallel);
  const std::int64_t ranks = tensor == nullptr ? 1 : values_.CountOf(*tensor);
  if (count == 1) return;
  if (count != ranks) {
    values_.Refuse(flag.name,
                   fmt::format("is {}; allowed: 1, or all of the {} ranks", count, ranks));
  }
  Set("cost.profile.expert_parallel", "true");
}

// --speculative-config, an object of JSON. Drafts of other methods than n-grams need a server
// without a prefix cache, which a line that starts one seldom describes.
void ServerFields::WriteSpeculation(const GivenOption& flag, const ServerSetting& setting) {
  const auto object = nlohmann::json::parse(flag.value, nullptr, false);
  const bool has_method = object.is_object() && object.contains("method");
  const bool of_ngrams = has_method && object["method"] == "ngram";
  if (asked_.has_launch_line && !of_ngrams) return NoteDifference(flag, setting);
  if (!has_method || !object["method"].is_string() || !object.contains("num_speculative_tokens")) {
    values_.Refuse(flag.name, fmt::format("is {}; allowed: an object of JSON with method and "
                                          "num_speculative_tokens",
                                          Printable(flag.value)));
  }
  // The parts have flags of their own in newer releases.
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {
      {"method", "--spec-method"},
      {"num_speculative_tokens", "--spec-tokens"},
      {"prompt_lookup_max", "--ngram-prompt-lookup-max"},
      {"prompt_lookup_min", "--ngram-prompt-lookup-min"}};
  for (const auto& [key, value] : object.items()) {
    const auto* const part =
        std::ranges::find(kParts, key, &std::pair<std::string_view, std::string_view>::first);
    if (part == std::end(kParts)) {
      made_.not_simulated.push_back(fmt::format("{}: {}", flag.name, key));
      continue;
    }
    const ListedServer listed = *FindServer(server_);
    const GivenOption given = {std::string(part->second),
                               value.is_string() ? value.get<std::string>() : value.dump()};
    WriteMeaning(given, *FindSetting(listed.server->family, given.name), listed.preset->policy);
  }
}

}  // namespace twin::apps
