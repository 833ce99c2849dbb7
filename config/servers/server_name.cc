#include "config/servers/server_name.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

#include "core/letter_case.h"

namespace twin {
namespace {

bool IsVersionDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameLetter(char c) { return c >= 'a' && c <= 'z'; }

// Families with several names, letters only.
constexpr std::pair<std::string_view, std::string_view> kFamilies[] = {
    {"vllmopenai", "vllm"},
    {"textgenerationinference", "tgi"},
    {"tensorrtllm", "trtllm"},
    {"tensorrtllmrelease", "trtllm"}};

std::string KnownFamily(std::string letters, bool has_version) {
  const std::string_view last = has_version && letters.ends_with('v') ? "v" : "";
  letters.resize(letters.size() - last.size());
  const auto* const known =
      std::ranges::find(kFamilies, letters, [](const auto& family) { return family.first; });
  return known == std::end(kFamilies) ? letters : std::string(known->second);
}

// Reads up to three numbers; `text` is then what follows them.
std::optional<ServerVersion> TakeVersion(std::string_view& text) {
  ServerVersion version{};
  for (std::size_t part = 0; part < version.size(); ++part) {
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), version.at(part));
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const bool more = text.size() > 1 && text[0] == '.' && IsVersionDigit(text[1]);
    if (!more) break;
    if (part + 1 < version.size()) text.remove_prefix(1);
  }
  return version;
}

// Whether the text ("rc6", ".post1", "-dev") marks a build that is not the release of its version.
bool IsBuild(std::string_view rest) {
  constexpr std::string_view kWords[] = {"rc", "a", "b", "alpha", "beta", "dev", "post"};
  if (rest.find_first_of(".-_") == 0) rest.remove_prefix(1);
  const auto letters =
      static_cast<std::size_t>(std::ranges::find_if_not(rest, IsNameLetter) - rest.begin());
  const bool known = std::ranges::find(kWords, rest.substr(0, letters)) != std::end(kWords);
  return known && std::ranges::all_of(rest.substr(letters), IsVersionDigit);
}

}  // namespace

std::optional<ServerName> ParseServerName(std::string_view text) {
  if (const std::size_t slash = text.find_last_of('/'); slash != std::string_view::npos) {
    text.remove_prefix(slash + 1);
  }
  std::string small(text.substr(0, text.find('+')));
  std::ranges::transform(small, small.begin(), LowerCase);
  std::string_view rest = small;
  std::string letters;
  while (!rest.empty() && !IsVersionDigit(rest[0])) {
    if (IsNameLetter(rest[0])) letters.push_back(rest[0]);
    rest.remove_prefix(1);
  }
  ServerName name;
  name.family = KnownFamily(std::move(letters), !rest.empty());
  if (rest.empty()) return name;
  name.version = TakeVersion(rest);
  name.released = rest.empty();
  if (!name.version || (!rest.empty() && !IsBuild(rest))) return std::nullopt;
  return name;
}

}  // namespace twin
