// docs/server-settings.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "config/servers/servers.h"
#include "config/servers/settings.h"

namespace twin {
namespace {

constexpr const char* kServerSettingsHead = R"(# Settings of servers

<!-- Generated from config/servers by `twinserve doctor --list server-settings`. Do not edit. -->

Every flag of the listed releases and every key of their files has one meaning, whether it stands on
the command line of `run` and `resolve`, in the column `server` of a table for `predict serving`, or
in a file that `validate --measured` reads. Capitals, dashes and underscores of a name do not count.

- **Simulated**: it sets a field of the experiment. `policy.*` is the policy of the release; with a
  policy that lacks the field, the setting is not simulated.
- **Refused**: it makes another deployment. With the values that are named it changes nothing.
- **Not simulated**: it may change times, memory or decisions, and the answer names it.
- **Without effect**: it changes neither times nor decisions for requests of text.

`none`, `null` and `auto` leave a simulated setting to its server, where the setting has no word of
that name; ranks, copies, drafts and the model have no `auto`. Whole numbers may end in k, m or g
(thousands) and K, M or G (1,024s), as vLLM takes them. `run` reads the method and the number of
drafts from `--speculative-config`; tables and measured files do not.
)";

// "`auto`: nothing, `fp8_e4m3`: fp8"
std::string WordsText(const ServerSetting& setting) {
  std::vector<std::string> texts;
  for (const auto& [word, value] : setting.words) {
    if (setting.effect == SettingEffect::kRefused) {
      texts.push_back(fmt::format("`{}`", word));
    } else if (word == "*") {
      texts.push_back("others: " + value);
    } else if (word != value) {
      texts.push_back(fmt::format("`{}`: {}", word, value.empty() ? "nothing" : value));
    }
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string NamesText(const ServerSetting& setting) {
  std::string text = fmt::format("`{}`", setting.flag);
  for (const std::string& name : setting.names) text += fmt::format(", `{}`", name);
  return text;
}

std::string SettingsText(const Server& server) {
  std::string simulated = "\n| setting | field | words, and what they set |\n|---|---|---|\n";
  std::string refused =
      "\n| setting | what it makes | values that change nothing |\n|---|---|---|\n";
  std::vector<std::string> ignored;
  std::vector<std::string> no_effect;
  for (const ServerSetting& setting : SettingsOf(server.family)) {
    if (setting.effect == SettingEffect::kField) {
      simulated += fmt::format("| {} | `{}` | {} |\n", NamesText(setting), setting.field,
                               WordsText(setting));
    } else if (setting.effect == SettingEffect::kRefused) {
      refused +=
          fmt::format("| {} | {} | {} |\n", NamesText(setting), setting.why, WordsText(setting));
    } else {
      (setting.effect == SettingEffect::kIgnored ? ignored : no_effect)
          .push_back(fmt::format("`{}`", setting.flag));
    }
  }
  return fmt::format(
      "\n## {}\n\nSimulated:\n{}\nRefused:\n{}\nNot simulated: {}.\n\nWithout effect: {}.\n",
      server.title, simulated, refused, fmt::join(ignored, ", "), fmt::join(no_effect, ", "));
}

}  // namespace

std::string ServerSettingsPage() {
  std::string page = kServerSettingsHead;
  for (const Server* const server : Servers()) page += SettingsText(*server);
  return page;
}

}  // namespace twin
