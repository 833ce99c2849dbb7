#include "apps/serve/http/http_message.h"

#include <fmt/format.h>

#include "apps/serve/json_text.h"

namespace twin::serve {

std::string_view HttpRequest::Field(std::string_view name) const {
  for (const HttpField& field : fields) {
    if (field.name == name) return field.value;
  }
  return {};
}

std::string_view StatusText(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Entity";
    case 424:
      return "Failed Dependency";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

std::string HeaderText(const HttpResponse& response, BodyFraming framing, bool keep_alive) {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, StatusText(response.status));
  const auto add = [&text](std::string_view name, std::string_view value) {
    text += name;
    text += ": ";
    // A line feed in a value would begin a field of someone else's choice.
    for (const char c : value) text += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    text += "\r\n";
  };
  if (!response.content_type.empty()) add("Content-Type", response.content_type);
  for (const HttpField& field : response.fields) add(field.name, field.value);
  if (framing == BodyFraming::kLength) add("Content-Length", fmt::to_string(response.body.size()));
  if (framing == BodyFraming::kChunks) add("Transfer-Encoding", "chunked");
  add("X-Content-Type-Options", "nosniff");
  add("Connection", keep_alive ? "keep-alive" : "close");
  text += "\r\n";
  return text;
}

HttpResponse ErrorResponse(int status, std::string_view message) {
  HttpResponse response;
  response.status = status;
  response.body = fmt::format(R"({{"error":{{"message":{},"type":{},"param":null,"code":{}}}}})",
                              JsonString(message), JsonString(StatusText(status)), status);
  return response;
}

}  // namespace twin::serve
