// Messages of plain values between processes that run the same program on one kind of machine:
// values keep their memory layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace twin {

// A message ends early, has bytes left, or has a value that its kind does not allow.
class BadMessage : public std::runtime_error {
 public:
  BadMessage() : std::runtime_error("a message between processes is not valid") {}
};

// The number of values in a list, which goes before them.
using MessageCount = std::uint64_t;

class MessageWriter {
 public:
  template <class T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    Append(std::as_bytes(std::span(&value, 1)));
  }
  template <class List>
  void PutList(const List& list) {
    const std::span values(list);
    static_assert(std::is_trivially_copyable_v<typename decltype(values)::value_type>);
    Put(static_cast<MessageCount>(values.size()));
    Append(std::as_bytes(values));
  }
  void PutText(std::string_view text) { PutList(text); }
  void Append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  void Clear() { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads values in the order and with the types in which they were written. Every function throws
// BadMessage where the message ends early. Borrows the bytes.
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
  // Replaces the list's content, keeps its memory.
  template <class T>
  void GetList(std::vector<T>& list) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto count = Get<MessageCount>();
    if (count > rest_.size() / sizeof(T)) throw BadMessage();
    list.resize(static_cast<std::size_t>(count));
    if (count == 0) return;
    const std::span<const std::byte> bytes = Take(list.size() * sizeof(T));
    std::memcpy(list.data(), bytes.data(), bytes.size());
  }
  std::string GetText() {
    std::vector<char> text;
    GetList(text);
    return {text.begin(), text.end()};
  }
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

}  // namespace twin
