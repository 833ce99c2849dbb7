#include "run/judge/message_pipe.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>

namespace twin::run {
namespace {

// As much as a pipe holds: a short message comes with one call.
constexpr std::size_t kReadBytes = 1 << 16;

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Waits until the descriptor can be used, up to `until`; false if it cannot.
bool Wait(int descriptor, short events, double until) {
  for (;;) {
    pollfd ready{.fd = descriptor, .events = events, .revents = 0};
    const double left = until - Now();
    if (left <= 0) return false;
    const int found = poll(&ready, 1, std::isfinite(left) ? static_cast<int>(left * 1e3) + 1 : -1);
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

}  // namespace

bool MessagePipe::Send(std::span<const std::byte> message, double seconds) {
  timed_out_ = false;
  const auto length = static_cast<std::uint32_t>(message.size());
  outgoing_.resize(sizeof length + message.size());
  std::memcpy(outgoing_.data(), &length, sizeof length);
  if (!message.empty()) {
    std::memcpy(outgoing_.data() + sizeof length, message.data(), message.size());
  }
  for (std::size_t sent = 0; sent < outgoing_.size();) {
    const ssize_t wrote = write(out_, outgoing_.data() + sent, outgoing_.size() - sent);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) {
      timed_out_ = !Wait(out_, POLLOUT, Now() + seconds);
      if (timed_out_) return false;
      continue;
    }
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

bool MessagePipe::HasInput() const {
  if (!unread_.empty()) return true;
  pollfd ready{.fd = in_, .events = POLLIN, .revents = 0};
  return poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN) != 0;
}

bool MessagePipe::Read(std::span<std::byte> target, double until) {
  while (!target.empty()) {
    if (unread_.empty()) {
      timed_out_ = std::isfinite(until) && !Wait(in_, POLLIN, until);
      if (timed_out_) return false;
      incoming_.resize(kReadBytes);
      const ssize_t got = read(in_, incoming_.data(), incoming_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      unread_ = std::span<const std::byte>(incoming_).first(static_cast<std::size_t>(got));
    }
    const std::size_t bytes = std::min(target.size(), unread_.size());
    std::memcpy(target.data(), unread_.data(), bytes);
    target = target.subspan(bytes);
    unread_ = unread_.subspan(bytes);
  }
  return true;
}

}  // namespace twin::run
