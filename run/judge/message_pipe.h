// Messages of bytes over pipes between the judge and the process of a policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace twin::run {

// The other side has sent bytes that are no message.
class BadMessage : public std::runtime_error {
 public:
  BadMessage() : std::runtime_error("the policy's process sent no valid message") {}
};

// Appends values to a message. Both sides run on one machine: values keep their memory layout.
class MessageWriter {
 public:
  template <class T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  template <class T>
  void PutList(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    Put(static_cast<std::uint32_t>(values.size()));
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void PutText(std::string_view text) { PutList(std::span<const char>(text)); }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  void Clear() { bytes_.clear(); }
  void Append(const MessageWriter& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
  }

 private:
  std::vector<std::byte> bytes_;
};

// Reads the values of a message in order. Every function throws BadMessage where it ends early.
// Borrows the bytes.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, Take(sizeof value).data(), sizeof value);
    return value;
  }
  template <class T>
  void GetList(std::vector<T>& values) {
    const std::size_t count = Get<std::uint32_t>();
    if (count > rest_.size() / sizeof(T)) throw BadMessage();
    values.resize(count);
    if (count == 0) return;
    std::memcpy(values.data(), Take(count * sizeof(T)).data(), count * sizeof(T));
  }
  std::string GetText();
  // Throws BadMessage if anything is left.
  void End() const {
    if (!rest_.empty()) throw BadMessage();
  }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::span<const std::byte> Take(std::size_t size) {
    if (size > rest_.size()) throw BadMessage();
    const std::span<const std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  std::span<const std::byte> rest_;
};

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
