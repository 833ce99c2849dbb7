// Messages of bytes over pipes between the judge and the process of a policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "core/message.h"

namespace twin::run {

// Two ends of pipes. Does not own the descriptors.
class MessagePipe {
 public:
  // Messages are limited, so that the other side cannot fill this one's memory.
  static constexpr std::uint32_t kBytesMax = 16u << 20;

  MessagePipe(int in, int out) : in_(in), out_(out) {}

  // False if nobody reads any more, or, on a descriptor that does not block, if nobody has read
  // for `seconds` (see timed_out()).
  bool Send(std::span<const std::byte> message,
            double seconds = std::numeric_limits<double>::infinity());
  // The next message, valid until the next call; nullopt at the end of the stream, or after
  // `seconds` without a whole message (see timed_out()). Throws BadMessage.
  std::optional<std::span<const std::byte>> Receive(double seconds);
  [[nodiscard]] bool timed_out() const { return timed_out_; }
  // Whether bytes are there that nobody has received.
  [[nodiscard]] bool HasInput() const;

 private:
  bool Read(std::span<std::byte> target, double until);

  int in_;
  int out_;
  bool timed_out_ = false;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  std::span<const std::byte> unread_;  // of incoming_
  std::vector<std::byte> message_;
};

}  // namespace twin::run
