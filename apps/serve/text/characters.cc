#include "apps/serve/text/characters.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdio>

#include "apps/serve/text/utf8.h"
#include "core/check.h"

namespace twin::text {

namespace {

enum class Category { kCf, kLl, kLm, kLo, kLu, kMc, kMn, kNd, kNo, kPd, kPo, kSm, kSo };

struct CategoryChange {
  char32_t first;
  char32_t last;
  Category category;
  int since;
};

constexpr CategoryChange kChanges[] = {
#include "apps/serve/text/unicode_changes_table.inc"
};

constexpr char32_t kThreeByteMax = 0xFFFF;

// Characters that Unicode 14 and all later versions have in the category; of 3 bytes, and of 4.
constexpr std::array<std::array<char32_t, 2>, 13> kStandIns = {{
    {0x2060, 0x110BD},  // Cf
    {0x1D00, 0x10428},  // Ll
    {0x1D2C, 0x10780},  // Lm
    {0x0904, 0x10000},  // Lo
    {0x10A0, 0x10400},  // Lu
    {0x0903, 0x11000},  // Mc
    {0x0901, 0x101FD},  // Mn
    {0x0966, 0x104A0},  // Nd
    {0x09F4, 0x10107},  // No
    {0x1806, 0x10EAD},  // Pd
    {0x0964, 0x10100},  // Po
    {0x2044, 0x1D6C1},  // Sm
    {0x09FA, 0x10137},  // So
}};

// One bit per 256 characters: a quick test, because almost no character has changed.
const std::bitset<0x1100>& PagesWithChanges() {
  static const auto pages = [] {
    std::bitset<0x1100> result;
    for (const CategoryChange& change : kChanges) {
      for (char32_t page = change.first >> 8; page <= change.last >> 8; ++page) result.set(page);
    }
    return result;
  }();
  return pages;
}

// The first run of changes that does not end before `c`.
const CategoryChange* ChangeFrom(char32_t c) {
  return std::lower_bound(
      std::begin(kChanges), std::end(kChanges), c,
      [](const CategoryChange& change, char32_t value) { return change.last < value; });
}

int IcuUnicodeVersion() {
  static const int version = [] {
    UVersionInfo parts;
    u_getUnicodeVersion(parts);
    return parts[0] * 10 + parts[1];
  }();
  return version;
}

char32_t KnownToIcu(char32_t c) { return KnownCharacter(c, IcuUnicodeVersion()); }

}  // namespace

int PatternUnicodeVersion() {
  static const int version = [] {
    char text[64] = {};
    CHECK(pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, nullptr) < static_cast<int>(sizeof text));
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, text);
    int major = 0;
    int minor = 0;
    CHECK(std::sscanf(text, "%d.%d", &major, &minor) == 2);
    return major * 10 + minor;
  }();
  return version;
}

char32_t KnownCharacter(char32_t c, int version) {
  if (!PagesWithChanges()[c >> 8]) return c;
  const CategoryChange* change = ChangeFrom(c);
  if (change == std::end(kChanges) || c < change->first || version >= change->since) return c;
  return kStandIns[static_cast<std::size_t>(change->category)][c > kThreeByteMax ? 1 : 0];
}

std::optional<std::string> WithKnownCharacters(std::string_view text, int version) {
  std::optional<std::string> known;
  for (std::size_t at = 0; at < text.size();) {
    // No character below U+0800 has changed: the ones with a first byte below E0.
    if (static_cast<unsigned char>(text[at]) < 0xE0) {
      ++at;
      continue;
    }
    const CodePoint character = CodePointAt(text, at);
    const char32_t stand_in = KnownCharacter(character.value, version);
    if (stand_in != character.value) {
      if (!known) known.emplace(text);
      std::string bytes;
      AppendUtf8(stand_in, bytes);
      known->replace(at, character.bytes, bytes);
    }
    at += character.bytes;
  }
  return known;
}

bool HasStandIns(char32_t first, char32_t last) {
  const CategoryChange* change = ChangeFrom(first);
  return change != std::end(kChanges) && change->first <= last;
}

bool IsWhiteSpace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

// The two ranges are numeric since Unicode 17, whose tables Hugging Face's step Digits reads; its
// patterns do not.
bool IsNumeric(char32_t c) {
  if ((c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6)) return true;
  return (U_GET_GC_MASK(static_cast<UChar32>(KnownToIcu(c))) & U_GC_N_MASK) != 0;
}

bool IsWordCharacter(char32_t c) {
  const auto known = static_cast<UChar32>(KnownToIcu(c));
  return (U_GET_GC_MASK(known) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         u_hasBinaryProperty(known, UCHAR_ALPHABETIC) != 0 ||
         u_hasBinaryProperty(known, UCHAR_JOIN_CONTROL) != 0;
}

}  // namespace twin::text
