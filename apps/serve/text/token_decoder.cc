#include "apps/serve/text/token_decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/serve/text/byte_alphabet.h"

namespace twin::text {

namespace {

constexpr std::int64_t kStripMax = 1024;
constexpr double kGrowthMax = 64;

std::string Replaced(std::string text, std::string_view pattern, std::string_view content) {
  std::size_t at = text.find(pattern);
  while (at != std::string::npos) {
    text.replace(at, pattern.size(), content);
    at = text.find(pattern, at + content.size());
  }
  return text;
}

}  // namespace

TokenDecoder::TokenDecoder(const JsonPart& part) {
  Read(part);
  if (bytes_ == Bytes::kNone && metaspace_.empty() && replacements_.empty()) {
    part.Refuse("lacks ByteLevel, ByteFallback, Metaspace and Replace; one of these is needed");
  }
}

void TokenDecoder::Read(const JsonPart& part) {
  const std::string type = part.Text("type");
  if (type == "Sequence") {
    for (const JsonPart& step : part.Objects("decoders")) Read(step);
    return;
  }
  const bool joined = bytes_ != Bytes::kNone || fused_;
  if (type == "Fuse") {
    fused_ = true;
  } else if (type == "Strip") {
    ReadStrip(part);
  } else if (type == "ByteLevel" || type == "ByteFallback" || type == "Metaspace" ||
             type == "Replace") {
    if (joined) part.Refuse("must stand before ByteLevel, ByteFallback and Fuse");
    if (type == "Replace") {
      ReadReplace(part);
    } else if (type == "Metaspace") {
      ReadMetaspace(part);
    } else {
      bytes_ = type == "ByteLevel" ? Bytes::kByteLevel : Bytes::kFallback;
      if (bytes_ == Bytes::kByteLevel && (!metaspace_.empty() || !replacements_.empty())) {
        part.Refuse("must be the first decoder");
      }
    }
  } else {
    part.RefuseField("type",
                     "allowed are ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, "
                     "Strip");
  }
}

void TokenDecoder::ReadReplace(const JsonPart& part) {
  const JsonPart pattern = part.Object("pattern");
  if (!pattern.Has("String")) {
    part.RefuseField("pattern", "allowed is {\"String\": ...}; patterns are not supported here");
  }
  if (!metaspace_.empty()) part.Refuse("must stand before Metaspace");
  std::string from = pattern.Text("String");
  if (from.empty()) pattern.RefuseField("String", "must not be empty");
  replacements_.emplace_back(std::move(from), part.Text("content"));
  part.RequireFew(replacements_.size());
  // The longest result comes from a token that consists of the pattern alone.
  const auto& [pattern_text, content] = replacements_.back();
  growth_ *=
      std::max(1.0, static_cast<double>(content.size()) / static_cast<double>(pattern_text.size()));
  if (growth_ > kGrowthMax) {
    part.Refuse(
        fmt::format("makes tokens more than {} times as long, with those before it", kGrowthMax));
  }
}

void TokenDecoder::ReadStrip(const JsonPart& part) {
  if (!fused_ && bytes_ != Bytes::kByteLevel) part.Refuse("must stand behind Fuse");
  if (strip_.count > 0) part.Refuse("is the second Strip; allowed is one");
  part.RequireOff("stop");
  strip_ = {part.Text("content"), static_cast<std::size_t>(part.Integer("start", kStripMax))};
  if (strip_.character.empty() || CharacterBytes(strip_.character[0]) != strip_.character.size()) {
    part.RefuseField("content", "must be one character");
  }
}

void TokenDecoder::ReadMetaspace(const JsonPart& part) {
  if (!metaspace_.empty()) part.Refuse("is the second Metaspace; allowed is one");
  metaspace_ = part.Text("replacement", "▁");
  if (metaspace_.empty() || CharacterBytes(metaspace_[0]) != metaspace_.size()) {
    part.RefuseField("replacement", "must be one character");
  }
  const bool adds_prefix = part.Flag("add_prefix_space", true);
  drops_first_metaspace_ = part.Text("prepend_scheme", adds_prefix ? "always" : "never") != "never";
}

std::string TokenDecoder::Piece(std::string_view spelling, bool first) const {
  if (bytes_ == Bytes::kByteLevel) {
    std::optional<std::string> bytes = BytesOfSpelling(spelling);
    return bytes ? std::move(*bytes) : std::string(spelling);
  }
  std::string piece(spelling);
  for (const auto& [pattern, content] : replacements_) {
    piece = Replaced(std::move(piece), pattern, content);
  }
  if (!metaspace_.empty()) {
    piece = Replaced(std::move(piece), metaspace_, first && drops_first_metaspace_ ? "" : " ");
  }
  return piece;
}

PieceJoiner::PieceJoiner(const TokenDecoder& decoder, bool strips)
    : decoder_(decoder), first_(strips), strips_left_(strips ? decoder.leading_strip().count : 0) {}

void PieceJoiner::Append(std::string_view piece, std::string& text) {
  const std::string& stripped = decoder_.leading_strip().character;
  while (strips_left_ > 0 && !piece.empty()) {
    if (!piece.starts_with(stripped)) {
      strips_left_ = 0;
      break;
    }
    piece.remove_prefix(stripped.size());
    --strips_left_;
  }
  text += piece;
}

// A run of bytes becomes text if all of it is valid, else one U+FFFD per byte.
void PieceJoiner::EndBytes(std::string& text) {
  if (fallback_bytes_.empty()) return;
  if (ValidUtf8Bytes(fallback_bytes_) == fallback_bytes_.size()) {
    Append(fallback_bytes_, text);
  } else {
    for (std::size_t k = 0; k < fallback_bytes_.size(); ++k) Append(kReplacementCharacter, text);
  }
  fallback_bytes_.clear();
}

void PieceJoiner::Push(std::string_view spelling, std::string& text) {
  const std::string piece = decoder_.Piece(spelling, std::exchange(first_, false));
  if (decoder_.bytes() == TokenDecoder::Bytes::kByteLevel) {
    std::string decoded;
    utf8_.Push(piece, decoded);
    Append(decoded, text);
    return;
  }
  if (decoder_.bytes() == TokenDecoder::Bytes::kFallback) {
    if (const std::optional<unsigned char> byte = FallbackByte(piece)) {
      fallback_bytes_ += static_cast<char>(*byte);
      return;
    }
    EndBytes(text);
  }
  Append(piece, text);
}

void PieceJoiner::Finish(std::string& text) {
  EndBytes(text);
  std::string decoded;
  utf8_.Finish(decoded);
  Append(decoded, text);
}

}  // namespace twin::text
