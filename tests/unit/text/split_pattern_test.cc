#include "apps/serve/text/split_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/serve/text/characters.h"

namespace twin::text {
namespace {

using testing::ElementsAre;

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> Cut(std::string_view pattern, std::string_view text) {
  std::vector<Span> matches;
  SplitPattern(pattern, "p").FindAll(text, matches);
  std::vector<std::string> found;
  for (const Span& match : matches) {
    found.emplace_back(text.substr(match.begin, match.end - match.begin));
  }
  return found;
}

TEST(SplitPattern, CutsAsLlama3Does) {
  EXPECT_THAT(Cut(kLlama3, "I'LL pay $12345 now!\n\n  ok "),
              ElementsAre("I", "'LL", " pay", " $", "123", "45", " now", "!\n\n", " ", " ok", " "));
}

// U+180E was white space until Unicode 6.3, and is in PCRE2's \s. Here it is of category Cf.
TEST(SplitPattern, MongolianVowelSeparatorIsNoWhiteSpace) {
  EXPECT_THAT(Cut(R"(\s+)", "a \u180E b"), ElementsAre(" ", " "));
  EXPECT_THAT(Cut(R"([^\s\p{L}]+)", "a \u180E b"), ElementsAre("\u180E"));
  EXPECT_THAT(Cut(R"(\S+)", "a \u180E b"), ElementsAre("a", "\u180E", "b"));
}

TEST(SplitPattern, WhiteSpaceIsThatOfUnicode) {
  const std::string spaces =
      "\t\n\v\f\r \u0085\u00A0\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000";
  EXPECT_THAT(Cut(R"(\s+)", "a" + spaces + "b"), ElementsAre(spaces));
  EXPECT_THAT(Cut(R"(\s+)", "\u200B\u2060\uFEFF\x1C"), ElementsAre());
}

// Letters, marks, digits and symbols of Unicode 15, 15.1 and 16, whatever PCRE2's tables know.
TEST(SplitPattern, KnowsTheCharactersOfUnicode16) {
  EXPECT_THAT(Cut(R"(\p{L}+)", "a\u1C89\U00010D4A\U000105C0\U00031350z!"),
              ElementsAre("a\u1C89\U00010D4A\U000105C0\U00031350z"));
  EXPECT_THAT(Cut(R"(\p{Lu})", "\u1C89\u1C8A"), ElementsAre("\u1C89"));
  EXPECT_THAT(Cut(R"(\p{N}+)", "1\U00010D40"), ElementsAre("1\U00010D40"));
  EXPECT_THAT(Cut(R"(\p{S}+)", "\u2FFC\U0001FAE9"), ElementsAre("\u2FFC\U0001FAE9"));
  EXPECT_THAT(Cut(R"(\p{M}+)", "\u0897"), ElementsAre("\u0897"));
  // Its category became Mc in Unicode 16.
  EXPECT_THAT(Cut(R"(\p{Mc})", "\U0001171E"), ElementsAre("\U0001171E"));
}

TEST(SplitPattern, EscapesMeanWhatOnigurumaReads) {
  EXPECT_THAT(Cut(R"([\u4E00-\u9FA5]+)", "ab漢字c"), ElementsAre("漢字"));
  EXPECT_THAT(Cut(R"([+\-\]\\]+)", R"(a+-]\b)"), ElementsAre(R"(+-]\)"));
  EXPECT_THAT(Cut(R"(\.|\n)", "a.\n"), ElementsAre(".", "\n"));
}

TEST(SplitPattern, AMillionCharactersAreOneMatch) {
  for (const std::string_view unit : {"a", "A", " ", "漢", "!", "\n"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    EXPECT_EQ(Cut(kLlama3, text).size(), 1u) << unit;
  }
}

TEST(Characters, HaveStandInsOnlyWhereALibraryIsOlder) {
  EXPECT_NE(KnownCharacter(0x1C89, 140), 0x1C89u);
  EXPECT_EQ(KnownCharacter(0x1C89, 160), 0x1C89u);
  EXPECT_EQ(KnownCharacter(0x0ECE, 150), 0x0ECEu);
  EXPECT_NE(KnownCharacter(0x0ECE, 140), 0x0ECEu);
  EXPECT_EQ(KnownCharacter('a', 140), U'a');
  EXPECT_EQ(WithKnownCharacters("plain é 漢", 140), std::nullopt);
  const std::string text = "x\u1C89y\U00010D40";
  EXPECT_EQ(WithKnownCharacters(text, 140)->size(), text.size());
}

TEST(Characters, HaveTheirProperties) {
  EXPECT_TRUE(IsNumeric(U'Ⅷ'));
  EXPECT_TRUE(IsNumeric(0x10D40));
  EXPECT_FALSE(IsNumeric(U'a'));
  EXPECT_TRUE(IsWordCharacter(U'_'));
  EXPECT_TRUE(IsWordCharacter(0x200D));
  EXPECT_FALSE(IsWordCharacter(U'.'));
  EXPECT_TRUE(IsWhiteSpace(0x3000));
  EXPECT_FALSE(IsWhiteSpace(0x180E));
}

}  // namespace
}  // namespace twin::text
