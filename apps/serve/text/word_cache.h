// Remembers the tokens of words: the same words come again and again.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/serve/text/bpe_model.h"

namespace twin::text {

// Belongs to one model and one thread at a time. Starts anew when full, so that its size is bounded
// and yesterday's words do not stay.
class WordCache {
 public:
  static constexpr std::size_t kWordsMax = 10'000;
  static constexpr std::size_t kWordBytesMax = 256;

  // Appends the tokens of `word` to `tokens`.
  void Encode(const BpeModel& model, std::string_view word, std::vector<WordToken>& tokens);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>()(word);
    }
  };
  std::unordered_map<std::string, std::vector<WordToken>, Hash, std::equal_to<>> words_;
};

}  // namespace twin::text
