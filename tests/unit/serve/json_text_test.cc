#include "apps/serve/json_text.h"

#include <gtest/gtest.h>

namespace twin::serve {
namespace {

TEST(JsonText, EscapesWhatJsonForbidsInStrings) {
  EXPECT_EQ(JsonString("a\"b\\c\nd\te\x01"), R"("a\"b\\c\nd\u0009e\u0001")");
}

TEST(JsonText, KeepsCharactersOfOtherScripts) {
  EXPECT_EQ(JsonString("\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80"),
            "\"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\"");
}

TEST(JsonText, ReplacesEachByteOutsideUtf8) {
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(JsonString("a\xFFz"), "\"a" + replaced + "z\"");
  EXPECT_EQ(JsonString("\xC0\xAF"), "\"" + replaced + replaced + "\"");  // overlong "/"
  EXPECT_EQ(JsonString("\xE4\xB8"), "\"" + replaced + replaced + "\"");  // incomplete
  EXPECT_EQ(JsonString("\xED\xA0\x80"),                                  // a surrogate
            "\"" + replaced + replaced + replaced + "\"");
}

TEST(JsonText, CountsCharactersAndNotBytes) {
  EXPECT_EQ(CharacterCount("a\xC3\xA9\xF0\x9F\x98\x80"), 3u);
  EXPECT_EQ(CharacterCount("\xFF\xFE"), 2u);
}

TEST(JsonText, CutsBetweenCharacters) {
  EXPECT_EQ(Shortened("abc", 3), "abc");
  EXPECT_EQ(Shortened("a\xC3\xA9z", 2), "a...");
}

}  // namespace
}  // namespace twin::serve
