#include "run/judge/message_pipe.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <ctime>

namespace twin::run {
namespace {

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

std::string MessageReader::GetText() {
  std::vector<char> text;
  GetList(text);
  return {text.begin(), text.end()};
}

bool MessagePipe::Send(std::span<const std::byte> message) {
  const auto length = static_cast<std::uint32_t>(message.size());
  outgoing_.resize(sizeof length + message.size());
  std::memcpy(outgoing_.data(), &length, sizeof length);
  if (!message.empty()) {
    std::memcpy(outgoing_.data() + sizeof length, message.data(), message.size());
  }
  for (std::size_t sent = 0; sent < outgoing_.size();) {
    const ssize_t wrote = write(out_, outgoing_.data() + sent, outgoing_.size() - sent);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    sent += static_cast<std::size_t>(wrote);
  }
  return true;
}

std::optional<std::span<const std::byte>> MessagePipe::Receive(double seconds) {
  timed_out_ = false;
  const double until = Now() + seconds;
  std::uint32_t length = 0;
  if (!Read(std::as_writable_bytes(std::span(&length, 1)), until)) return std::nullopt;
  if (length > kBytesMax) throw BadMessage();
  message_.resize(length);
  if (!Read(message_, until)) return std::nullopt;
  return std::span<const std::byte>(message_);
}

// Waits only where nothing is there yet: most answers come before the first look.
bool MessagePipe::Read(std::span<std::byte> target, double until) {
  while (!target.empty()) {
    pollfd ready{.fd = in_, .events = POLLIN, .revents = 0};
    const double left = until - Now();
    const int found =
        left <= 0 ? 0
                  : poll(&ready, 1, std::isfinite(left) ? static_cast<int>(left * 1e3) + 1 : -1);
    if (found < 0 && errno == EINTR) continue;
    if (found == 0) timed_out_ = true;
    if (found <= 0) return false;
    const ssize_t got = read(in_, target.data(), target.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    target = target.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace twin::run
