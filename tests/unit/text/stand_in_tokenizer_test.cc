#include "apps/serve/text/stand_in_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "apps/serve/text/word_tokens.h"
#include "core/input_error.h"
#include "core/random.h"
#include "tests/unit/text/tokenizer_json_by_hand.h"

namespace twin::text {
namespace {

std::vector<TokenId> Drawn(const std::vector<TokenId>& from, std::size_t count, Random& random) {
  std::vector<TokenId> ids;
  for (std::size_t k = 0; k < count; ++k) {
    ids.push_back(from[static_cast<std::size_t>(
        random.UniformInt(0, static_cast<std::int64_t>(from.size()) - 1))]);
  }
  return ids;
}

TEST(StandInTokenizer, TheTextOfAnyTokensHasTheseTokensAgain) {
  for (const double ratio : {2.0, 3.3, 4.0, 4.5, 12.0}) {
    const StandInTokenizer tokenizer(
        {.seed = 7, .vocabulary = 32'000, .characters_per_token = ratio, .special = {2}});
    std::vector<TokenId> all;
    for (TokenId id = 0; id < 32'000; ++id) {
      if (id != 2) all.push_back(id);
    }
    Random random(1, "stand_in");
    for (const auto& from : {all, tokenizer.output_tokens()}) {
      const std::vector<TokenId> ids = Drawn(from, 500, random);
      EXPECT_EQ(tokenizer.Encode(tokenizer.Decode(ids, true), true), ids) << ratio;
    }
  }
}

TEST(StandInTokenizer, OutputTokensHaveTheStatedRatio) {
  for (const double ratio : {2.0, 2.5, 3.3, 4.0, 4.7, 6.0}) {
    const StandInTokenizer tokenizer({.vocabulary = 128'256, .characters_per_token = ratio});
    EXPECT_NEAR(tokenizer.characters_per_token(), ratio, 0.01 * ratio);
    std::size_t characters = 0;
    for (const TokenId id : tokenizer.output_tokens()) {
      characters += tokenizer.TokenText(id).size();
    }
    EXPECT_DOUBLE_EQ(
        tokenizer.characters_per_token(),
        static_cast<double>(characters) / static_cast<double>(tokenizer.output_tokens().size()));
  }
}

TEST(StandInTokenizer, OtherTextIsCutIntoPiecesOfTheRatio) {
  const StandInTokenizer tokenizer({.vocabulary = 1000, .characters_per_token = 2.5});
  // Pieces end at the first character at or above 2.5, 5, 7.5 and 10; the last one is shorter.
  const Encoding encoding = tokenizer.EncodeWithOffsets("ÄÖÜ1234567X", false);
  EXPECT_THAT(encoding.characters,
              testing::ElementsAre(Span{0, 3}, Span{3, 5}, Span{5, 8}, Span{8, 10}, Span{10, 11}));
  EXPECT_EQ(tokenizer.Encode(std::string(10'000, 'X'), false).size(), 4000u);
  EXPECT_TRUE(tokenizer.Encode("", true).empty());
}

TEST(StandInTokenizer, MoreTextLeavesEarlierTokensAsTheyAre) {
  const StandInTokenizer tokenizer({.vocabulary = 1000, .characters_per_token = 4});
  const std::string text = "Some prompt, with words and 123 numbers: " +
                           tokenizer.Decode(std::vector<TokenId>{1, 2, 3}, true) + "! End.";
  const auto whole = tokenizer.Encode(text, false);
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    auto part = tokenizer.Encode(text.substr(0, bytes), false);
    // The last token may grow.
    if (!part.empty()) part.pop_back();
    // A word that is cut is other text, at most three tokens long.
    const std::size_t common = std::min(part.size(), whole.size());
    std::size_t equal = 0;
    while (equal < common && part[equal] == whole[equal]) ++equal;
    EXPECT_LE(part.size() - equal, 2u) << bytes;
  }
}

TEST(StandInTokenizer, WordsDependOnTheSeedAlone) {
  const StandInTokenizer one({.seed = 1, .vocabulary = 5000});
  const StandInTokenizer same({.seed = 1, .vocabulary = 5000});
  const StandInTokenizer other({.seed = 2, .vocabulary = 5000});
  std::set<std::string> words;
  int differ = 0;
  for (TokenId id = 0; id < 5000; ++id) {
    EXPECT_EQ(one.TokenText(id), same.TokenText(id));
    if (one.TokenText(id) != other.TokenText(id)) ++differ;
    words.insert(one.TokenText(id));
    EXPECT_EQ(one.FindToken(one.TokenText(id)), id);
  }
  EXPECT_EQ(words.size(), 5000u);
  EXPECT_GT(differ, 4000);
}

TEST(StandInTokenizer, SpecialTokensHaveNoWordAndAreNotDrawn) {
  const StandInTokenizer tokenizer({.vocabulary = 100, .special = {0, 99}});
  EXPECT_TRUE(tokenizer.IsSpecial(99));
  EXPECT_EQ(tokenizer.Decode(std::vector<TokenId>{0, 99}, true), "");
  EXPECT_EQ(tokenizer.Decode(std::vector<TokenId>{99}, false), "<|99|>");
  for (const TokenId id : tokenizer.output_tokens()) EXPECT_FALSE(tokenizer.IsSpecial(id));
  EXPECT_EQ(tokenizer.vocabulary(), 100u);
}

TEST(StandInTokenizer, RefusesWhatItCannotBe) {
  const auto refusal = [](const StandInOptions& options) -> std::string {
    try {
      const StandInTokenizer tokenizer(options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "not refused";
  };
  EXPECT_EQ(refusal({.vocabulary = 1}),
            "stand-in tokenizer: vocabulary is 1; allowed are 2 to 16777215");
  EXPECT_EQ(refusal({.vocabulary = 10, .characters_per_token = 1}),
            "stand-in tokenizer: characters_per_token is 1; allowed are 2 to 12");
  EXPECT_EQ(refusal({.vocabulary = 10, .special = {10}}),
            "stand-in tokenizer: the special token 10 is not in the vocabulary of 10");
  EXPECT_EQ(refusal({.vocabulary = 2, .special = {0, 1}}),
            "stand-in tokenizer: all tokens are special; at least one must be a word");
}

// Only " ab" of the tokens " ab" and "abc" and bytes is a space and letters.
TEST(WordTokens, AreSpacesAndLettersThatComeBack) {
  EXPECT_THAT(WordTokens(*TokenizerOf(ByteLevelJson()), 1), testing::ElementsAre(259));
  // " abc" is a token, but no merge makes it: its text has the tokens " " and "abc".
  nlohmann::json file = ByteLevelJson();
  file["model"]["vocab"]["Ġabc"] = 260;
  file["added_tokens"] = nlohmann::json::array();
  EXPECT_THAT(WordTokens(*TokenizerOf(file), 1), testing::ElementsAre(259));
  // "▁a" alone; "▁" and "a" are no space and letters.
  EXPECT_THAT(WordTokens(*TokenizerOf(SentencePieceJson()), 1), testing::ElementsAre(262));
}

// Without pre-tokenizer, "b" and " a" merge to "b a" where they meet; each by itself comes back.
TEST(WordTokens, LeaveOutTokensThatChangeBesideANeighbour) {
  nlohmann::json file = SentencePieceJson();
  file["model"]["vocab"]["▁b"] = 264;
  file["model"]["vocab"]["▁b▁a"] = 265;
  file["model"]["merges"].push_back("▁ b");
  file["model"]["merges"].push_back("▁b ▁a");
  const auto tokenizer = TokenizerOf(file);
  EXPECT_THAT(tokenizer->Encode("b a", false), testing::ElementsAre(265));
  // Two tokens have two orders, and one of two rounds meets the order that merges.
  bool left_out = false;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    left_out = left_out || WordTokens(*tokenizer, seed).empty();
  }
  EXPECT_TRUE(left_out);
}

}  // namespace
}  // namespace twin::text
