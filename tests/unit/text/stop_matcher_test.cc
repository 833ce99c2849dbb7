#include "apps/serve/text/stop_matcher.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace twin::text {
namespace {

constexpr auto kCut = StopMatcher::MatchedText::kCut;
constexpr auto kKeep = StopMatcher::MatchedText::kKeep;

std::vector<std::string> PushAll(StopMatcher& matcher, const std::vector<std::string>& texts) {
  std::vector<std::string> sent;
  for (const std::string& text : texts) sent.push_back(matcher.Push(text));
  return sent;
}

TEST(StopMatcher, PassesEverythingWithoutStopStrings) {
  StopMatcher matcher({}, kCut);
  EXPECT_EQ(matcher.Push("some text"), "some text");
  EXPECT_EQ(matcher.Finish(), "");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, HoldsBackOneCharacterLessThanTheLongestStop) {
  StopMatcher matcher({"END", "."}, kCut);
  EXPECT_EQ(PushAll(matcher, {"abc", "d", "", "é"}), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(matcher.Finish(), "dé");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, CountsCharactersNotBytes) {
  StopMatcher matcher({"日本"}, kCut);
  EXPECT_EQ(matcher.Push("語日"), "語");
  EXPECT_EQ(matcher.Push("語"), "日");
  EXPECT_EQ(matcher.Finish(), "語");
}

TEST(StopMatcher, CutsAStopThatArrivesInPieces) {
  StopMatcher matcher({"###"}, kCut);
  EXPECT_EQ(PushAll(matcher, {"yes#", "#", "#no", "more"}),
            (std::vector<std::string>{"ye", "s", "", ""}));
  EXPECT_EQ(matcher.matched(), 0u);
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, KeepsTheStopAndHoldsNothingBack) {
  StopMatcher matcher({"###"}, kKeep);
  EXPECT_EQ(PushAll(matcher, {"yes#", "#", "#no", "more"}),
            (std::vector<std::string>{"yes#", "#", "#", ""}));
  EXPECT_EQ(matcher.matched(), 0u);
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, TheMatchThatCompletesFirstWins) {
  StopMatcher matcher({"bcdef", "cd"}, kCut);
  EXPECT_EQ(matcher.Push("abcdef"), "ab");
  EXPECT_EQ(matcher.matched(), 1u);
}

TEST(StopMatcher, OfMatchesThatCompleteTogetherTheFirstListedWins) {
  StopMatcher longer_first({"abc", "c"}, kCut);
  EXPECT_EQ(longer_first.Push("xabc"), "x");
  EXPECT_EQ(longer_first.matched(), 0u);
  StopMatcher shorter_first({"c", "abc"}, kCut);
  EXPECT_EQ(shorter_first.Push("xabc"), "xab");
  EXPECT_EQ(shorter_first.matched(), 0u);
}

TEST(StopMatcher, BelowTheMinimumLengthNothingStopsButAMatchMayBeginThere) {
  StopMatcher matcher({"ab"}, kCut);
  EXPECT_EQ(matcher.Push("ab a", false), "ab ");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.Push("b"), "");
  EXPECT_EQ(matcher.matched(), 0u);
}

// The result must not depend on how the text is cut into pieces.
TEST(StopMatcher, EverySplitOfATextGivesTheSameOutput) {
  constexpr std::string_view kText = "xaabaabaacé aab";
  for (const auto kind : {kCut, kKeep}) {
    for (std::size_t first = 0; first <= kText.size(); ++first) {
      for (std::size_t second = first; second <= kText.size(); ++second) {
        if ((first < kText.size() && (kText[first] & 0xC0) == 0x80) ||
            (second < kText.size() && (kText[second] & 0xC0) == 0x80)) {
          continue;
        }
        StopMatcher matcher({"aabaac", "zz"}, kind);
        std::string sent = matcher.Push(kText.substr(0, first));
        sent += matcher.Push(kText.substr(first, second - first));
        sent += matcher.Push(kText.substr(second));
        sent += matcher.Finish();
        EXPECT_EQ(sent, kind == kCut ? "xaab" : "xaabaabaac") << first << ' ' << second;
        EXPECT_EQ(matcher.matched(), 0u);
      }
    }
  }
}

}  // namespace
}  // namespace twin::text
