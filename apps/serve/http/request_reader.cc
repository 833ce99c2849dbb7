#include "apps/serve/http/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>

#include "core/check.h"
#include "core/letter_case.h"
#include "core/printable.h"

namespace twin::serve {
namespace {

namespace http = boost::beast::http;

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

bool IsDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void RequestReader::Fail(int status, std::string message) {
  state_ = State::kFailed;
  failure_ = {status, std::move(message)};
}

RequestReader::State RequestReader::Advance() {
  if (state_ == State::kIdle) {
    // RFC 9112, 2.2: an empty line before a request is not part of it.
    while (buffer_.starts_with("\r\n")) buffer_.erase(0, 2);
    if (!buffer_.empty() && buffer_ != "\r") state_ = State::kHeader;
  }
  if (state_ == State::kHeader) ScanHeader();
  if (state_ == State::kBody) ReadBody();
  return state_;
}

// Called with each complete line of the header, without its end.
void RequestReader::CheckLine(std::string_view line) {
  if (lines_ == 0) {
    const std::size_t end = line.find(' ');
    const std::string_view method = line.substr(0, end);
    if (method.empty() || end == std::string_view::npos ||
        !std::ranges::all_of(method, [](char c) { return c >= 'A' && c <= 'Z'; })) {
      return Fail(400, "the request line must begin with a method in upper case");
    }
    const std::size_t target_end = std::min(line.find(' ', end + 1), line.size());
    if (target_end - end - 1 > limits_.target_bytes) {
      return Fail(414, fmt::format("the request target is longer than {} bytes, the limit",
                                   limits_.target_bytes));
    }
  } else if (line[0] == ' ' || line[0] == '\t') {
    return Fail(400, "folded header lines are not accepted");
  }
  if (++lines_ > limits_.fields + 1) {
    Fail(431, fmt::format("more than {} header fields, the limit", limits_.fields));
  }
}

void RequestReader::ScanHeader() {
  for (; scanned_ < buffer_.size() && state_ == State::kHeader; ++scanned_) {
    const char c = buffer_[scanned_];
    if (c == '\0') return Fail(400, "a zero byte in the header");
    if (c != '\n') {
      if (scanned_ > line_begin_ && buffer_[scanned_ - 1] == '\r') {
        return Fail(400, "a carriage return without a line feed in the header");
      }
      continue;
    }
    if (scanned_ == line_begin_ || buffer_[scanned_ - 1] != '\r') {
      return Fail(400, "a line feed without a carriage return in the header");
    }
    if (scanned_ + 1 > limits_.header_bytes) break;
    if (scanned_ == line_begin_ + 1) return ReadHeader(scanned_ + 1);
    CheckLine(std::string_view(buffer_).substr(line_begin_, scanned_ - 1 - line_begin_));
    line_begin_ = scanned_ + 1;
  }
  if (state_ != State::kHeader || scanned_ < limits_.header_bytes) return;
  const bool target = lines_ == 0;
  Fail(target ? 414 : 431, fmt::format("the {} is longer than {} bytes, the limit",
                                       target ? "request line" : "header", limits_.header_bytes));
}

void RequestReader::ReadHeader(std::size_t bytes) {
  parser_.emplace();
  // The header's length was checked. Beast counts trailers against its limit as well.
  parser_->header_limit(
      static_cast<std::uint32_t>(limits_.header_bytes + limits_.chunk_line_bytes));
  parser_->body_limit(limits_.body_bytes);
  boost::system::error_code error;
  const std::size_t used = parser_->put(boost::asio::const_buffer(buffer_.data(), bytes), error);
  if (error == http::error::body_limit) {
    return Fail(413,
                fmt::format("the body is longer than {} bytes, the limit", limits_.body_bytes));
  }
  if (error || !parser_->is_header_done() || used != bytes) {
    return Fail(400, "malformed request: " +
                         (error ? error.message() : std::string("the header is incomplete")));
  }
  buffer_.erase(0, bytes);
  const auto& message = parser_->get();
  request_ = {};
  request_.method = View(message.method_string());
  request_.http_1_0 = message.version() == 10;
  request_.keep_alive = message.keep_alive();
  for (const auto& field : message) {
    std::string name(View(field.name_string()));
    std::ranges::transform(name, name.begin(), LowerCase);
    request_.fields.push_back({std::move(name), std::string(View(field.value()))});
  }
  TakeTarget(View(message.target()));
  if (state_ == State::kHeader) CheckFields();
  if (state_ != State::kHeader) return;
  parser_->eager(true);
  state_ = parser_->is_done() ? State::kComplete : State::kBody;
}

void RequestReader::TakeTarget(std::string_view target) {
  if (!target.starts_with('/') && target != "*") {
    // RFC 9112, 3.2.2: a server accepts the absolute form too.
    const std::size_t scheme = target.find("://");
    if (scheme == std::string_view::npos) {
      return Fail(400, "the request target must begin with \"/\"");
    }
    const std::size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  const std::size_t question = target.find('?');
  request_.path = target.substr(0, question);
  if (question != std::string_view::npos) request_.query = target.substr(question + 1);
}

void RequestReader::CheckFields() {
  std::size_t hosts = 0;
  for (const HttpField& field : request_.fields) {
    if (field.name == "host") ++hosts;
    if (field.name != "expect") continue;
    if (!EqualsIgnoringCase(field.value, "100-continue")) {
      return Fail(417, fmt::format("expectation \"{}\" is not known; allowed: 100-continue",
                                   Printable(field.value)));
    }
    wants_continue_ = !request_.http_1_0;
  }
  if (hosts > 1) return Fail(400, "more than one Host field");
  if (hosts == 0 && !request_.http_1_0) return Fail(400, "HTTP/1.1 needs a Host field");
  CheckBodyFields();
}

void RequestReader::CheckBodyFields() {
  std::size_t lengths = 0;
  std::size_t encodings = 0;
  for (const HttpField& field : request_.fields) {
    if (field.name == "transfer-encoding") {
      ++encodings;
      if (!EqualsIgnoringCase(field.value, "chunked")) {
        return Fail(501, fmt::format("Transfer-Encoding \"{}\" is not known; allowed: chunked",
                                     Printable(field.value)));
      }
    } else if (field.name == "content-length") {
      ++lengths;
      if (!IsDigits(field.value) || lengths > 1) {
        return Fail(400, "Content-Length must be one decimal number");
      }
    }
  }
  if (encodings > 1) return Fail(400, "more than one Transfer-Encoding field");
  if (encodings > 0 && (lengths > 0 || request_.http_1_0)) {
    return Fail(400, "Transfer-Encoding is not allowed with Content-Length or in HTTP/1.0");
  }
  const bool has_body = encodings + lengths > 0;
  if (!has_body &&
      (request_.method == "POST" || request_.method == "PUT" || request_.method == "PATCH")) {
    return Fail(411, request_.method + " needs Content-Length or Transfer-Encoding: chunked");
  }
  if (parser_->is_done()) wants_continue_ = false;
}

void RequestReader::ReadBody() {
  // Beast 1.74 asserts five bytes where a body begins with its last chunk. No part of a chunked
  // body that it leaves in the buffer can end with fewer.
  if (parser_->chunked() && buffer_.size() < std::string_view("0\r\n\r\n").size()) return;
  boost::system::error_code error;
  const std::size_t used =
      parser_->put(boost::asio::const_buffer(buffer_.data(), buffer_.size()), error);
  buffer_.erase(0, used);
  if (error == http::error::need_more) error = {};
  if (error == http::error::body_limit) {
    return Fail(413,
                fmt::format("the body is longer than {} bytes, the limit", limits_.body_bytes));
  }
  if (error) return Fail(400, "malformed body: " + error.message());
  if (parser_->is_done()) {
    state_ = State::kComplete;
  } else if (buffer_.size() > limits_.chunk_line_bytes) {
    // Only lines between chunks stay unread: body bytes are taken as they come.
    Fail(400, fmt::format("a chunk's line or the trailers are longer than {} bytes, the limit",
                          limits_.chunk_line_bytes));
  }
}

bool RequestReader::TakeContinue() {
  const bool wanted = wants_continue_ && state_ == State::kBody;
  if (state_ != State::kHeader) wants_continue_ = false;
  return wanted && buffer_.empty() && parser_->get().body().empty();
}

HttpRequest RequestReader::Take() {
  CHECK(state_ == State::kComplete);
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  state_ = State::kIdle;
  scanned_ = line_begin_ = lines_ = 0;
  wants_continue_ = false;
  return std::move(request_);
}

}  // namespace twin::serve
