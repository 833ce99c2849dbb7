#include "apps/serve/text/template/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/failure.h"
#include "apps/serve/text/template/python_text.h"
#include "apps/serve/text/utf8.h"

namespace twin::text::jinja {
namespace {

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

// Writes one value, and its parts by recursion, which kValueDepthMost bounds.
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

  // Keys that are no texts are written as their JSON in quotes.
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

std::string ToJson(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.Write(value, 0);
  return writer.Take();
}

Value FromJson(const nlohmann::ordered_json& json) { return FromJsonAt(json, 1); }

// The parser takes any depth, and what is done with the result does not. Its own callback would
// look through all values of a list before each one that ends.
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
