#include "apps/serve/text/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace twin::text {
namespace {

std::string Decoded(std::string_view bytes) {
  LossyUtf8Decoder decoder;
  std::string text;
  decoder.Push(bytes, text);
  decoder.Finish(text);
  return text;
}

TEST(Utf8, AcceptsTheFirstAndLastCharacterOfEachLength) {
  for (const std::string_view text :
       {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(ValidUtf8Bytes(text), text.size());
    EXPECT_EQ(CountCharacters(text), 1u);
    std::string again;
    const CodePoint character = CodePointAt(text, 0);
    AppendUtf8(character.value, again);
    EXPECT_EQ(again, text);
    EXPECT_EQ(character.bytes, text.size());
  }
}

// Table 3-7 of the Unicode standard: overlong forms, surrogates, above U+10FFFF, cut off, alone.
TEST(Utf8, RefusesWhatIsNoCharacter) {
  for (const std::string_view text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xC3"}) {
    EXPECT_EQ(ValidUtf8Bytes(std::string("ok") + std::string(text)), 2u);
  }
}

TEST(Utf8, FindsTheLastCharacters) {
  constexpr std::string_view kText = "aé日😀";  // 1, 2, 3 and 4 bytes
  EXPECT_EQ(BeginOfLast(kText, 0), 10u);
  EXPECT_EQ(BeginOfLast(kText, 1), 6u);
  EXPECT_EQ(BeginOfLast(kText, 2), 3u);
  EXPECT_EQ(BeginOfLast(kText, 4), 0u);
  EXPECT_EQ(BeginOfLast(kText, 5), 0u);
}

// The example of the Unicode standard, table 3-8: 61 F1 80 80 E1 80 C2 62 80 63 80 BF 64.
TEST(LossyUtf8Decoder, ReplacesEachMaximalSubpart) {
  EXPECT_EQ(Decoded("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(Decoded("\xF0\x80\x80\x41"), "\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(Decoded("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
}

TEST(LossyUtf8Decoder, HoldsBackAnIncompleteCharacter) {
  LossyUtf8Decoder decoder;
  std::string text;
  decoder.Push("\xF0\x9F\x98", text);
  EXPECT_EQ(text, "");
  EXPECT_TRUE(decoder.holds_bytes());
  decoder.Push("\x80!", text);
  EXPECT_EQ(text, "😀!");
  EXPECT_FALSE(decoder.holds_bytes());
  decoder.Push("\xE2\x82", text);
  decoder.Finish(text);
  EXPECT_EQ(text, "😀!\uFFFD");
}

}  // namespace
}  // namespace twin::text
