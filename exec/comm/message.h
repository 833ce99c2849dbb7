// Messages of plain values between ranks that run the same program on the same kind of machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "core/check.h"
#include "exec/comm/communicator.h"

namespace twin::exec {

class MessageWriter {
 public:
  template <class T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    Append(&value, sizeof(T));
  }
  template <class List>
  void PutList(const List& list) {
    const std::span values(list);
    static_assert(std::is_trivially_copyable_v<typename decltype(values)::value_type>);
    Put(static_cast<std::uint64_t>(values.size()));
    Append(values.data(), values.size_bytes());
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

 private:
  void Append(const void* data, std::size_t size) {
    const auto* const begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }

  std::vector<std::byte> bytes_;
};

// Reads values in the order and with the types in which they were written. Borrows the bytes.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T Take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, Next(sizeof(T)), sizeof(T));
    return value;
  }
  // Replaces the list's content, keeps its memory.
  template <class T>
  void TakeList(std::vector<T>& list) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto count = static_cast<std::size_t>(Take<std::uint64_t>());
    CHECK(count <= bytes_.size() / sizeof(T));
    list.resize(count);
    if (count > 0) std::memcpy(list.data(), Next(count * sizeof(T)), count * sizeof(T));
  }
  [[nodiscard]] bool done() const { return bytes_.empty(); }

 private:
  const std::byte* Next(std::size_t size) {
    CHECK(size <= bytes_.size());
    const std::byte* const next = bytes_.data();
    bytes_ = bytes_.subspan(size);
    return next;
  }

  std::span<const std::byte> bytes_;
};

// Sends a message whose size the receiver does not know.
inline void SendSized(Communicator& group, std::span<const std::byte> bytes, std::int32_t to) {
  const std::uint64_t size = bytes.size();
  group.Send(std::as_bytes(std::span(&size, 1)), to);
  if (size > 0) group.Send(bytes, to);
}

// Replaces `bytes` by the message. `patience` is for its beginning.
inline void ReceiveSized(Communicator& group, std::int32_t from, Patience patience,
                         std::vector<std::byte>& bytes) {
  std::uint64_t size = 0;
  group.Receive(std::as_writable_bytes(std::span(&size, 1)), from, patience);
  bytes.resize(static_cast<std::size_t>(size));
  if (size > 0) group.Receive(bytes, from, Patience::kBounded);
}

}  // namespace twin::exec
