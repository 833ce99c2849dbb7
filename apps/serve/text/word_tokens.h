// The tokens of a vocabulary from which an emulated model draws its answers.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/serve/text/tokenizer.h"

namespace twin::text {

// Ids, rising, of tokens that are a space and lower-case letters. Encoding the text of such tokens
// gives the same tokens again, for one token and for a row of tokens. An answer drawn from any
// tokens would have 2 to 4 % more tokens when a client counts them again. Rows are tried with
// neighbours drawn by `seed`; tokens that change beside a neighbour are left out.
std::vector<TokenId> WordTokens(const Tokenizer& tokenizer, std::uint64_t seed);

}  // namespace twin::text
