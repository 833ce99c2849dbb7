#include "apps/serve/text/template/python_text.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "apps/serve/text/template/failure.h"
#include "apps/serve/text/utf8.h"

namespace twin::text::jinja {
namespace {

// The character at the right end of a text.
CodePoint Last(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (IsContinuation(text[at])) --at;
  return CodePointAt(text, at);
}

icu::UnicodeString ToUtf16(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())));
}

std::vector<std::string> SplitAtSpace(std::string_view text, std::int64_t count) {
  std::vector<std::string> parts;
  text = Strip(text, Sides::kLeft);
  while (!text.empty()) {
    if (count >= 0 && static_cast<std::int64_t>(parts.size()) == count) {
      parts.emplace_back(text);
      return parts;
    }
    std::size_t end = 0;
    while (end < text.size()) {
      const CodePoint next = CodePointAt(text, end);
      if (IsSpace(next.value)) break;
      end += next.bytes;
    }
    parts.emplace_back(text.substr(0, end));
    text = Strip(text.substr(end), Sides::kLeft);
  }
  return parts;
}

bool EndsLine(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text.front());
    characters.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return characters;
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view Strip(std::string_view text, Sides sides, std::optional<std::string_view> drop) {
  const auto dropped = [&](std::string_view all, std::size_t at, const CodePoint& character) {
    return drop ? drop->find(all.substr(at, character.bytes)) != std::string_view::npos
                : IsSpace(character.value);
  };
  while (sides != Sides::kRight && !text.empty()) {
    const CodePoint first = CodePointAt(text, 0);
    if (!dropped(text, 0, first)) break;
    text.remove_prefix(first.bytes);
  }
  while (sides != Sides::kLeft && !text.empty()) {
    const CodePoint last = Last(text);
    if (!dropped(text, text.size() - last.bytes, last)) break;
    text.remove_suffix(last.bytes);
  }
  return text;
}

std::vector<std::string> Split(std::string_view text, std::optional<std::string_view> separator,
                               std::int64_t count) {
  if (!separator) return SplitAtSpace(text, count);
  if (separator->empty()) Fail("empty separator");
  std::vector<std::string> parts;
  while (count < 0 || static_cast<std::int64_t>(parts.size()) < count) {
    const std::size_t at = text.find(*separator);
    if (at == std::string_view::npos) break;
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + separator->size());
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = CodePointAt(text, at);
    std::size_t end = at + next.bytes;
    if (EndsLine(next.value)) {
      lines.emplace_back(text.substr(begin, at - begin));
      if (next.value == '\r' && text.substr(end).starts_with('\n')) ++end;
      begin = end;
    }
    at = end;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t count) {
  BoundedText result;
  std::int64_t done = 0;
  // Python puts `to` before each character and at the end where `from` is empty.
  while (count < 0 || done < count) {
    const std::size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    result.Append(text.substr(0, at));
    result.Append(to);
    text.remove_prefix(at + from.size());
    ++done;
    if (!from.empty()) continue;
    if (text.empty()) break;
    const std::size_t bytes = CharacterBytes(text.front());
    result.Append(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  result.Append(text);
  return result.Take();
}

std::string Lower(std::string_view text) {
  std::string result;
  ToUtf16(text).toLower(icu::Locale::getRoot()).toUTF8String(result);
  return result;
}

std::string Upper(std::string_view text) {
  std::string result;
  ToUtf16(text).toUpper(icu::Locale::getRoot()).toUTF8String(result);
  return result;
}

std::string EscapeMarkup(std::string_view text) {
  BoundedText result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result.Append("&amp;");
        break;
      case '<':
        result.Append("&lt;");
        break;
      case '>':
        result.Append("&gt;");
        break;
      case '\'':
        result.Append("&#39;");
        break;
      case '"':
        result.Append("&#34;");
        break;
      default:
        result.Append(c);
    }
  }
  return result.Take();
}

}  // namespace twin::text::jinja
