// A part of a text on its way through normalizers and pre-tokenizers, with the origin of its
// bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/text/tokenizer.h"

namespace twin::text {

class AlignedText {
 public:
  // Bytes `part` of `original`. With `tracked`, remembers for each byte of text() the original
  // character that it is from.
  AlignedText(std::string_view original, Span part, bool tracked);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool tracked() const { return tracked_; }
  // True if the part begins where the original begins.
  [[nodiscard]] bool at_start() const { return begin_ == 0; }

  // The bytes of the original that `part` of text() is from. REQUIRES: tracked().
  [[nodiscard]] Span OriginOf(Span part) const;

  [[nodiscard]] AlignedText Slice(Span part) const;

 private:
  friend class TextRewrite;
  AlignedText(bool tracked, std::size_t begin) : tracked_(tracked), begin_(begin) {}

  // The longest text that steps may make of a part with `bytes` bytes.
  static std::size_t BytesMaxOf(std::size_t bytes) { return 16 * bytes + 64; }

  std::string text_;
  std::size_t bytes_max_ = BytesMaxOf(0);
  bool tracked_;
  std::size_t begin_;          // of the part, in the original; exact only if 0 or tracked
  std::vector<Span> origins_;  // of each byte, if tracked
};

// Builds the successor of a text, from left to right. Throws InputError (data) if it becomes longer
// than 16 times the part of the original text plus 64 bytes. No tokenizer needs that, but a few
// replacements in a row can ask for any length.
class TextRewrite {
 public:
  explicit TextRewrite(const AlignedText& source)
      : source_(source), result_(source.tracked_, source.begin_) {
    result_.bytes_max_ = source.bytes_max_;
  }

  // Appends bytes `part` of the source.
  void Keep(Span part);
  // Appends new text in place of `part` of the source. Its origin is the last character of `part`.
  void Replace(Span part, std::string_view text);
  // Appends new text whose origin is the first character of `part` of the source.
  void AddFrom(Span part, std::string_view text);

  [[nodiscard]] std::size_t size() const { return result_.text_.size(); }
  AlignedText Finish() { return std::move(result_); }

 private:
  void Append(std::string_view text, Span origin);
  void RequireRoom(std::size_t bytes) const;

  const AlignedText& source_;
  AlignedText result_;
};

}  // namespace twin::text
