// Properties of characters in Unicode 16, which Hugging Face tokenizers use.
//
// PCRE2 and ICU can be built with older Unicode tables. A character that older tables lack, or have
// in another category, is looked up under a stand-in: a character of the same category and of
// the same length in UTF-8 that all versions know.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace twin::text {

// Versions of Unicode are written as 10 * major + minor: 160 is 16.0.
int PatternUnicodeVersion();  // the version of PCRE2's tables

// `c`, or its stand-in for a library with tables of Unicode `version` (14.0 or newer).
char32_t KnownCharacter(char32_t c, int version);

// `text` with stand-ins for a library with tables of Unicode `version`, byte for byte at the same
// places; nullopt if it needs none. REQUIRES: `text` is valid UTF-8.
std::optional<std::string> WithKnownCharacters(std::string_view text, int version);

// True if characters from `first` to `last` have stand-ins for some version.
bool HasStandIns(char32_t first, char32_t last);

// White_Space, without U+180E.
bool IsWhiteSpace(char32_t c);
// Categories Nd, Nl, No.
bool IsNumeric(char32_t c);
// \w of Unicode's technical standard 18: letters, marks, digits, connectors, joiners.
bool IsWordCharacter(char32_t c);

}  // namespace twin::text
