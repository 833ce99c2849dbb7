// The decoders of a tokenizer.json: from tokens back to text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/serve/text/json_part.h"
#include "apps/serve/text/utf8.h"

namespace twin::text {

// Steps of a decoder, in the one order that is supported: each token by itself, then bytes to
// characters, then the joined text. Immutable and thread-safe.
class TokenDecoder {
 public:
  // Throws InputError (data) for kinds, settings and orders that are not supported.
  explicit TokenDecoder(const JsonPart& part);

  // The text of a token by itself; in byte-level vocabularies, its bytes. `first`: the token is the
  // first of a text.
  [[nodiscard]] std::string Piece(std::string_view spelling, bool first) const;

  enum class Bytes { kNone, kByteLevel, kFallback };
  // How bytes become characters: not at all; all pieces are bytes; tokens "<0xHH>" are bytes.
  [[nodiscard]] Bytes bytes() const { return bytes_; }

  // Removes up to `count` leading `character` of the joined text; nothing if it is empty.
  struct LeadingStrip {
    std::string character;
    std::size_t count = 0;
  };
  [[nodiscard]] const LeadingStrip& leading_strip() const { return strip_; }

 private:
  void Read(const JsonPart& part);
  void ReadReplace(const JsonPart& part);
  void ReadStrip(const JsonPart& part);
  void ReadMetaspace(const JsonPart& part);

  std::vector<std::pair<std::string, std::string>> replacements_;
  double growth_ = 1;  // the replacements can make a token so many times as long
  // The character that spells a space. At the begin of a text it may be dropped instead.
  std::string metaspace_;
  bool drops_first_metaspace_ = false;
  Bytes bytes_ = Bytes::kNone;
  bool fused_ = false;
  LeadingStrip strip_;
};

// Joins pieces of one text as they come; see Detokenizer.
class PieceJoiner {
 public:
  // Borrows `decoder`. `strips`: the pieces begin a text.
  PieceJoiner(const TokenDecoder& decoder, bool strips);

  // Appends to `text` the text that is certain after one more token.
  void Push(std::string_view spelling, std::string& text);
  void Finish(std::string& text);

 private:
  void EndBytes(std::string& text);
  void Append(std::string_view piece, std::string& text);

  const TokenDecoder& decoder_;
  bool first_;
  std::size_t strips_left_;
  LossyUtf8Decoder utf8_;
  std::string fallback_bytes_;  // of the current run of "<0xHH>"
};

}  // namespace twin::text
