// Python's operations on texts (UTF-8), where C++ or ICU have none of the same result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/text/template/value.h"

namespace twin::text::jinja {

// The texts of these functions are valid UTF-8.
// One view of `text` per code point.
[[nodiscard]] std::vector<std::string_view> Characters(std::string_view text);

// White space as str.isspace() has it.
[[nodiscard]] bool IsSpace(char32_t code_point);

enum class Sides { kLeft, kRight, kBoth };
// str.strip(): white space, or the characters of `drop`.
[[nodiscard]] std::string_view Strip(std::string_view text, Sides sides,
                                     std::optional<std::string_view> drop = std::nullopt);
// str.split(): at white space, or at each `separator`, at most `count` times unless negative.
[[nodiscard]] std::vector<std::string> Split(std::string_view text,
                                             std::optional<std::string_view> separator,
                                             std::int64_t count);
[[nodiscard]] std::vector<std::string> SplitLines(std::string_view text);
// str.replace(); `count` as above.
[[nodiscard]] std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                                  std::int64_t count);
[[nodiscard]] std::string Lower(std::string_view text);
[[nodiscard]] std::string Upper(std::string_view text);
// What markupsafe.escape() makes.
[[nodiscard]] std::string EscapeMarkup(std::string_view text);

// str() of a value. Fails for those that Python prints as an address.
[[nodiscard]] std::string ToText(const Value& value);
// repr(), and of a float also json.dumps().
[[nodiscard]] std::string FloatText(double value);

}  // namespace twin::text::jinja
