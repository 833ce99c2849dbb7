#include "config/servers/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "config/embedded_files.h"
#include "config/experiment.pb.h"
#include "core/check.h"
#include "core/csv.h"
#include "core/letter_case.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "core/split_text.h"

namespace twin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using Kind = SettingMeaning::Kind;

constexpr std::int64_t kCountMax = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kBytesMax = std::int64_t{1} << 53;
constexpr std::string_view kPolicyField = "policy.*.";

template <class E>
using Word = std::pair<std::string_view, E>;

constexpr Word<Setting> kSettings[] = {{"", Setting::kOther},
                                       {"tensor_parallel", Setting::kTensorParallel},
                                       {"pipeline_parallel", Setting::kPipelineParallel},
                                       {"replicas", Setting::kReplicas},
                                       {"expert_ranks", Setting::kExpertRanks},
                                       {"attention_ranks", Setting::kAttentionRanks},
                                       {"weight_format", Setting::kWeightFormat},
                                       {"kv_format", Setting::kKvFormat},
                                       {"gpu_memory_utilization", Setting::kMemoryShare},
                                       {"block_size", Setting::kBlockSize},
                                       {"token_budget", Setting::kTokenBudget},
                                       {"max_num_seqs", Setting::kMaxNumSeqs},
                                       {"max_model_len", Setting::kMaxModelLen},
                                       {"max_batch_total_tokens", Setting::kMaxBatchTotalTokens},
                                       {"waiting_served_ratio", Setting::kWaitingServedRatio},
                                       {"max_concurrent_requests", Setting::kMaxConcurrentRequests},
                                       {"schedule_policy", Setting::kSchedulePolicy},
                                       {"context_chunking_policy", Setting::kContextChunking},
                                       {"prefix_caching", Setting::kPrefixCaching},
                                       {"speculation", Setting::kSpeculation},
                                       {"positions", Setting::kPositions}};

constexpr Word<SettingValue> kValues[] = {
    {"switch", SettingValue::kSwitch}, {"count", SettingValue::kCount},
    {"share", SettingValue::kShare},   {"number", SettingValue::kNumber},
    {"word", SettingValue::kWord},     {"text", SettingValue::kText},
    {"list", SettingValue::kList}};

template <class E, std::size_t n>
E WordOf(const Word<E> (&words)[n], std::string_view text) {
  const auto* const found = std::ranges::find(words, text, &Word<E>::first);
  CHECK(found != std::end(words));
  return found->second;
}

SettingEffect EffectOf(std::string_view cell) {
  if (cell == "refused") return SettingEffect::kRefused;
  if (cell == "ignored") return SettingEffect::kIgnored;
  return cell == "no_effect" ? SettingEffect::kNoEffect : SettingEffect::kField;
}

ServerSetting SettingOf(const std::vector<std::string_view>& cells) {
  CHECK(cells.size() == 7);
  ServerSetting setting{.flag = std::string(cells[0]),
                        .names = {},
                        .value = WordOf(kValues, cells[2]),
                        .effect = EffectOf(cells[3]),
                        .field = {},
                        .words = {},
                        .setting = WordOf(kSettings, cells[5]),
                        .why = std::string(cells[6])};
  if (setting.effect == SettingEffect::kField) setting.field = cells[3];
  ForEachPart(cells[1], '|', [&](std::string_view name) { setting.names.emplace_back(name); });
  ForEachPart(cells[4], '|', [&](std::string_view word) {
    const std::size_t equals = word.find('=');
    CHECK(equals != std::string_view::npos);
    setting.words.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  });
  return setting;
}

std::vector<ServerSetting> ReadSettings(std::string_view text) {
  std::vector<ServerSetting> settings;
  CsvCells cells;
  for (bool header = true; !text.empty(); header = false) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (header) continue;
    CHECK(cells.Split(line) == CsvCells::Result::kSplit);
    settings.push_back(SettingOf(cells.cells()));
  }
  return settings;
}

bool IsNamed(const ServerSetting& setting, std::string_view name) {
  return EqualsIgnoringSeparators(setting.flag, name) ||
         std::ranges::any_of(setting.names, [&](const std::string& known) {
           return EqualsIgnoringSeparators(known, name);
         });
}

