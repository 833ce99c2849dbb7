// The rules of encoding and decoding, on vocabularies small enough to follow by hand.

#include "apps/serve/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "apps/serve/text/byte_alphabet.h"
#include "core/input_error.h"
#include "tests/unit/text/tokenizer_json_by_hand.h"

namespace twin::text {
namespace {

using nlohmann::json;
using testing::ElementsAre;

using Ids = std::vector<TokenId>;

Ids EncodeWith(const json& file, std::string_view text) {
  return TokenizerOf(file)->Encode(text, /*add_special_tokens=*/false);
}

json AddedToken(int id, const std::string& content, const json& flags) {
  json token = {{"id", id}, {"content", content}, {"special", false}, {"normalized", false}};
  token.update(flags);
  return token;
}

TEST(ByteLevel, MergesTheLowestRankFirstAndTheLeftmostOfEqualOnes) {
  // abc: "a b" (rank 0) goes before "b c" (rank 1), then "ab c".
  EXPECT_THAT(EncodeWith(ByteLevelJson(), "abc"), ElementsAre(258));
  EXPECT_THAT(EncodeWith(ByteLevelJson(), "bcab"), ElementsAre(257, 256));
  EXPECT_THAT(EncodeWith(ByteLevelJson(), "ab abx"), ElementsAre(256, 259, 'x'));
}

TEST(ByteLevel, SpellsCharactersAsBytes) {
  EXPECT_THAT(EncodeWith(ByteLevelJson(), "é"), ElementsAre(0xC3, 0xA9));
  EXPECT_THAT(EncodeWith(ByteLevelJson(), std::string_view("\0\n", 2)), ElementsAre(0, '\n'));
}

TEST(ByteLevel, AWholeWordWinsOverMergesIfTheyAreIgnored) {
  json file = ByteLevelJson();
  file["model"]["vocab"]["ca"] = 260;
  file["added_tokens"] = json::array();
  EXPECT_THAT(EncodeWith(file, "ca cab"), ElementsAre('c', 'a', ' ', 'c', 256));
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(EncodeWith(file, "ca cab"), ElementsAre(260, ' ', 'c', 256));
}

// Unicode 17 added U+11DE0 to U+11DE9 (Nd) and U+16FF4 to U+16FF6 (Nl); Hugging Face tokenizers
// 0.23.3 cuts words at them. All begin with the byte F0, which "a" merges with if nothing cuts.
TEST(Digits, CutsWordsAtTheDigitsOfUnicode17) {
  json file = ByteLevelJson();
  const std::string byte(SpellingOfByte(0xF0));
  file["model"]["vocab"]["a" + byte] = 260;
  file["model"]["merges"].push_back("a " + byte);
  file["added_tokens"] = json::array();
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  for (const char* digit : {"\U00011DE0", "\U00011DE5", "\U00011DE9", "\U00016FF4", "\U00016FF6"}) {
    EXPECT_EQ(EncodeWith(file, std::string("a") + digit).front(), 'a') << digit;
  }
  for (const char* other : {"\U00011DDF", "\U00011DEA", "\U00016FF3", "\U00016FF7"}) {
    EXPECT_EQ(EncodeWith(file, std::string("a") + other).front(), 260) << other;
  }
}

TEST(ByteLevel, OffsetsAreCharactersAndCoverWholeOnes) {
  const auto encoding = TokenizerOf(ByteLevelJson())->EncodeWithOffsets("aé abc", false);
  EXPECT_THAT(encoding.ids, ElementsAre('a', 0xC3, 0xA9, ' ', 258));
  EXPECT_THAT(encoding.characters,
              ElementsAre(Span{0, 1}, Span{1, 2}, Span{1, 2}, Span{2, 3}, Span{3, 6}));
}

TEST(ByteLevel, ALongRunOfLettersTakesLittleTime) {
  // Quadratic time would be 10^11 steps.
  std::string run;
  for (int k = 0; k < 100'000; ++k) run += "abc";
  const auto ids = EncodeWith(ByteLevelJson(), run);
  EXPECT_EQ(ids, Ids(100'000, 258));
}

TEST(ByteLevel, LongAndShortWordsMergeByTheSameRules) {
  // 24 symbols are scanned, more are queued: both must give the tokens of their parts.
  for (const int repeats : {1, 5, 6, 7, 40}) {
    std::string word;
    Ids expected;
    for (int k = 0; k < repeats; ++k) {
      word += "abcbc";  // ab c -> abc, then bc
      expected.insert(expected.end(), {258, 257});
    }
    EXPECT_EQ(EncodeWith(ByteLevelJson(), word), expected) << repeats;
  }
}

TEST(SentencePiece, PutsAMarkBeforeTheTextAndForSpaces) {
  EXPECT_THAT(EncodeWith(SentencePieceJson(), "a ab b"), ElementsAre(262, 262, 261, 259, 261));
  EXPECT_THAT(EncodeWith(SentencePieceJson(), ""), ElementsAre());
}

TEST(SentencePiece, AnUnknownCharacterBecomesItsBytes) {
  EXPECT_THAT(EncodeWith(SentencePieceJson(), "é"), ElementsAre(259, 3 + 0xC3, 3 + 0xA9));
}

TEST(SentencePiece, WithoutAllItsBytesACharacterIsUnknownAndRunsAreFused) {
  json file = SentencePieceJson();
  file["model"]["vocab"].erase("<0xA9>");
  // é lacks a byte; à (C3 A0) does not. The unknown token comes after the bytes that follow it.
  EXPECT_THAT(EncodeWith(file, "éé"), ElementsAre(259, 0));
  EXPECT_THAT(EncodeWith(file, "éàa"), ElementsAre(259, 3 + 0xC3, 3 + 0xA0, 0, 260));
  file["model"]["fuse_unk"] = false;
  EXPECT_THAT(EncodeWith(file, "éé"), ElementsAre(259, 0, 0));
}

TEST(SentencePiece, SpecialTokensGoAroundATextOnRequest) {
  const auto tokenizer = TokenizerOf(SentencePieceJson());
  EXPECT_THAT(tokenizer->Encode("a", true), ElementsAre(1, 262));
  EXPECT_THAT(tokenizer->Encode("a", false), ElementsAre(262));
  const Encoding encoding = tokenizer->EncodeWithOffsets("a", true);
  EXPECT_THAT(encoding.characters, ElementsAre(Span{0, 0}, Span{0, 1}));
}

TEST(AddedTokens, AreFoundInTextEvenIfAUserWroteThem) {
  // The legacy normalizer puts its mark after every special token.
  EXPECT_THAT(EncodeWith(SentencePieceJson(), "a</s>a"), ElementsAre(262, 2, 262));
}

TEST(AddedTokens, TheLongestOfTheLeftmostWins) {
  json file = ByteLevelJson();
  file["added_tokens"].push_back(AddedToken(261, "<end>!", json::object()));
  file["added_tokens"].push_back(AddedToken(262, "d>!!", json::object()));
  EXPECT_THAT(EncodeWith(file, "<end>!!<end>"), ElementsAre(261, '!', 260));
}

TEST(AddedTokens, StripWhiteSpaceAndRespectWords) {
  json file = ByteLevelJson();
  file["added_tokens"].push_back(AddedToken(261, "LL", {{"lstrip", true}}));
  file["added_tokens"].push_back(AddedToken(262, "RR", {{"rstrip", true}}));
  file["added_tokens"].push_back(AddedToken(263, "WW", {{"single_word", true}}));
  EXPECT_THAT(EncodeWith(file, "x \n LL x"), ElementsAre('x', 261, ' ', 'x'));
  EXPECT_THAT(EncodeWith(file, "x RR \t x"), ElementsAre('x', ' ', 262, 'x'));
  EXPECT_THAT(EncodeWith(file, "WW.WW"), ElementsAre(263, '.', 263));
  EXPECT_THAT(EncodeWith(file, "WWx xWW WW_"),
              ElementsAre('W', 'W', 'x', ' ', 'x', 'W', 'W', ' ', 'W', 'W', '_'));
}

TEST(AddedTokens, NormalizedOnesAreFoundInNormalizedText) {
  json file = ByteLevelJson();
  file["normalizer"] = {{"type", "NFC"}};
  file["added_tokens"].push_back(AddedToken(261, "e\u0301", {{"normalized", true}}));
  file["added_tokens"].push_back(AddedToken(262, "u\u0308", {{"normalized", false}}));
  EXPECT_THAT(EncodeWith(file, "\u00E9e\u0301"), ElementsAre(261, 261));
  EXPECT_THAT(EncodeWith(file, "u\u0308"), ElementsAre(262));
  EXPECT_THAT(EncodeWith(file, "\u00FC"), ElementsAre(0xC3, 0xBC));
}

// U+1DF6 is a combining mark since Unicode 10. Tables of Unicode 9 leave it where it is, tables of
// later versions put the mark below (class 220) before it (class 232).
TEST(Normalizer, ComposesWithTheTablesOfUnicode9) {
  json file = ByteLevelJson();
  file["normalizer"] = {{"type", "NFC"}};
  const std::string newer = "a\u1DF6\u0323";
  const Ids bytes{'a', 0xE1, 0xB7, 0xB6, 0xCC, 0xA3};
  EXPECT_EQ(EncodeWith(file, newer), bytes);
  EXPECT_THAT(EncodeWith(file, "a\u0301\u0323"), ElementsAre(0xE1, 0xBA, 0xA1, 0xCC, 0x81));
}

TEST(Decoding, ReplacesWhatIsNoCharacter) {
  const auto tokenizer = TokenizerOf(ByteLevelJson());
  EXPECT_EQ(tokenizer->Decode(Ids{0xE2, 0x82, 'a', 0xFF}, true), "\uFFFDa\uFFFD");
  // With byte fallback, each byte of a run that is no text.
  EXPECT_EQ(TokenizerOf(SentencePieceJson())->Decode(Ids{3 + 0xC3, 3 + 0xA9, 3 + 0xE2, 260}, true),
            "\uFFFD\uFFFD\uFFFDa");
  EXPECT_EQ(TokenizerOf(SentencePieceJson())->Decode(Ids{3 + 0xC3, 3 + 0xA9, 260}, true), "éa");
}

TEST(Decoding, SkipsSpecialTokensAndIdsWithoutAToken) {
  const auto tokenizer = TokenizerOf(ByteLevelJson());
  const Ids ids{256, 260, 'c', 9999, -1};
  EXPECT_EQ(tokenizer->Decode(ids, true), "abc");
  EXPECT_EQ(tokenizer->Decode(ids, false), "ab<end>c");
}

TEST(Decoding, TokensHaveSpellingsAndTexts) {
  const auto tokenizer = TokenizerOf(ByteLevelJson());
  EXPECT_EQ(tokenizer->TokenSpelling(259), "Ġab");
  EXPECT_EQ(tokenizer->TokenText(259), " ab");
  EXPECT_EQ(tokenizer->TokenText(0xE2), "\uFFFD");
  EXPECT_EQ(tokenizer->TokenSpelling(5000), std::nullopt);
  EXPECT_EQ(tokenizer->FindToken("<end>"), 260);
  EXPECT_EQ(tokenizer->FindToken("Ġab"), 259);
  EXPECT_EQ(tokenizer->FindToken(" ab"), std::nullopt);
  EXPECT_TRUE(tokenizer->IsSpecial(260));
  EXPECT_FALSE(tokenizer->IsSpecial(259));
  EXPECT_EQ(tokenizer->vocabulary(), 261u);
  EXPECT_EQ(tokenizer->longest_token(), 5u);
  EXPECT_EQ(TokenizerOf(SentencePieceJson())->TokenText(262), " a");
}

TEST(Detokenizer, NeverGivesAPartOfACharacter) {
  const auto tokenizer = TokenizerOf(ByteLevelJson());
  const auto detokenizer = tokenizer->NewDetokenizer({});
  // 😀 is F0 9F 98 80.
  EXPECT_EQ(detokenizer->Push('x'), "x");
  EXPECT_EQ(detokenizer->Push(0xF0), "");
  EXPECT_EQ(detokenizer->Push(0x9F), "");
  EXPECT_EQ(detokenizer->Push(0x98), "");
  EXPECT_EQ(detokenizer->Push(0x80), "😀");
  EXPECT_EQ(detokenizer->Push(0xE2), "");
  EXPECT_EQ(detokenizer->Push('y'), "\uFFFDy");
  EXPECT_EQ(detokenizer->Push(0xE2), "");
  EXPECT_EQ(detokenizer->Finish(), "\uFFFD");
}

TEST(Detokenizer, ARunOfBytesIsDecidedWhereItEnds) {
  const auto tokenizer = TokenizerOf(SentencePieceJson());
  const auto detokenizer = tokenizer->NewDetokenizer({});
  EXPECT_EQ(detokenizer->Push(3 + 0xC3), "");
  EXPECT_EQ(detokenizer->Push(3 + 0xA9), "");
  EXPECT_EQ(detokenizer->Push(262), "é a");
  EXPECT_EQ(detokenizer->Push(3 + 0xC3), "");
  EXPECT_EQ(detokenizer->Finish(), "\uFFFD");
}

TEST(Detokenizer, ASpaceBehindAPromptIsTextAndOneAtTheBeginIsNot) {
  const auto tokenizer = TokenizerOf(SentencePieceJson());
  EXPECT_EQ(tokenizer->NewDetokenizer({.after_prompt = true})->Push(262), " a");
  const auto whole = tokenizer->NewDetokenizer({.after_prompt = false});
  EXPECT_EQ(whole->Push(1), "");
  EXPECT_EQ(whole->Push(262), "a");
  EXPECT_EQ(whole->Push(262), " a");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const auto tokenizer = TokenizerOf(ByteLevelJson());
  EXPECT_THROW(static_cast<void>(tokenizer->Encode("ab\xC3", false)), InputError);
  EXPECT_THROW(static_cast<void>(tokenizer->Encode("\xED\xA0\x80", false)), InputError);
}

TEST(Tokenizer, ManyThreadsMayEncodeAtOnce) {
  const auto tokenizer = TokenizerOf(ByteLevelJson());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, -1);
  for (std::size_t k = 0; k < wrong.size(); ++k) {
    threads.emplace_back([&, k] {
      int count = 0;
      for (int round = 0; round < 300; ++round) {
        if (tokenizer->Encode(" abc ab bc", false) != Ids{' ', 258, 259, ' ', 257}) ++count;
      }
      wrong[k] = count;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace twin::text
