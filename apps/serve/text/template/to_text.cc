// str() and repr() of values.
#include <fmt/format.h>
#include <unicode/uchar.h>

#include <charconv>
#include <cmath>

#include "apps/serve/text/template/failure.h"
#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/utf8.h"

namespace twin::text::jinja {
namespace {

bool IsPrintable(UChar32 c) {
  constexpr std::uint32_t kHidden = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CS_MASK | U_GC_CO_MASK |
                                    U_GC_CN_MASK | U_GC_ZL_MASK | U_GC_ZP_MASK | U_GC_ZS_MASK;
  return c == ' ' || (U_GET_GC_MASK(c) & kHidden) == 0;
}

void AppendQuoted(BoundedText& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out.Append(quote);
  for (const std::string_view character : Characters(text)) {
    const auto c = static_cast<UChar32>(CodePointAt(character, 0).value);
    if (c == quote || c == '\\') {
      out.Append('\\');
      out.Append(character);
    } else if (c == '\n') {
      out.Append("\\n");
    } else if (c == '\r') {
      out.Append("\\r");
    } else if (c == '\t') {
      out.Append("\\t");
    } else if (IsPrintable(c)) {
      out.Append(character);
    } else if (c < 0x100) {
      out.Append(fmt::format("\\x{:02x}", c));
    } else if (c < 0x10000) {
      out.Append(fmt::format("\\u{:04x}", c));
    } else {
      out.Append(fmt::format("\\U{:08x}", c));
    }
  }
  out.Append(quote);
}

void AppendRepr(BoundedText& out, const Value& value);

void AppendSequence(BoundedText& out, const SequenceValue& sequence) {
  const bool is_tuple = sequence.kind == SequenceKind::kTuple;
  if (sequence.kind == SequenceKind::kView) out.Append(fmt::format("{}(", sequence.view));
  out.Append(is_tuple ? '(' : '[');
  for (std::size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out.Append(", ");
    AppendRepr(out, sequence.items[i]);
  }
  if (is_tuple && sequence.items.size() == 1) out.Append(',');
  out.Append(is_tuple ? ')' : ']');
  if (sequence.kind == SequenceKind::kView) out.Append(')');
}

void AppendRepr(BoundedText& out, const Value& value) {
  const bool printable_sequence = value.is(ValueKind::kSequence) &&
                                  value.sequence().kind != SequenceKind::kGenerator &&
                                  value.sequence().kind != SequenceKind::kRange;
  if (value.is_markup()) Fail("text marked safe cannot be printed within a list or object");
  if (value.is_text()) {
    AppendQuoted(out, value.text());
  } else if (printable_sequence) {
    AppendSequence(out, value.sequence());
  } else if (value.is(ValueKind::kDict)) {
    out.Append('{');
    bool first = true;
    for (const auto& [key, content] : value.dict().entries) {
      if (!first) out.Append(", ");
      first = false;
      AppendRepr(out, key);
      out.Append(": ");
      AppendRepr(out, content);
    }
    out.Append('}');
  } else if (value.is_undefined()) {
    out.Append("Undefined");
  } else {
    out.Append(ToText(value));
  }
}

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Python writes the shortest digits that give the same number: 1e+16 and 1e-05 with an exponent,
  // what lies between without.
  const double size = std::abs(value);
  const bool has_exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value,
                    has_exponent ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer, end.ptr);
  if (!has_exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string ToText(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return "";
    case ValueKind::kNone:
      return "None";
    case ValueKind::kBool:
      return value.boolean() ? "True" : "False";
    case ValueKind::kInteger:
      return fmt::format("{}", value.integer());
    case ValueKind::kFloat:
      return FloatText(value.number());
    case ValueKind::kText:
      return value.text();
    case ValueKind::kSequence:
      if (value.sequence().kind == SequenceKind::kGenerator ||
          value.sequence().kind == SequenceKind::kRange) {
        break;
      }
      [[fallthrough]];
    case ValueKind::kDict: {
      BoundedText out;
      AppendRepr(out, value);
      return out.Take();
    }
    case ValueKind::kNamespace:
    case ValueKind::kCallable:
      break;
  }
  Fail(fmt::format("a {} cannot be printed", value.TypeName()));
}

}  // namespace twin::text::jinja