std::string_view Undashed(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of("-_"), name.size()));
  return name;
}

// Names of the opposite of a switch begin with it, as argparse makes them.
constexpr std::string_view kOpposite = "no-";

bool IsOpposite(std::string_view name) {
  name = Undashed(name);
  return name.starts_with(kOpposite) || name.starts_with("no_");
}

const ServerSetting* FindNamed(std::string_view family, std::string_view name) {
  for (const ServerSetting& setting : SettingsOf(family)) {
    if (IsNamed(setting, name)) return &setting;
  }
  return nullptr;
}

// The field at a path of an experiment; null if there is none.
const FieldDescriptor* FindField(std::string_view path) {
  const Descriptor* message = proto::Experiment::descriptor();
  const FieldDescriptor* field = nullptr;
  while (!path.empty() && message != nullptr) {
    const std::string part(path.substr(0, path.find('.')));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    field = message->FindFieldByName(part);
    if (field == nullptr) return nullptr;
    message = field->message_type();
  }
  return path.empty() ? field : nullptr;
}

// 4k is 4,000 and 4K is 4,096, as vLLM and TGI take them; likewise m, M, g and G.
std::optional<std::int64_t> CountFrom(std::string_view text) {
  std::int64_t factor = 1;
  constexpr std::pair<char, std::int64_t> kFactors[] = {
      {'k', 1'000},   {'K', 1 << 10},       {'m', 1'000'000},
      {'M', 1 << 20}, {'g', 1'000'000'000}, {'G', std::int64_t{1} << 30}};
  for (const auto& [letter, times] : kFactors) {
    if (text.size() > 1 && text.back() == letter) factor = times;
  }
  if (factor > 1) text.remove_suffix(1);
  if (factor > 1 && text.find('.') != std::string_view::npos) {
    const auto number = NumberFrom<double>(text);
    if (!number || !(*number > 0 && *number * static_cast<double>(factor) < 1e15)) return {};
    return static_cast<std::int64_t>(*number * static_cast<double>(factor));
  }
  const auto number = NumberFrom<std::int64_t>(text);
  if (!number || *number < 0 || *number > kBytesMax / factor) return std::nullopt;
  return *number * factor;
}

std::optional<bool> SwitchFrom(std::string_view text) {
  if (text.empty() || text == "1" || EqualsIgnoringCase(text, "true")) return true;
  if (text == "0" || EqualsIgnoringCase(text, "false")) return false;
  return std::nullopt;
}

// The values with a meaning of their own, and the further values of the enumeration `words`.
std::string AllowedWords(const ServerSetting& setting, const EnumDescriptor* words) {
  std::vector<std::string_view> allowed;
  for (const auto& [word, value] : setting.words) {
    if (word != "*") allowed.emplace_back(word);
  }
  for (int i = 0; words != nullptr && i < words->value_count(); ++i) {
    if (std::ranges::find(allowed, words->value(i)->name()) == allowed.end()) {
      allowed.emplace_back(words->value(i)->name());
    }
  }
  return fmt::format("{}", fmt::join(allowed, ", "));
}

// As Python writes what was not set.
bool IsNone(std::string_view text) {
  return EqualsIgnoringCase(text, "none") || EqualsIgnoringCase(text, "null");
}

// Whether a server has a value of its own for the setting. It has none for the model, for ranks,
// copies and drafts: auto would be another deployment.
bool HasServersValue(const ServerSetting& setting) {
  constexpr Setting kAsked[] = {Setting::kTensorParallel, Setting::kPipelineParallel,
                                Setting::kReplicas, Setting::kExpertRanks, Setting::kSpeculation};
  return setting.effect == SettingEffect::kField && setting.field != "system.model" &&
         setting.value != SettingValue::kSwitch &&
         std::ranges::find(kAsked, setting.setting) == std::end(kAsked);
}

// Whether the value leaves a setting to its server, without a word of its own in the table. The
// enumeration of a policy may have the word none.
bool IsLeftToServer(const ServerSetting& setting, std::string_view text) {
  if (IsNone(text)) return setting.value != SettingValue::kWord;
  return EqualsIgnoringCase(text, "auto") && HasServersValue(setting);
}

// "1, or " for a refused setting with values that change nothing.
std::string AllowedValues(const ServerSetting& setting) {
  std::string allowed;
  for (const auto& [word, value] : setting.words) {
    if (IsNone(word) || setting.value == SettingValue::kSwitch) continue;
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", word);
  }
  return allowed.empty() ? "" : allowed + ", or ";
}

SettingMeaning Wrong(std::string_view text, std::string_view allowed) {
  return {Kind::kWrong, {}, {}, fmt::format("is {}; allowed: {}", Printable(text), allowed)};
}

// A word without a meaning of its own.
SettingMeaning MeaningOfWord(const ServerSetting& setting, std::string field,
                             std::string_view text) {
  const FieldDescriptor* const known = FindField(field);
  CHECK(known != nullptr);
  const EnumDescriptor* const words =
      setting.value == SettingValue::kWord ? known->enum_type() : nullptr;
  for (int i = 0; words != nullptr && i < words->value_count(); ++i) {
    if (EqualsIgnoringCase(words->value(i)->name(), text)) {
      return {Kind::kSet, std::move(field), words->value(i)->name(), {}};
    }
  }
  const std::string further = setting.why.empty() ? "" : fmt::format(", {}", setting.why);
  return Wrong(text, AllowedWords(setting, words) + further);
}

SettingMeaning MeaningOfNumber(const ServerSetting& setting, std::string field,
                               std::string_view text) {
  const auto set = [&](std::string value) {
    return SettingMeaning{Kind::kSet, std::move(field), std::move(value), {}};
  };
  const std::string words = AllowedWords(setting, nullptr);
  const std::string further = words.empty() ? "" : ", " + words;
  if (setting.value == SettingValue::kCount) {
    const std::optional<std::int64_t> count = CountFrom(text);
    const FieldDescriptor* const known = FindField(field);
    const bool is_wide = known != nullptr && known->cpp_type() == FieldDescriptor::CPPTYPE_INT64;
    const std::int64_t most = is_wide ? kBytesMax : kCountMax;
    if (count && *count >= 1 && *count <= most) return set(std::to_string(*count));
    return Wrong(text, "a whole number from 1 on, also as 4k or 4K" + further);
  }
  const bool is_share = setting.value == SettingValue::kShare;
  const auto number = NumberFrom<double>(text);
  const bool fits = number && std::isfinite(*number) && *number >= 0;
  if (fits && (!is_share || (*number > 0 && *number <= 1))) return set(ShortestText(*number));
  return Wrong(text, (is_share ? "a share above 0, at most 1" : "a number from 0 on") + further);
}

// The largest of a list of counts, such as the sizes of graphs: "1 2 4", "1,2,4" or "[1, 2, 4]".
SettingMeaning MeaningOfList(std::string field, std::string_view text) {
  constexpr std::string_view kBetween = " ,[]";
  std::int64_t largest = 0;
  std::string_view rest = text;
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(kBetween), rest.size()));
    if (rest.empty()) break;
    const std::string_view part = rest.substr(0, rest.find_first_of(kBetween));
    rest.remove_prefix(part.size());
    const std::optional<std::int64_t> count = CountFrom(part);
    if (!count) return Wrong(text, "whole numbers");
    largest = std::max(largest, *count);
  }
  if (largest < 1 || largest > kCountMax) return Wrong(text, "whole numbers, one of them above 0");
  return {Kind::kSet, std::move(field), std::to_string(largest), {}};
}

