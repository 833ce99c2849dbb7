#include "apps/serve/page/live_page.h"

#include "core/check.h"

namespace twin::serve {
namespace {

std::string_view PageContent(std::string_view name) {
  for (const EmbeddedFile& file : PageFiles()) {
    if (file.name == name) return file.bytes;
  }
  CHECK(false);
  return {};
}

}  // namespace

HttpResponse PageFile(std::string_view path) {
  HttpResponse response;
  if (path == "/") {
    response.content_type = "text/html; charset=utf-8";
    response.body = PageContent("live.html");
  } else if (path == "/live.js") {
    response.content_type = "text/javascript; charset=utf-8";
    response.body = PageContent("live.js");
  } else {
    CHECK(path == "/live.css");
    response.content_type = "text/css; charset=utf-8";
    response.body = PageContent("live.css");
  }
  response.fields.push_back(
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
       "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"});
  response.fields.push_back({"Referrer-Policy", "no-referrer"});
  response.fields.push_back({"Cache-Control", "no-cache"});
  return response;
}

}  // namespace twin::serve
