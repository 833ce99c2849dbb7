#include "apps/serve/text/word_tokens.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "core/random.h"

namespace twin::text {

namespace {

constexpr std::size_t kRowTokens = 64;

bool IsSpaceAndLetters(std::string_view text) {
  return text.size() > 1 && text[0] == ' ' &&
         std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

bool ReturnsExactly(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  const std::vector<TokenId> again =
      tokenizer.Encode(tokenizer.Decode(ids, /*skip_special_tokens=*/false), false);
  return std::equal(ids.begin(), ids.end(), again.begin(), again.end());
}

void Shuffle(Random& random, std::vector<TokenId>& ids) {
  for (std::size_t k = ids.size(); k > 1; --k) {
    const std::int64_t other = random.UniformInt(0, static_cast<std::int64_t>(k) - 1);
    std::swap(ids[k - 1], ids[static_cast<std::size_t>(other)]);
  }
}

// Adds to `unstable` the tokens of `row` that change beside their neighbours; all, if no pair alone
// does.
void AddUnstable(const Tokenizer& tokenizer, std::span<const TokenId> row,
                 std::set<TokenId>& unstable) {
  if (ReturnsExactly(tokenizer, row)) return;
  bool found = false;
  for (std::size_t k = 0; k + 1 < row.size(); ++k) {
    if (ReturnsExactly(tokenizer, row.subspan(k, 2))) continue;
    unstable.insert({row[k], row[k + 1]});
    found = true;
  }
  if (!found) unstable.insert(row.begin(), row.end());
}

}  // namespace

std::vector<TokenId> WordTokens(const Tokenizer& tokenizer, std::uint64_t seed) {
  std::vector<TokenId> words;
  const auto size = static_cast<TokenId>(tokenizer.vocabulary());
  for (TokenId id = 0; id < size; ++id) {
    if (tokenizer.IsSpecial(id) || !IsSpaceAndLetters(tokenizer.TokenText(id))) continue;
    if (ReturnsExactly(tokenizer, {&id, 1})) words.push_back(id);
  }
  Random random(seed, "word_tokens");
  std::set<TokenId> unstable;
  for (int round = 0; round < 2; ++round) {
    Shuffle(random, words);
    for (std::size_t k = 0; k < words.size(); k += kRowTokens) {
      AddUnstable(tokenizer, std::span(words).subspan(k, std::min(kRowTokens, words.size() - k)),
                  unstable);
    }
  }
  std::erase_if(words, [&](TokenId id) { return unstable.contains(id); });
  std::sort(words.begin(), words.end());
  return words;
}

}  // namespace twin::text
