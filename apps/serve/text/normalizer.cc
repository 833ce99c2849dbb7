#include "apps/serve/text/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <utility>

#include "apps/serve/text/utf8.h"
#include "core/check.h"

namespace twin::text {

namespace {

const icu::Normalizer2& NfcOfUnicode9() {
  static const auto* const normalizer = [] {
    UErrorCode status = U_ZERO_ERROR;
    auto* known = new icu::UnicodeSet(UNICODE_STRING_SIMPLE("[:age=9.0:]"), status);
    known->freeze();
    const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
    CHECK(U_SUCCESS(status));
    // Both live as long as the process.
    return new icu::FilteredNormalizer2(*nfc, *known);
  }();
  return *normalizer;
}

std::vector<Span> CharactersOf(std::string_view text) {
  std::vector<Span> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = CharacterBytes(text[at]);
    characters.push_back({at, at + bytes});
    at += bytes;
  }
  return characters;
}

// Puts `made` in place of the characters `part` of `source`. The first characters of both are
// paired, and the rest from the end.
void ReplaceComposed(std::string_view source, Span part, std::string_view made,
                     TextRewrite& rewrite) {
  const auto from = CharactersOf(source.substr(part.begin, part.end - part.begin));
  const auto to = CharactersOf(made);
  for (std::size_t k = 0; k < to.size(); ++k) {
    const std::size_t left = to.size() - k;
    const std::size_t paired = k == 0 || from.size() < left ? 0 : from.size() - left;
    rewrite.AddFrom({part.begin + from[paired].begin, part.begin + from[paired].end},
                    made.substr(to[k].begin, to[k].end - to[k].begin));
  }
}

}  // namespace

void Normalizer::Read(const JsonPart& part) {
  const std::string type = part.Text("type");
  if (type == "Sequence") {
    for (const JsonPart& step : part.Objects("normalizers")) Read(step);
  } else if (type == "NFC") {
    steps_.emplace_back(Nfc{});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{part.Text("prepend")});
  } else if (type == "Replace") {
    const JsonPart pattern = part.Object("pattern");
    if (!pattern.Has("String")) {
      part.RefuseField("pattern", "allowed is {\"String\": ...}; patterns are not supported here");
    }
    Replace step{pattern.Text("String"), part.Text("content")};
    if (step.pattern.empty()) pattern.RefuseField("String", "must not be empty");
    steps_.emplace_back(std::move(step));
  } else {
    part.RefuseField("type", "allowed are NFC, Prepend, Replace, Sequence");
  }
  part.RequireFew(steps_.size());
}

AlignedText Normalizer::Apply(AlignedText text) const {
  for (const Step& step : steps_) {
    if (text.text().empty()) break;
    text = std::visit([&](const auto& kind) { return Applied(kind, std::move(text)); }, step);
  }
  return text;
}

AlignedText Normalizer::Applied(const Nfc& /*step*/, AlignedText text) {
  const std::string& source = text.text();
  const bool ascii = std::all_of(source.begin(), source.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return text;
  CHECK(source.size() < INT32_MAX);
  UErrorCode status = U_ZERO_ERROR;
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized, static_cast<std::int32_t>(source.size()));
  icu::Edits edits;
  NfcOfUnicode9().normalizeUTF8(0, source, sink, &edits, status);
  CHECK(U_SUCCESS(status));
  if (!edits.hasChanges()) return text;
  TextRewrite rewrite(text);
  auto edit = edits.getFineIterator();
  while (edit.next(status) != 0) {
    const auto begin = static_cast<std::size_t>(edit.sourceIndex());
    const Span part{begin, begin + static_cast<std::size_t>(edit.oldLength())};
    if (edit.hasChange() == 0) {
      rewrite.Keep(part);
      continue;
    }
    ReplaceComposed(source, part,
                    std::string_view(normalized)
                        .substr(static_cast<std::size_t>(edit.destinationIndex()),
                                static_cast<std::size_t>(edit.newLength())),
                    rewrite);
  }
  CHECK(U_SUCCESS(status));
  return rewrite.Finish();
}

AlignedText Normalizer::Applied(const Prepend& step, AlignedText text) {
  TextRewrite rewrite(text);
  const Span all{0, text.text().size()};
  rewrite.AddFrom(all, step.text);
  rewrite.Keep(all);
  return rewrite.Finish();
}

AlignedText Normalizer::Applied(const Replace& step, AlignedText text) {
  const std::string& source = text.text();
  std::size_t found = source.find(step.pattern);
  if (found == std::string::npos) return text;
  TextRewrite rewrite(text);
  std::size_t at = 0;
  for (; found != std::string::npos; found = source.find(step.pattern, at)) {
    rewrite.Keep({at, found});
    at = found + step.pattern.size();
    rewrite.Replace({found, at}, step.content);
  }
  rewrite.Keep({at, source.size()});
  return rewrite.Finish();
}

}  // namespace twin::text
