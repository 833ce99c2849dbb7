// A double-ended queue that keeps its memory: it allocates only while growing beyond its previous
// largest size.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/check.h"

namespace twin {

// Indexable from the front; element 0 is the front.
template <class T>
class RingQueue {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // REQUIRES for the accessors: the element exists.
  [[nodiscard]] const T& operator[](std::size_t i) const { return slots_[Position(i)]; }
  [[nodiscard]] T& operator[](std::size_t i) { return slots_[Position(i)]; }
  [[nodiscard]] const T& front() const { return (*this)[0]; }
  [[nodiscard]] const T& back() const { return (*this)[size_ - 1]; }

  void PushBack(T value) {
    if (size_ == slots_.size()) Grow();
    ++size_;
    slots_[Position(size_ - 1)] = std::move(value);
  }

  void PushFront(T value) {
    if (size_ == slots_.size()) Grow();
    head_ = (head_ + slots_.size() - 1) & (slots_.size() - 1);
    ++size_;
    slots_[head_] = std::move(value);
  }

  T PopFront() {
    CHECK(size_ > 0);
    T value = std::move(slots_[head_]);
    head_ = (head_ + 1) & (slots_.size() - 1);
    --size_;
    return value;
  }

  T PopBack() {
    CHECK(size_ > 0);
    --size_;
    return std::move(slots_[Position(size_)]);
  }

  // Removes element i and keeps the order of the rest. Cost: linear in the number of elements
  // before it or after it, whichever is smaller.
  void EraseAt(std::size_t i) {
    CHECK(i < size_);
    if (i < size_ / 2) {
      for (; i > 0; --i) (*this)[i] = std::move((*this)[i - 1]);
      head_ = (head_ + 1) & (slots_.size() - 1);
    } else {
      for (; i + 1 < size_; ++i) (*this)[i] = std::move((*this)[i + 1]);
    }
    --size_;
  }

  // Removes the first element equal to `value`. Returns false if there is none. Cost: linear in the
  // elements before it.
  bool Erase(const T& value) {
    for (std::size_t i = 0; i < size_; ++i) {
      if ((*this)[i] == value) {
        EraseAt(i);
        return true;
      }
    }
    return false;
  }

  void Clear() { head_ = size_ = 0; }

 private:
  [[nodiscard]] std::size_t Position(std::size_t i) const {
    return (head_ + i) & (slots_.size() - 1);
  }

  void Grow() {
    std::vector<T> larger(slots_.empty() ? 16 : slots_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    slots_.swap(larger);
    head_ = 0;
  }

  std::vector<T> slots_;  // its size is zero or a power of two
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace twin
