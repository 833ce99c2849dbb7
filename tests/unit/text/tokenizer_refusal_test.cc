// Refusals of a tokenizer.json: each is one line that names file, field and remedy.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/serve/text/split_pattern.h"
#include "apps/serve/text/tokenizer.h"
#include "core/input_error.h"
#include "tests/unit/text/tokenizer_json_by_hand.h"

namespace twin::text {
namespace {

using nlohmann::json;

std::string Refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

std::string RefusalOf(const json& file) {
  return Refusal([&] { TokenizerOf(file); });
}

// The byte-level file with the value at `pointer` replaced.
std::string RefusalWith(const std::string& pointer, const json& value) {
  json file = ByteLevelJson();
  file[json::json_pointer(pointer)] = value;
  return RefusalOf(file);
}

TEST(TokenizerRefusal, NamesPartsThatAreNotSupported) {
  EXPECT_EQ(RefusalWith("/model/type", "Unigram"),
            "test.json: model.type is \"Unigram\"; allowed is BPE");
  EXPECT_EQ(RefusalWith("/normalizer", {{"type", "NFKC"}}),
            "test.json: normalizer.type is \"NFKC\"; allowed are NFC, Prepend, Replace, Sequence");
  EXPECT_EQ(RefusalWith("/pre_tokenizer", {{"type", "Whitespace"}}),
            "test.json: pre_tokenizer.type is \"Whitespace\"; allowed are ByteLevel, Digits, "
            "Metaspace, Sequence, Split");
  EXPECT_EQ(RefusalWith("/post_processor", {{"type", "BertProcessing"}}),
            "test.json: post_processor.type is \"BertProcessing\"; allowed are ByteLevel, "
            "Sequence, TemplateProcessing");
  EXPECT_EQ(RefusalWith("/decoder", {{"type", "WordPiece"}}),
            "test.json: decoder.type is \"WordPiece\"; allowed are ByteFallback, ByteLevel, Fuse, "
            "Metaspace, Replace, Sequence, Strip");
  EXPECT_EQ(RefusalWith("/decoder", nullptr), "test.json: decoder is missing; it is required");
  EXPECT_EQ(RefusalWith("/version", "2.0"), "test.json: version is \"2.0\"; allowed is \"1.0\"");
}

TEST(TokenizerRefusal, NamesSettingsThatAreNotSupported) {
  EXPECT_EQ(RefusalWith("/model/dropout", 0.1),
            "test.json: model.dropout is 0.1; this is not supported, and must be absent or off");
  EXPECT_EQ(RefusalWith("/model/end_of_word_suffix", "</w>"),
            "test.json: model.end_of_word_suffix is \"</w>\"; this is not supported, and must be "
            "absent or off");
  EXPECT_EQ(RefusalWith("/decoder", {{"type", "Fuse"}}),
            "test.json: decoder lacks ByteLevel, ByteFallback, Metaspace and Replace; one of these "
            "is needed");
  EXPECT_EQ(
      RefusalWith("/normalizer",
                  {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "b"}}),
      "test.json: normalizer.pattern is an object; allowed is {\"String\": ...}; patterns are "
      "not supported here");
}

TEST(TokenizerRefusal, NamesContradictionsOfTheVocabulary) {
  EXPECT_EQ(RefusalWith("/model/merges/4", "x yz"),
            "test.json: model needs the token 'yz' for merges[4], but vocab lacks it");
  EXPECT_EQ(RefusalWith("/model/merges/0", "a b c"),
            "test.json: model.merges[0] must be \"a b\" or [\"a\", \"b\"]");
  EXPECT_EQ(RefusalWith("/model/merges/0", json::array({"a"})),
            "test.json: model.merges[0] must be \"a b\" or [\"a\", \"b\"]");
  EXPECT_EQ(RefusalWith("/model/vocab/ab", 257),
            "test.json: model gives the id 257 to 'ab' and 'bc'; ids must differ");
  EXPECT_EQ(RefusalWith("/model/vocab/ab", -1),
            "test.json: model.vocab: the id of 'ab' must be an integer from 0 to 16777215");
  EXPECT_EQ(RefusalWith("/model/vocab/ab", 16'000'000),
            "test.json: model has the id 16000000 in a vocab of 260 tokens; too many ids have no "
            "token");
  EXPECT_EQ(RefusalWith("/model/vocab", json::object()),
            "test.json: model.vocab is missing; it must be a table of tokens and ids");
  EXPECT_EQ(RefusalWith("/added_tokens/0/id", 300),
            "test.json: added_tokens[0].id is 300; allowed is 260: new tokens are numbered without "
            "gaps");
  EXPECT_EQ(RefusalWith("/added_tokens/0/content", "ab"),
            "test.json: added_tokens[0].id is 260; allowed is 256: model.vocab has the token with "
            "that id");
}

TEST(TokenizerRefusal, WantsBytesInEncoderAndDecoder) {
  EXPECT_EQ(RefusalWith("/pre_tokenizer", nullptr),
            "test.json: has ByteLevel in one of pre_tokenizer and decoder; both or none must have "
            "it");
  json file = SentencePieceJson();
  file["decoder"]["decoders"].push_back(
      {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "b"}});
  EXPECT_EQ(RefusalOf(file),
            "test.json: decoder.decoders[4] must stand before ByteLevel, ByteFallback and Fuse");
}

