// A function of a number of tokens that remembers its values.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

#include "sim/devices/operations/estimate.h"

namespace twin::sim {

// Thread-safe without locks: a value that several threads compute at the same time is the same for
// all of them. Memory: 8 bytes for each number of tokens below `size`, in pages that are first
// touched when a value in them is.
class TokenTable {
 public:
  // Throws std::bad_alloc.
  explicit TokenTable(std::size_t size)
      : values_(static_cast<std::uint64_t*>(std::calloc(size, sizeof(std::uint64_t)))),
        size_(size) {
    if (values_ == nullptr && size > 0) throw std::bad_alloc();
  }

  // `compute(tokens)`, which is asked at most once for each number below `size` and thread, and
  // must give the same finite value whenever it is asked.
  template <class Compute>
  double At(std::int64_t tokens, const Compute& compute) const {
    const auto index = static_cast<std::size_t>(tokens);
    if (index >= size_) return compute(tokens);
    const std::uint64_t known = Entry(index).load(std::memory_order_relaxed);
    if (known != 0) [[likely]]
      return std::bit_cast<double>(known ^ kMask);
    const double value = compute(tokens);
    Store(tokens, value);
    return value;
  }

  // Remembers a value that was computed along with another one.
  void Store(std::int64_t tokens, double value) const {
    const auto index = static_cast<std::size_t>(tokens);
    if (index >= size_) return;
    Entry(index).store(std::bit_cast<std::uint64_t>(value) ^ kMask, std::memory_order_relaxed);
  }

 private:
  // With the bits of no finite value taken out, 0 stands for a value that is not known.
  static constexpr std::uint64_t kMask =
      std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN());

  struct Free {
    void operator()(std::uint64_t* values) const { std::free(values); }
  };

  [[nodiscard]] std::atomic_ref<std::uint64_t> Entry(std::size_t index) const {
    return std::atomic_ref(values_[index]);
  }

  std::unique_ptr<std::uint64_t[], Free> values_;
  std::size_t size_;
};

// A TokenTable of estimates, whose parts lie beside each other. Memory: 24 bytes for each number of
// tokens.
class EstimateTable {
 public:
  explicit EstimateTable(std::size_t size) : parts_(size * kParts) {}

  // `compute(tokens)` gives a TimeEstimate.
  template <class Compute>
  double Seconds(std::int64_t tokens, const Compute& compute) const {
    const std::int64_t place = kParts * tokens;
    return parts_.At(place, [&](std::int64_t /*place*/) {
      const TimeEstimate estimate = compute(tokens);
      parts_.Store(place + 1, estimate.log_sd);
      parts_.Store(place + 2, estimate.lasting_sd);
      return estimate.seconds;
    });
  }

  template <class Compute>
  TimeEstimate At(std::int64_t tokens, const Compute& compute) const {
    const std::int64_t place = kParts * tokens;
    return {
        Seconds(tokens, compute),
        parts_.At(place + 1, [&](std::int64_t /*place*/) { return compute(tokens).log_sd; }),
        parts_.At(place + 2, [&](std::int64_t /*place*/) { return compute(tokens).lasting_sd; })};
  }

 private:
  static constexpr int kParts = 3;

  TokenTable parts_;
};

}  // namespace twin::sim
