// The files of the live page, as they are compiled into the program.
#pragma once

#include <span>
#include <string_view>

#include "apps/serve/http/http_message.h"
#include "core/files/embedded_file.h"

namespace twin::serve {

// The response to GET of "/", "/live.js" or "/live.css". The page loads nothing from elsewhere, and
// its Content-Security-Policy lets it load nothing from elsewhere. REQUIRES: one of those paths.
HttpResponse PageFile(std::string_view path);

// live.css, live.html and live.js.
std::span<const EmbeddedFile> PageFiles();

}  // namespace twin::serve
