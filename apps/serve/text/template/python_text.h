// Python's operations on texts (UTF-8) for which C++ and ICU have no equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twin::text::jinja {

// All functions here need valid UTF-8.

// One view of `text` per code point.
[[nodiscard]] std::vector<std::string_view> Characters(std::string_view text);

// str.isspace() of one code point.
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
// markupsafe.escape().
[[nodiscard]] std::string EscapeMarkup(std::string_view text);

}  // namespace twin::text::jinja
