#include "apps/serve/text/aligned_text.h"

#include <fmt/format.h>

#include "apps/serve/text/utf8.h"
#include "core/check.h"
#include "core/input_error.h"

namespace twin::text {

AlignedText::AlignedText(std::string_view original, Span part, bool tracked)
    : text_(original.substr(part.begin, part.end - part.begin)),
      bytes_max_(BytesMaxOf(text_.size())),
      tracked_(tracked),
      begin_(part.begin) {
  if (!tracked) return;
  origins_.reserve(text_.size());
  for (std::size_t at = part.begin; at < part.end;) {
    const std::size_t bytes = CharacterBytes(original[at]);
    origins_.insert(origins_.end(), bytes, Span{at, at + bytes});
    at += bytes;
  }
}

Span AlignedText::OriginOf(Span part) const {
  CHECK(tracked_ && part.begin < part.end && part.end <= origins_.size());
  return {origins_[part.begin].begin, origins_[part.end - 1].end};
}

AlignedText AlignedText::Slice(Span part) const {
  AlignedText slice(tracked_, part.begin == 0 ? begin_ : begin_ + part.begin);
  slice.text_ = text_.substr(part.begin, part.end - part.begin);
  slice.bytes_max_ = bytes_max_;
  if (tracked_ && part.begin < part.end) {
    slice.begin_ = origins_[part.begin].begin;
    slice.origins_.assign(origins_.begin() + static_cast<std::ptrdiff_t>(part.begin),
                          origins_.begin() + static_cast<std::ptrdiff_t>(part.end));
  }
  return slice;
}

void TextRewrite::RequireRoom(std::size_t bytes) const {
  if (bytes <= result_.bytes_max_ - result_.text_.size()) return;
  throw InputError(InputError::Kind::kData, "text",
                   fmt::format("becomes longer than {} bytes by the replacements of its tokenizer",
                               result_.bytes_max_));
}

void TextRewrite::Append(std::string_view text, Span origin) {
  RequireRoom(text.size());
  result_.text_ += text;
  if (result_.tracked_) {
    result_.origins_.insert(result_.origins_.end(), text.size(), origin);
  }
}

void TextRewrite::Keep(Span part) {
  RequireRoom(part.end - part.begin);
  result_.text_.append(source_.text_, part.begin, part.end - part.begin);
  if (!result_.tracked_) return;
  const auto begin = source_.origins_.begin();
  result_.origins_.insert(result_.origins_.end(), begin + static_cast<std::ptrdiff_t>(part.begin),
                          begin + static_cast<std::ptrdiff_t>(part.end));
}

void TextRewrite::Replace(Span part, std::string_view text) {
  Append(text, result_.tracked_ ? source_.origins_[part.end - 1] : Span());
}

void TextRewrite::AddFrom(Span part, std::string_view text) {
  Append(text, result_.tracked_ ? source_.origins_[part.begin] : Span());
}

}  // namespace twin::text
