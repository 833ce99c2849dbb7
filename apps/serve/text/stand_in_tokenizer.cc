#include "apps/serve/text/stand_in_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/serve/text/utf8.h"
#include "core/hash.h"
#include "core/input_error.h"

namespace twin::text {

namespace {

constexpr std::int64_t kLetters = 26;
constexpr double kCharactersMin = 2;
constexpr double kCharactersMax = 12;

// Number of words with so many letters. Stops above kTokenIdMax, the most that a vocabulary needs.
std::int64_t WordsOf(std::size_t letters) {
  std::int64_t words = 1;
  for (std::size_t k = 0; k < letters && words <= kTokenIdMax; ++k) words *= kLetters;
  return words;
}

void RequireRange(const StandInOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw InputError(InputError::Kind::kUsage, "stand-in tokenizer", what);
  };
  if (options.vocabulary < 2 || options.vocabulary > kTokenIdMax) {
    refuse(fmt::format("vocabulary is {}; allowed are 2 to {}", options.vocabulary, kTokenIdMax));
  }
  if (!(options.characters_per_token >= kCharactersMin &&
        options.characters_per_token <= kCharactersMax)) {
    refuse(fmt::format("characters_per_token is {}; allowed are {} to {}",
                       options.characters_per_token, kCharactersMin, kCharactersMax));
  }
  for (const TokenId id : options.special) {
    if (id < 0 || id >= options.vocabulary) {
      refuse(fmt::format("the special token {} is not in the vocabulary of {}", id,
                         options.vocabulary));
    }
  }
}

class StandInDetokenizer : public Detokenizer {
 public:
  StandInDetokenizer(const StandInTokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  std::string Push(TokenId id) override {
    if (skip_special_ && tokenizer_.IsSpecial(id)) return {};
    return tokenizer_.TokenSpelling(id).value_or("");
  }
  std::string Finish() override { return {}; }

 private:
  const StandInTokenizer& tokenizer_;
  bool skip_special_;
};

// Number of bytes of " word" at the begin of `text`: a space and all letters after it; 0 for none.
std::size_t WordBytes(std::string_view text) {
  if (text.empty() || text[0] != ' ') return 0;
  std::size_t end = 1;
  while (end < text.size() && text[end] >= 'a' && text[end] <= 'z') ++end;
  return end > 1 ? end : 0;
}

}  // namespace

StandInTokenizer::StandInTokenizer(const StandInOptions& options) : options_(options) {
  RequireRange(options);
  const auto size = static_cast<std::size_t>(options.vocabulary);
  special_.resize(size);
  for (const TokenId id : options.special) special_[static_cast<std::size_t>(id)] = true;
  const auto words_needed =
      static_cast<std::int64_t>(std::count(special_.begin(), special_.end(), false));
  if (words_needed == 0) {
    throw InputError(InputError::Kind::kUsage, "stand-in tokenizer",
                     "all tokens are special; at least one must be a word");
  }

  const OutputWords output = ChooseOutputWords(words_needed);
  std::vector<std::string> words;
  AddWords(output.letters, 0, output.shorter, words);
  AddWords(output.letters + 1, 0, output.longer, words);
  const std::size_t drawn = words.size();
  // The remaining ids get words that answers are not drawn from.
  std::int64_t first = output.longer;
  for (std::size_t letters = output.letters + 1;
       static_cast<std::int64_t>(words.size()) < words_needed; ++letters, first = 0) {
    const std::int64_t missing = words_needed - static_cast<std::int64_t>(words.size());
    AddWords(letters, first, std::min(missing, WordsOf(letters) - first), words);
  }

  spellings_.resize(size);
  std::size_t next = 0;
  std::size_t characters = 0;
  for (std::size_t id = 0; id < size; ++id) {
    if (special_[id]) {
      spellings_[id] = fmt::format("<|{}|>", id);
      continue;
    }
    if (next < drawn) {
      output_tokens_.push_back(static_cast<TokenId>(id));
      characters += words[next].size();
    }
    spellings_[id] = std::move(words[next++]);
    ids_.emplace(spellings_[id], static_cast<TokenId>(id));
  }
  characters_per_token_ = static_cast<double>(characters) / static_cast<double>(drawn);
}

StandInTokenizer::OutputWords StandInTokenizer::ChooseOutputWords(std::int64_t words) const {
  const double letters = options_.characters_per_token - 1;  // one character is the space
  OutputWords output{static_cast<std::size_t>(letters)};
  const double longer_share = letters - std::floor(letters);
  // As many words of both lengths as there are, in the shares that give the mean.
  double total = static_cast<double>(words);
  total = std::min(total, static_cast<double>(WordsOf(output.letters)) / (1 - longer_share));
  output.shorter = std::max<std::int64_t>(1, std::llround(total * (1 - longer_share)));
  output.shorter = std::min(output.shorter, WordsOf(output.letters));
  output.longer =
      std::min<std::int64_t>(std::llround(total * longer_share), words - output.shorter);
  return output;
}

// Word number k of a length is k times a seeded factor, modulo the number of words, in base 26. The
// factor has no divisor in common with 26, so that all words differ.
void StandInTokenizer::AddWords(std::size_t letters, std::int64_t first, std::int64_t count,
                                std::vector<std::string>& words) const {
  const std::int64_t total = WordsOf(letters);
  const std::uint64_t drawn = MixWords(options_.seed, letters);
  std::int64_t factor = static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(total)) | 1;
  if (factor % 13 == 0) factor += 2;
  for (std::int64_t k = first; k < first + count; ++k) {
    std::int64_t value = k * factor % total;
    std::string word(letters + 1, ' ');
    for (std::size_t at = letters; at > 0; --at, value /= kLetters) {
      word[at] = static_cast<char>('a' + value % kLetters);
    }
    words.push_back(std::move(word));
  }
}

