#include "tests/support/raw_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace twin {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

RawClient::RawClient(std::uint16_t port, int receive_buffer_bytes)
    : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_buffer_bytes > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::system_error(errno, std::generic_category(), "connect");
  }
}

RawClient::~RawClient() {
  if (socket_ >= 0) close(socket_);
}

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::ReadMore(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  if (ended_ || left.count() <= 0) return false;
  pollfd waited{socket_, POLLIN, 0};
  if (poll(&waited, 1, static_cast<int>(left.count())) <= 0) return false;
  char bytes[16384];
  const ssize_t count = recv(socket_, bytes, sizeof(bytes), 0);
  if (count <= 0) {
    ended_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<std::size_t>(count));
  return true;
}

std::string RawClient::ReadUntil(std::string_view end, std::chrono::milliseconds time) {
  const auto deadline = Clock::now() + time;
  std::size_t found = buffer_.find(end);
  while (found == std::string::npos && ReadMore(deadline)) found = buffer_.find(end);
  const std::size_t length = found == std::string::npos ? buffer_.size() : found + end.size();
  std::string read = buffer_.substr(0, length);
  buffer_.erase(0, length);
  return read;
}

std::string RawClient::ReadAll(std::chrono::milliseconds time) {
  const auto deadline = Clock::now() + time;
  while (ReadMore(deadline)) {
  }
  return std::exchange(buffer_, {});
}

std::string RawClient::ReadResponse(std::chrono::milliseconds time) {
  const auto deadline = Clock::now() + time;
  std::string response = ReadUntil("\r\n\r\n", time);
  const std::size_t field = response.find("Content-Length: ");
  if (field == std::string::npos) return response;
  std::size_t length = 0;
  std::from_chars(response.data() + field + 16, response.data() + response.size(), length);
  while (buffer_.size() < length && ReadMore(deadline)) {
  }
  response += buffer_.substr(0, length);
  buffer_.erase(0, length);
  return response;
}

void RawClient::CloseSendingSide() { shutdown(socket_, SHUT_WR); }

void RawClient::Reset() {
  const linger now{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(socket_);
  socket_ = -1;
}

int StatusOf(std::string_view response) {
  int status = 0;
  if (response.starts_with("HTTP/1.1 ")) {
    std::from_chars(response.data() + 9, response.data() + response.size(), status);
  }
  return status;
}

std::string BodyOf(std::string_view response) {
  const std::size_t end = response.find("\r\n\r\n");
  return end == std::string_view::npos ? "" : std::string(response.substr(end + 4));
}

std::string BodyOfChunks(std::string_view response) {
  const std::string chunks = BodyOf(response);
  std::string body;
  std::size_t at = 0;
  while (true) {
    std::size_t length = 0;
    const auto [end, error] =
        std::from_chars(chunks.data() + at, chunks.data() + chunks.size(), length, 16);
    const auto data = static_cast<std::size_t>(end - chunks.data()) + 2;
    if (error != std::errc() || data + length + 2 > chunks.size()) {
      throw std::runtime_error("cut in a chunk");
    }
    if (length == 0) return body;
    body += chunks.substr(data, length);
    at = data + length + 2;
  }
}

std::string PostText(std::string_view path, std::string_view body, std::string_view fields) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{}"
      "Content-Length: {}\r\n\r\n{}",
      path, fields, body.size(), body);
}

std::string GetText(std::string_view path, std::string_view fields) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, fields);
}

}  // namespace twin
