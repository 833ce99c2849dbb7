// An HTTP request as read from a connection, and the answer to it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace twin::serve {

struct HttpField {
  std::string name;  // of requests: in lower case
  std::string value;
};

struct HttpRequest {
  using Time = std::chrono::steady_clock::time_point;

  std::string method;  // in upper case
  std::string path;    // without the query; of an absolute target, its path
  std::string query;   // without "?"
  std::vector<HttpField> fields;
  std::string body;
  bool http_1_0 = false;
  bool keep_alive = true;  // as the client asks
  Time begun;              // its first byte was read
  Time header_read;
  Time body_read;

  // The value of the first field of that name (lower case), or "".
  [[nodiscard]] std::string_view Field(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";  // empty: no such field
  std::string body;
  std::vector<HttpField> fields;  // besides Content-Type, Content-Length and Connection
  bool close = false;             // end the connection after it
};

// The reason phrase of a status, "Not Found"; of unknown ones "Unknown".
std::string_view StatusText(int status);

// How the end of a body is told.
enum class BodyFraming { kLength, kChunks, kClose };

// The status line and the fields up to the empty line. `keep_alive`: what Connection tells.
std::string HeaderText(const HttpResponse& response, BodyFraming framing, bool keep_alive);

// An error of the HTTP layer in OpenAI's form. REQUIRES: status >= 400.
HttpResponse ErrorResponse(int status, std::string_view message);

}  // namespace twin::serve