void StandInTokenizer::EncodeOther(std::string_view text, std::size_t first_character,
                                   Encoding& encoding) const {
  std::size_t begin = 0;
  std::size_t characters = 0;
  double piece_end = options_.characters_per_token;
  for (std::size_t at = 0; at < text.size();) {
    at += CharacterBytes(text[at]);
    ++characters;
    if (static_cast<double>(characters) < piece_end && at < text.size()) continue;
    const std::string_view piece = text.substr(begin, at - begin);
    const std::uint64_t choice = MixWords(HashText(piece), options_.seed);
    encoding.ids.push_back(output_tokens_[choice % output_tokens_.size()]);
    const std::size_t piece_begin = encoding.characters.empty() || begin == 0
                                        ? first_character
                                        : encoding.characters.back().end;
    encoding.characters.push_back({piece_begin, first_character + characters});
    begin = at;
    piece_end += options_.characters_per_token;
  }
}

Encoding StandInTokenizer::EncodeWithOffsets(std::string_view text,
                                             bool /*add_special_tokens*/) const {
  const std::size_t valid = ValidUtf8Bytes(text);
  if (valid != text.size()) {
    throw InputError(InputError::Kind::kData, "text",
                     fmt::format("is not UTF-8 at byte {}", valid));
  }
  Encoding encoding;
  std::size_t other = 0;      // where text without words begins
  std::size_t character = 0;  // the character there
  const auto end_other = [&](std::size_t end) {
    EncodeOther(text.substr(other, end - other), character, encoding);
    character += CountCharacters(text.substr(other, end - other));
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = WordBytes(text.substr(at));
    const auto word = bytes > 0 ? ids_.find(text.substr(at, bytes)) : ids_.end();
    if (word == ids_.end()) {
      at += std::max<std::size_t>(bytes, 1);
      continue;
    }
    end_other(at);
    encoding.ids.push_back(word->second);
    encoding.characters.push_back({character, character + bytes});
    character += bytes;
    at += bytes;
    other = at;
  }
  end_other(text.size());
  return encoding;
}

std::vector<TokenId> StandInTokenizer::Encode(std::string_view text,
                                              bool add_special_tokens) const {
  return EncodeWithOffsets(text, add_special_tokens).ids;
}

std::unique_ptr<Detokenizer> StandInTokenizer::NewDetokenizer(DetokenizerOptions options) const {
  return std::make_unique<StandInDetokenizer>(*this, options.skip_special_tokens);
}

std::optional<std::string> StandInTokenizer::TokenSpelling(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= spellings_.size()) return std::nullopt;
  return spellings_[static_cast<std::size_t>(id)];
}

std::optional<TokenId> StandInTokenizer::FindToken(std::string_view spelling) const {
  const auto found = ids_.find(spelling);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

bool StandInTokenizer::IsSpecial(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < special_.size() &&
         special_[static_cast<std::size_t>(id)];
}

std::size_t StandInTokenizer::longest_token() const {
  constexpr std::size_t kCharacterBytesMax = 4;
  const auto piece = static_cast<std::size_t>(std::ceil(options_.characters_per_token));
  return piece * kCharacterBytesMax;
}

}  // namespace twin::text