TEST(TokenizerRefusal, NamesFilesThatAreNoJson) {
  EXPECT_EQ(Refusal([] { ParseTokenizer("{\"model\": ", "t.json"); }),
            "t.json: is not JSON: error at byte 11");
  EXPECT_EQ(Refusal([] { ParseTokenizer("", "t.json"); }), "t.json: is not JSON: error at byte 1");
  EXPECT_EQ(Refusal([] { ParseTokenizer("[1]", "t.json"); }),
            "t.json: is a list of 1; must be an object");
  EXPECT_EQ(Refusal([] { ParseTokenizer(std::string(100'000, '['), "t.json"); }),
            "t.json: nests deeper than 64 levels, the most allowed");
  EXPECT_EQ(Refusal([] { LoadTokenizer("no/such/tokenizer.json"); }),
            "no/such/tokenizer.json: cannot be read");
}

std::string PatternRefusal(const std::string& pattern) {
  return Refusal([&] { const SplitPattern compiled(pattern, "p"); });
}

// Patterns that Oniguruma and PCRE2 read differently, and patterns that neither accepts.
TEST(SplitPatternRefusal, NamesWhatIsNotSupportedAndWhere) {
  EXPECT_EQ(PatternRefusal(R"(a\w+)"),
            "p: the pattern has '\\w+' at byte 1: this escape is not supported");
  EXPECT_EQ(PatternRefusal(R"(\p{Han}+)"),
            "p: the pattern has '\\p{Han}+' at byte 0: of properties, only general categories such "
            "as \\p{L} or \\p{Nd} are supported");
  EXPECT_EQ(PatternRefusal("a{,3}"),
            "p: the pattern has '{,3}' at byte 1: a repetition must be {n}, {n,} or {n,m}");
  EXPECT_EQ(PatternRefusal("a{2}+"),
            "p: the pattern has '{2}+' at byte 1: nothing may repeat a repetition");
  EXPECT_EQ(PatternRefusal("[a[b]]"),
            "p: the pattern has '[b]]' at byte 2: classes within classes are not supported");
  EXPECT_EQ(PatternRefusal(R"([\S])"),
            "p: the pattern has '\\S]' at byte 1: \\S is not supported in a class");
  EXPECT_EQ(PatternRefusal("(?i:[a-z])"),
            "p: the pattern has '[a-z])' at byte 4: within (?i: only plain characters are "
            "supported");
  EXPECT_EQ(PatternRefusal("(?<name>a)"),
            "p: the pattern has '(?<name>' at byte 0: groups may begin with (, (?:, (?i:, (?=, "
            "(?!, (?<= or (?<!");
  EXPECT_EQ(PatternRefusal("(a"), "p: the pattern lacks a closing ')'");
  EXPECT_EQ(PatternRefusal("[a"), "p: the pattern lacks a closing ']'");
  EXPECT_EQ(PatternRefusal("a*"),
            "p: the pattern matches the empty text; it must match at least one character");
  EXPECT_EQ(PatternRefusal(R"([\u1C80-\u1C8F])"),
            "p: the pattern has ']' at byte 14: the class names characters that are newer than "
            "Unicode 14");
}

json Replacement(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

// Thirty doublings make 4 GiB of 4 bytes; 16 times 4 bytes and 64 are allowed.
TEST(TokenizerBounds, ReplacementsMakeATextOnlySoLong) {
  json file = ByteLevelJson();
  const json doubling = Replacement("a", "aa");
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<json>(30, doubling)}};
  const auto tokenizer = TokenizerOf(file);
  EXPECT_EQ(Refusal([&] { (void)tokenizer->Encode("aaaa", false); }),
            "text: becomes longer than 128 bytes by the replacements of its tokenizer");
  file["normalizer"] = Replacement("a", std::string(1 << 20, 'b'));
  const auto one = TokenizerOf(file);
  EXPECT_EQ(Refusal([&] { (void)one->Encode(std::string(1 << 16, 'a'), false); }),
            "text: becomes longer than 1048640 bytes by the replacements of its tokenizer");
}

TEST(TokenizerBounds, ReplacementsMakeATokenOnlySoLong) {
  json file = SentencePieceJson();
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders", std::vector<json>(7, Replacement("a", "aa"))}};
  EXPECT_EQ(RefusalOf(file),
            "test.json: decoder.decoders[6] makes tokens more than 64 times as long, with those "
            "before it");
}

TEST(TokenizerBounds, StepsAreFewAndNestLittle) {
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(RefusalWith("/pre_tokenizer",
                        {{"type", "Sequence"}, {"pretokenizers", std::vector<json>(65, digits)}}),
            "test.json: pre_tokenizer.pretokenizers[64] is one step too many; allowed are 64");
  EXPECT_EQ(
      RefusalWith("/normalizer", {{"type", "Sequence"},
                                  {"normalizers", std::vector<json>(65, json{{"type", "NFC"}})}}),
      "test.json: normalizer.normalizers[64] is one step too many; allowed are 64");
  for (const auto& [field, list] :
       {std::pair("normalizer", "normalizers"), std::pair("pre_tokenizer", "pretokenizers"),
        std::pair("post_processor", "processors"), std::pair("decoder", "decoders")}) {
    json nested = {{"type", "Sequence"}, {list, json::array()}};
    for (int depth = 0; depth < 200; ++depth) {
      json outer = {{"type", "Sequence"}, {list, json::array()}};
      outer[list].push_back(std::move(nested));
      nested = std::move(outer);
    }
    EXPECT_THAT(RefusalWith(std::string("/") + field, nested),
                ::testing::HasSubstr("nests deeper than"));
  }
}

// Looks through the rest of the text at each of its bytes: 2e10 steps in 200,000 bytes.
TEST(TokenizerBounds, PatternsThatTakeTheSquareOfATextAreEnded) {
  std::vector<Span> matches;
  const std::string text(200'000, 'x');
  const std::clock_t begin = std::clock();
  const MatchTime limit(0);
  const SplitPattern square("x*y|x", "p");
  EXPECT_EQ(Refusal([&] {
              for (int i = 0; i < 100; ++i) square.FindAll(text, matches);
            }),
            "text: takes the patterns of its tokenizer too long to cut into words");
  EXPECT_LT(std::clock() - begin, 30 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace twin::text
