// The settings of servers: every flag of their command lines and every key of their files, and what
// the simulation does with it. One row of settings/NAME.csv each.
//
// Columns of those files:
// - flag: as its server takes it, --max-num-seqs, or a key of a file, scheduler_config.policy.
// - names: further names, separated by |; of flags with dashes, of keys, facts and columns without.
// - value: switch, count, share, number, word (of the field's enumeration, or of `words`), text (of
//   `words` alone) or list (of counts, of which the largest is taken).
// - effect: the field of an experiment that it sets; policy.* is the policy of the server. Or:
//   refused (it makes another deployment), ignored (it is not simulated and may matter), no_effect
//   (it changes neither times nor decisions of requests of text).
// - words: values with a meaning of their own, separated by |. "auto=" sets nothing, "lpm=LPM" sets
//   LPM, "*=any" stands for all others. Of settings without a field: the values that change
//   nothing.
// - setting: the word of a setting that the program itself knows (Setting).
// - why: what it is, the subject of a refusal. Of settings with a field: a further way to allow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twin {

// Settings that the program itself reads, writes or varies, whatever their names in a server.
enum class Setting : std::uint8_t {
  kOther,
  kTensorParallel,
  kPipelineParallel,
  kReplicas,
  kExpertRanks,     // 1, or all ranks
  kAttentionRanks,  // of data parallelism within the ranks of an engine
  kWeightFormat,
  kKvFormat,
  kMemoryShare,
  kBlockSize,
  kTokenBudget,
  kMaxNumSeqs,
  kMaxModelLen,
  kMaxBatchTotalTokens,
  kWaitingServedRatio,
  kMaxConcurrentRequests,
  kSchedulePolicy,
  kContextChunking,
  kPrefixCaching,
  kSpeculation,
  kPositions,  // JSON of config.json that lengthens the positions
};

enum class SettingValue : std::uint8_t { kSwitch, kCount, kShare, kNumber, kWord, kText, kList };

enum class SettingEffect : std::uint8_t { kField, kRefused, kIgnored, kNoEffect };

struct ServerSetting {
  std::string flag;
  std::vector<std::string> names;
  SettingValue value;
  SettingEffect effect;
  std::string field;  // with kField
  std::vector<std::pair<std::string, std::string>> words;
  Setting setting;
  std::string why;
};

// The settings of a server by its family ("vllm"), in the order of its file.
std::span<const ServerSetting> SettingsOf(std::string_view family);

// A setting that was found by one of its names.
struct FoundSetting {
  const ServerSetting* row;
  bool negated = false;  // --no-NAME of a switch
};

// Finds by any name. Capitals, dashes and underscores do not count.
std::optional<FoundSetting> FindSetting(std::string_view family, std::string_view name);

// The word of a setting, as files of settings and of `recommend` write it.
std::string_view SettingWord(Setting setting);

// The setting that the program knows as `setting`; null if the server has none.
const ServerSetting* FindSetting(std::string_view family, Setting setting);

// The path of the field that a setting sets with this policy ("policy.vllm_v1.max_num_seqs"); empty
// if it sets none, or one of another policy.
std::string FieldOf(const ServerSetting& setting, std::string_view policy);

// The meaning of a value of a setting.
struct SettingMeaning {
  enum class Kind : std::uint8_t {
    kSet,       // `field` becomes `value`
    kNothing,   // it changes nothing
    kRefused,   // it makes another deployment: `what`
    kIgnored,   // it is not simulated
    kNoEffect,  // of any value
    kWrong,     // no value of this setting: `what`
  };
  Kind kind;
  std::string field;
  std::string value;
  std::string what;  // "is 12; allowed: ..."
};

// `text`: empty for a switch that was given without a value.
SettingMeaning MeaningOf(const FoundSetting& setting, std::string_view policy,
                         std::string_view text);

// docs/server-settings.md.
std::string ServerSettingsPage();

}  // namespace twin
