// Escapes in quoted texts of templates.
#pragma once

#include <string>
#include <string_view>

namespace twin::text::jinja {

// Decodes Python's escapes. An unknown escape stands for itself, with its backslash. On an error
// `problem` says what is wrong, and the result is meaningless.
std::string DecodeStringLiteral(std::string_view literal, std::string& problem);

}  // namespace twin::text::jinja
