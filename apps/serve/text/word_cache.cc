#include "apps/serve/text/word_cache.h"

namespace twin::text {

void WordCache::Encode(const BpeModel& model, std::string_view word,
                       std::vector<WordToken>& tokens) {
  if (word.size() > kWordBytesMax) {
    model.Encode(word, tokens);
    return;
  }
  const auto known = words_.find(word);
  if (known != words_.end()) {
    tokens.insert(tokens.end(), known->second.begin(), known->second.end());
    return;
  }
  const auto first = static_cast<std::ptrdiff_t>(tokens.size());
  model.Encode(word, tokens);
  if (words_.size() >= kWordsMax) words_.clear();
  words_.emplace(word, std::vector<WordToken>(tokens.begin() + first, tokens.end()));
}

}  // namespace twin::text
