// Reads HTTP/1.x requests from the bytes of one connection, as they come.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "apps/serve/http/http_limits.h"
#include "apps/serve/http/http_message.h"

namespace twin::serve {

// Why a request was refused. Later bytes on the connection cannot be trusted to be a request.
struct HttpFailure {
  int status = 400;
  std::string message;
};

// Boost.Beast parses. Checks before and after it refuse messages that Beast 1.74 accepts and RFC
// 9112 forbids: folded lines, any number of fields, Transfer-Encoding of other kinds, lists of
// lengths, missing and repeated Host. A proxy in front that reads such a message differently would
// otherwise let one client's body become another one's request.
//
// Reads no clock and no socket; the same bytes give the same requests, however they are split.
class RequestReader {
 public:
  enum class State { kIdle, kHeader, kBody, kComplete, kFailed };

  // `limits` must outlive the reader.
  explicit RequestReader(const HttpLimits& limits) : limits_(limits) {}

  void Append(std::string_view bytes) { buffer_ += bytes; }
  // Reads as far as the appended bytes go: up to the end of one request, or to a failure.
  State Advance();
  [[nodiscard]] State state() const { return state_; }

  // True, once per request, if the client waits for "100 Continue" before it sends its body.
  bool TakeContinue();
  // The complete request; later bytes stay for the next one. REQUIRES: kComplete. The caller sets
  // the times.
  HttpRequest Take();
  // REQUIRES: kFailed.
  [[nodiscard]] const HttpFailure& failure() const { return failure_; }
  // Bytes that belong to no request yet.
  [[nodiscard]] std::size_t buffered() const { return buffer_.size(); }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void ScanHeader();
  void CheckLine(std::string_view line);
  void ReadHeader(std::size_t bytes);
  void CheckFields();
  void CheckBodyFields();
  void TakeTarget(std::string_view target);
  void ReadBody();
  void Fail(int status, std::string message);

  const HttpLimits& limits_;
  std::string buffer_;
  State state_ = State::kIdle;
  std::size_t scanned_ = 0;     // bytes of the buffer that ScanHeader has seen
  std::size_t line_begin_ = 0;  // of the line being scanned
  std::size_t lines_ = 0;       // complete lines so far
  std::optional<Parser> parser_;
  HttpRequest request_;
  bool wants_continue_ = false;
  HttpFailure failure_;
};

}  // namespace twin::serve
