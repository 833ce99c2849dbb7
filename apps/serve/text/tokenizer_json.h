// Reads the JSON of a tokenizer.json: the large lists into vectors, the rest into a tree.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/serve/text/tokenizer.h"

namespace twin::text {

inline constexpr std::size_t kTokenizerJsonBytesMax = std::size_t{256} << 20;

struct TokenizerJson {
  // model.vocab, in the order of the file.
  std::vector<std::pair<std::string, TokenId>> vocab;
  // model.merges, the first one merges first.
  std::vector<std::pair<std::string, std::string>> merges;
  // Everything else; model.vocab and model.merges are absent here.
  nlohmann::json rest;
};

// Takes both spellings of merges: "a b" and ["a", "b"]. Throws InputError (data) naming `where` for
// text that is too long, is not JSON, or nests deeper than 64, and for a vocabulary that is not a
// table of ids or merges that are not pairs.
TokenizerJson ReadTokenizerJson(std::string_view text, const std::string& where);

}  // namespace twin::text
