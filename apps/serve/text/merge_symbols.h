// Merges the symbols of one word (bpe_model.h).
#pragma once

#include <vector>

#include "apps/serve/text/bpe_model.h"
#include "apps/serve/text/pair_table.h"

namespace twin::text {

// Merges symbols[first..] until no neighbours are a merge; `symbols` shrinks to the tokens. Time is
// quadratic up to kScannedSymbols symbols, where that is faster, and O(n log n) above.
void MergeSymbols(const PairTable& merges, std::size_t first, std::vector<WordToken>& symbols);

inline constexpr std::size_t kScannedSymbols = 24;

}  // namespace twin::text
