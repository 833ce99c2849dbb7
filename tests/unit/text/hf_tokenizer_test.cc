// Small vocabularies in the shapes of model families. What they must give was made by Hugging Face
// tokenizers 0.23.3 (tests/text/make_samples.py).

#include "apps/serve/text/hf_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/serve/text/tokenizer.h"

namespace twin::text {
namespace {

const std::filesystem::path kSamples =
    std::filesystem::path(TWIN_SOURCE_DIR) / "tests/unit/text/samples";

class Samples : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Tokenizer> tokenizer_ =
      LoadTokenizer(kSamples / (std::string(GetParam()) + ".json"));
  nlohmann::json expected_ =
      nlohmann::json::parse(std::ifstream(kSamples / (std::string(GetParam()) + ".expected.json")));
};

TEST_P(Samples, GiveTheIdsOfHuggingFaceTokenizers) {
  ASSERT_GE(expected_.size(), 40u);
  for (const auto& row : expected_) {
    const auto string = row["string"].get<std::string>();
    EXPECT_EQ(tokenizer_->Encode(string, false), row["ids"].get<std::vector<TokenId>>()) << string;
    EXPECT_EQ(tokenizer_->Encode(string, true), row["special_ids"].get<std::vector<TokenId>>())
        << string;
  }
}

TEST_P(Samples, GiveTheTextOfHuggingFaceTokenizers) {
  for (const auto& row : expected_) {
    const auto ids = row["ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer_->Decode(ids, true), row["text"].get<std::string>());
  }
}

TEST_P(Samples, GiveTheOffsetsOfHuggingFaceTokenizers) {
  // NFC changes only these of the strings; what offsets then cover is our own.
  const bool composes =
      std::string_view(GetParam()) == "qwen2" || std::string_view(GetParam()) == "odd_bytes";
  int compared = 0;
  for (const auto& row : expected_) {
    const auto string = row["string"].get<std::string>();
    std::vector<Span> offsets;
    for (const auto& pair : row["offsets"]) offsets.push_back({pair[0], pair[1]});
    const Encoding encoding = tokenizer_->EncodeWithOffsets(string, false);
    EXPECT_EQ(encoding.ids, row["ids"].get<std::vector<TokenId>>());
    if (composes && !row["nfc"].get<bool>()) continue;
    EXPECT_EQ(encoding.characters, offsets) << string;
    ++compared;
  }
  EXPECT_GE(compared, 30);
}

// A client of a stream sees what a client of the whole answer sees, and every piece is characters.
TEST_P(Samples, PiecesOfAStreamAreTheWholeText) {
  for (const auto& row : expected_) {
    const auto ids = row["ids"].get<std::vector<TokenId>>();
    const auto detokenizer =
        tokenizer_->NewDetokenizer({.skip_special_tokens = true, .after_prompt = false});
    std::string text;
    for (const TokenId id : ids) {
      const std::string piece = detokenizer->Push(id);
      EXPECT_NO_THROW(static_cast<void>(nlohmann::json(piece).dump())) << "not UTF-8";
      text += piece;
    }
    text += detokenizer->Finish();
    EXPECT_EQ(text, row["text"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Samples,
                         testing::Values("gpt2", "llama3", "qwen2", "deepseek", "o200k", "llama2",
                                         "mistral", "gemma", "odd_bytes", "odd_unknown"),
                         [](const auto& family) { return std::string(family.param); });

TEST(LoadTokenizer, TakesTheFolderOfATokenizerJson) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "twin_tokenizer_folder";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(kSamples / "gpt2.json", folder / "tokenizer.json",
                             std::filesystem::copy_options::overwrite_existing);
  const auto tokenizer = LoadTokenizer(folder);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("Hello world", false), true), "Hello world");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace twin::text
