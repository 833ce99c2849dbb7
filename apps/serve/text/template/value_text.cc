#include "apps/serve/text/template/value_text.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/failure.h"
#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/utf8.h"

namespace twin::text::jinja {
namespace {

// repr() of a float. json.dumps() writes finite ones the same.
std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Python writes the shortest digits that give the same number: with an exponent from 1e16 up and
  // below 1e-4.
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

// False for code points that repr() writes as escapes.
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

// The escape of `c` by a letter; empty if it has none.
std::string_view ShortEscape(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      return "";
  }
}

// Writes JSON. A value writes its parts by recursion, which kValueDepthMost bounds.
class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style)
      : style_(style), separator_(style.item_separator.value_or(style.indent ? "," : ", ")) {}

  std::string Take() { return out_.Take(); }

  void Write(const Value& value, std::uint64_t level) {
    switch (value.kind()) {
      case ValueKind::kNone:
        out_.Append("null");
        return;
      case ValueKind::kBool:
        out_.Append(value.boolean() ? "true" : "false");
        return;
      case ValueKind::kInteger:
        out_.Append(fmt::format("{}", value.integer()));
        return;
      case ValueKind::kFloat:
        out_.Append(Number(value.number()));
        return;
      case ValueKind::kText:
        WriteText(value.text());
        return;
      case ValueKind::kDict:
        WriteDict(value.dict(), level);
        return;
      case ValueKind::kSequence:
        if (value.sequence().kind == SequenceKind::kList ||
            value.sequence().kind == SequenceKind::kTuple) {
          WriteList(value.sequence(), level);
          return;
        }
        break;
      case ValueKind::kUndefined:
        Fail(fmt::format("tojson needs a value: {}", value.why_undefined()));
      default:
        break;
    }
    Fail(fmt::format("a {} has no form in JSON", value.TypeName()));
  }

 private:
  static std::string Number(double value) {
    const std::string text = FloatText(value);
    if (text == "nan") return "NaN";
    if (text == "inf") return "Infinity";
    return text == "-inf" ? "-Infinity" : text;
  }

  void BreakLine(std::uint64_t level) {
    if (!style_.indent) return;
    out_.Append('\n');
    out_.Repeat(*style_.indent, level);
  }

  void WriteText(const std::string& text) {
    out_.Append('"');
    for (const std::string_view character : Characters(text)) {
      const char32_t c = CodePointAt(character, 0).value;
      const std::string_view escape = ShortEscape(c);
      if (!escape.empty()) {
        out_.Append(escape);
      } else if (c >= 0x20 && (!style_.ascii_only || c < 0x7F)) {
        out_.Append(character);
      } else if (c < 0x10000) {
        out_.Append(fmt::format("\\u{:04x}", std::uint32_t{c}));
      } else {
        out_.Append(
            fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0U + (c >> 10U), 0xDC00U + (c & 0x3FFU)));
      }
    }
    out_.Append('"');
  }

  void WriteList(const SequenceValue& list, std::uint64_t level) {
    if (list.items.empty()) {
      out_.Append("[]");
      return;
    }
    out_.Append('[');
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.Append(separator_);
      BreakLine(level + 1);
      Write(list.items[i], level + 1);
    }
    BreakLine(level);
    out_.Append(']');
  }

  void WriteDict(const DictValue& dict, std::uint64_t level) {
    if (dict.entries.empty()) {
      out_.Append("{}");
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sorted_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](const auto* left, const auto* right) {
        return Compare(left->first, right->first) < 0;
      });
    }
    out_.Append('{');
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.Append(separator_);
      BreakLine(level + 1);
      WriteKey(entries[i]->first);
      out_.Append(style_.key_separator);
      Write(entries[i]->second, level + 1);
    }
    BreakLine(level);
    out_.Append('}');
  }

  // A key that is no text is written as its JSON in quotes.
  void WriteKey(const Value& key) {
    if (key.is_text()) {
      WriteText(key.text());
      return;
    }
    out_.Append('"');
    Write(key, 0);
    out_.Append('"');
  }

  const JsonStyle& style_;
  const std::string separator_;
  BoundedText out_;
};

Value FromJsonAt(const nlohmann::ordered_json& json, int level) {
  if (level > kValueDepthMost) {
    Fail(fmt::format("lists and objects nest deeper than {} levels", kValueDepthMost));
  }
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return Value::None();
    case nlohmann::json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value::Integer(json.get<std::int64_t>());
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
        Fail("integers must lie between -2^63 and 2^63 - 1");
      }
      return Value::Integer(json.get<std::int64_t>());
    case nlohmann::json::value_t::number_float:
      return Value::Float(json.get<double>());
    case nlohmann::json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (ValidUtf8Bytes(text) != text.size()) Fail("a text is not valid UTF-8");
      return Value::Text(text);
    }
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(FromJsonAt(item, level + 1));
      return Value::List(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        if (ValidUtf8Bytes(key) != key.size()) Fail("a key is not valid UTF-8");
        entries.emplace_back(Value::Text(key), FromJsonAt(value, level + 1));
      }
      return Value::Dict(std::move(entries));
    }
    default:
      Fail("binary values are not supported");
  }
}

}  // namespace

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

std::string ToJson(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.Write(value, 0);
  return writer.Take();
}

Value FromJson(const nlohmann::ordered_json& json) { return FromJsonAt(json, 1); }

// The JSON library parses any depth, but later work on the result recurses. The depth is counted
// here: the library's own callback would scan all values of a list before each one that ends.
nlohmann::ordered_json ParseBounded(const std::string& text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') in_text = !in_text;
    if (in_text && c == '\\') ++at;
    if (in_text) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kValueDepthMost) {
      return nlohmann::ordered_json(nlohmann::ordered_json::value_t::discarded);
    }
  }
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

Value ParseJson(const std::string& text) {
  const nlohmann::ordered_json json = ParseBounded(text);
  if (json.is_discarded()) {
    Fail(fmt::format("from_json: not valid JSON of at most {} levels", kValueDepthMost));
  }
  return FromJson(json);
}

}  // namespace twin::text::jinja