// Numbers are equal as numbers: 0.0 is 0.
const std::string* FindWord(const ServerSetting& setting, std::string_view text) {
  const bool is_number = setting.value == SettingValue::kCount ||
                         setting.value == SettingValue::kShare ||
                         setting.value == SettingValue::kNumber;
  const auto number = is_number ? NumberFrom<double>(text) : std::nullopt;
  for (const auto& [word, value] : setting.words) {
    const bool is_equal = EqualsIgnoringCase(word, text) ||
                          (number && number == NumberFrom<double>(std::string_view(word)));
    if (word == "*" || is_equal) return &value;
  }
  return nullptr;
}

}  // namespace

std::span<const ServerSetting> SettingsOf(std::string_view family) {
  static const std::map<std::string, std::vector<ServerSetting>, std::less<>> settings = [] {
    std::map<std::string, std::vector<ServerSetting>, std::less<>> all;
    for (const EmbeddedFile& file : ServerSettingTexts()) {
      all.emplace(file.name.substr(0, file.name.find('.')), ReadSettings(file.bytes));
    }
    return all;
  }();
  const auto found = settings.find(family);
  CHECK(found != settings.end());
  return found->second;
}

std::optional<FoundSetting> FindSetting(std::string_view family, std::string_view name) {
  const ServerSetting* const found = FindNamed(family, name);
  if (found != nullptr && (!IsOpposite(name) || IsOpposite(found->flag)))
    return FoundSetting{found};
  if (!IsOpposite(name)) return std::nullopt;
  const ServerSetting* const opposite = FindNamed(family, Undashed(name).substr(kOpposite.size()));
  if (opposite == nullptr || opposite->value != SettingValue::kSwitch) return std::nullopt;
  return FoundSetting{opposite, true};
}

