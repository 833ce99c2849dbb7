// A function of a number of tokens that remembers its values.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/devices/operations/estimate.h"

namespace twin::sim {

// Thread-safe without locks: a value that several threads compute at the same time is the same for
// all of them. Memory: 8 bytes for each number of tokens below `size`.
class TokenTable {
 public:
  explicit TokenTable(std::size_t size) : values_(size) {
    for (std::atomic<double>& value : values_) value.store(kUnknown, std::memory_order_relaxed);
  }

  // `compute(tokens)`, which is asked at most once for each number below `size` and thread, and
  // must give the same finite value whenever it is asked.
  template <class Compute>
  double At(std::int64_t tokens, const Compute& compute) const {
    const auto index = static_cast<std::size_t>(tokens);
    if (index >= values_.size()) return compute(tokens);
    double value = values_[index].load(std::memory_order_relaxed);
    if (std::isnan(value)) [[unlikely]] {
      value = compute(tokens);
      values_[index].store(value, std::memory_order_relaxed);
    }
    return value;
  }

  // Remembers a value that was computed along with another one.
  void Store(std::int64_t tokens, double value) const {
    const auto index = static_cast<std::size_t>(tokens);
    if (index < values_.size()) values_[index].store(value, std::memory_order_relaxed);
  }

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  mutable std::vector<std::atomic<double>> values_;
};

// A TokenTable of estimates. Memory: 24 bytes for each number of tokens.
class EstimateTable {
 public:
  explicit EstimateTable(std::size_t size) : seconds_(size), log_sds_(size), lasting_sds_(size) {}

  // `compute(tokens)` gives an Estimate.
  template <class Compute>
  double Seconds(std::int64_t tokens, const Compute& compute) const {
    return seconds_.At(tokens, [&](std::int64_t n) {
      const Estimate estimate = compute(n);
      log_sds_.Store(n, estimate.log_sd);
      lasting_sds_.Store(n, estimate.lasting_sd);
      return estimate.seconds;
    });
  }

  template <class Compute>
  Estimate At(std::int64_t tokens, const Compute& compute) const {
    return {Seconds(tokens, compute),
            log_sds_.At(tokens, [&](std::int64_t n) { return compute(n).log_sd; }),
            lasting_sds_.At(tokens, [&](std::int64_t n) { return compute(n).lasting_sd; })};
  }

 private:
  TokenTable seconds_;
  TokenTable log_sds_;
  TokenTable lasting_sds_;
};

}  // namespace twin::sim
