// Values as texts: Python's str() and repr(), and JSON in both directions.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/serve/text/template/value.h"

namespace twin::text::jinja {

// str() of a value. Fails for values that Python prints as an address.
[[nodiscard]] std::string ToText(const Value& value);

// Python's json.dumps().
struct JsonStyle {
  bool ascii_only = false;
  bool sorted_keys = false;
  std::optional<std::string> indent = std::nullopt;  // one level; lines are broken
  std::optional<std::string> item_separator = std::nullopt;
  std::string key_separator = ": ";
};
std::string ToJson(const Value& value, const JsonStyle& style);

// Fails for JSON that nests deeper than kValueDepthMost and for integers beyond 64 bits with sign.
Value FromJson(const nlohmann::ordered_json& json);
// Python's json.loads().
Value ParseJson(const std::string& text);
// Discarded (is_discarded()) if `text` is no JSON or nests deeper than kValueDepthMost.
nlohmann::ordered_json ParseBounded(const std::string& text);

}  // namespace twin::text::jinja
