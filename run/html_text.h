// Escapes text for an HTML page.
#pragma once

#include <string>
#include <string_view>

namespace twin::run {

// Escapes <, >, & and ".
std::string HtmlText(std::string_view text);

}  // namespace twin::run