std::string_view SettingWord(Setting setting) {
  return std::ranges::find(kSettings, setting, &Word<Setting>::second)->first;
}

const ServerSetting* FindSetting(std::string_view family, Setting setting) {
  const auto settings = SettingsOf(family);
  const auto found = std::ranges::find(settings, setting, &ServerSetting::setting);
  return found == settings.end() ? nullptr : &*found;
}

std::string FieldOf(const ServerSetting& setting, std::string_view policy) {
  std::string field = setting.field;
  if (field.starts_with(kPolicyField)) {
    field.replace(0, kPolicyField.size(), fmt::format("policy.{}.", policy));
  }
  const bool is_foreign =
      field.starts_with("policy.") && !field.starts_with(fmt::format("policy.{}.", policy));
  return is_foreign || FindField(field) == nullptr ? "" : field;
}

SettingMeaning MeaningOf(const FoundSetting& named, std::string_view policy,
                         std::string_view text) {
  const ServerSetting& setting = *named.row;
  if (setting.effect == SettingEffect::kNoEffect) return {Kind::kNoEffect, {}, {}, {}};
  const auto on = setting.value == SettingValue::kSwitch ? SwitchFrom(text) : std::nullopt;
  std::string value(text);
  if (on) value = *on != named.negated ? "true" : "false";
  const std::string* const word = FindWord(setting, value);
  const bool is_unset = word == nullptr && IsLeftToServer(setting, text);
  if (is_unset || (word != nullptr && word->empty())) return {Kind::kNothing, {}, {}, {}};
  if (setting.effect == SettingEffect::kIgnored) return {Kind::kIgnored, {}, {}, {}};
  if (setting.effect == SettingEffect::kRefused) {
    return {
        Kind::kRefused,
        {},
        {},
        fmt::format("makes another deployment ({}), which is not simulated; allowed: {}without it",
                    setting.why, AllowedValues(setting))};
  }
  std::string field = FieldOf(setting, policy);
  if (field.empty()) return {Kind::kIgnored, {}, {}, {}};
  if (word != nullptr) return {Kind::kSet, std::move(field), *word, {}};
  if (setting.value == SettingValue::kSwitch && !on) return Wrong(text, "true, false");
  switch (setting.value) {
    case SettingValue::kSwitch:
      return {Kind::kSet, std::move(field), value, {}};
    case SettingValue::kCount:
    case SettingValue::kShare:
    case SettingValue::kNumber:
      return MeaningOfNumber(setting, std::move(field), text);
    case SettingValue::kList:
      return MeaningOfList(std::move(field), text);
    case SettingValue::kWord:
    case SettingValue::kText:
      break;
  }
  return MeaningOfWord(setting, std::move(field), text);
}

}  // namespace twin
