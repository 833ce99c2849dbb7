// Small tokenizer.json texts for tests, with one part replaced at a time.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/serve/text/tokenizer.h"

namespace twin::text {

// A byte-level vocabulary of a few letters: ids 0 to 255 are the bytes as in
// apps/serve/text/byte_alphabet.h, then "ab" = 256, "bc" = 257, "abc" = 258, "Ġab" = 259; merges in
// the order a b, b c, ab c, Ġ ab.
nlohmann::json ByteLevelJson();

// SentencePiece's rules: <unk> 0, <s> 1, </s> 2, bytes <0x00> to <0xFF> from 3, then "▁" = 259,
// "a" = 260, "b" = 261, "▁a" = 262, "ab" = 263; merges in the order ▁ a, a b. Llama-2's normalizer,
// decoder and post-processor.
nlohmann::json SentencePieceJson();

inline std::unique_ptr<Tokenizer> TokenizerOf(const nlohmann::json& json) {
  return ParseTokenizer(json.dump(), "test.json");
}

}  // namespace twin::text
