// Text to token ids and back: the interface through which the serving front uses a tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twin::text {

using TokenId = std::int32_t;
inline constexpr TokenId kTokenIdMax = (1 << 24) - 1;

// A part of a text: [begin, end).
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const Span&) const = default;
};

struct Encoding {
  std::vector<TokenId> ids;
  // The characters of the text that each token stands for; {0, 0} for tokens added around the text.
  // Empty unless asked for. A token that holds a part of a character has the whole character.
  std::vector<Span> characters;
};

// Turns the tokens of one output into text, one at a time. Gives only text that no later token can
// change, never a part of a character. All pieces together, with that of Finish(), are
// Tokenizer::Decode() of all tokens. Borrows its tokenizer. Not thread-safe.
class Detokenizer {
 public:
  virtual ~Detokenizer() = default;

  // The text that became certain. An id without a token has no text.
  virtual std::string Push(TokenId id) = 0;

  // Ends the text. Returns U+FFFD for held back bytes of incomplete characters. OpenAI's routes
  // drop it as vLLM does; TGI's show it.
  virtual std::string Finish() = 0;
};

struct DetokenizerOptions {
  bool skip_special_tokens = true;
  // True: the tokens continue a prompt, and a space at their begin is text. False: they begin a
  // text, as in Decode(), and families with SentencePiece's rules drop one space there.
  bool after_prompt = true;
};

// Immutable and thread-safe. All text is UTF-8.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The tokens of `text`; with `add_special_tokens`, also the tokens that the model expects around
  // it (beginning of sequence). Special tokens spelled out in `text` are recognised, as in vLLM and
  // TGI. Throws InputError (data) if `text` is not UTF-8.
  [[nodiscard]] virtual std::vector<TokenId> Encode(std::string_view text,
                                                    bool add_special_tokens) const = 0;

  // As Encode(), with the characters that each token stands for.
  [[nodiscard]] virtual Encoding EncodeWithOffsets(std::string_view text,
                                                   bool add_special_tokens) const = 0;

  [[nodiscard]] virtual std::unique_ptr<Detokenizer> NewDetokenizer(
      DetokenizerOptions options) const = 0;

  // The text of a whole sequence. Invalid bytes become U+FFFD.
  [[nodiscard]] std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  // The text of one token within an output; U+FFFD for parts of characters.
  [[nodiscard]] std::string TokenText(TokenId id) const;

  // The token as the vocabulary spells it ("Ġthe"), or nullopt if `id` has none.
  [[nodiscard]] virtual std::optional<std::string> TokenSpelling(TokenId id) const = 0;
  [[nodiscard]] virtual std::optional<TokenId> FindToken(std::string_view spelling) const = 0;

  // True for tokens that `skip_special_tokens` leaves out.
  [[nodiscard]] virtual bool IsSpecial(TokenId id) const = 0;

  // One more than the largest id.
  [[nodiscard]] virtual std::size_t vocabulary() const = 0;
  // Bytes of the longest token: a text of B bytes has at least B / longest_token() tokens.
  [[nodiscard]] virtual std::size_t longest_token() const = 0;
};

// Reads a Hugging Face tokenizer.json; `path` is the file or its folder. docs/tokenizers.md says
// what is supported. Throws InputError (data), one line: the file, the field, what is wrong, what
// is allowed.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::filesystem::path& path);

// As LoadTokenizer(), from the text of a tokenizer.json; `where` stands for the file in errors.
std::unique_ptr<Tokenizer> ParseTokenizer(std::string_view json, const std::string& where);

}  // namespace twin::text
