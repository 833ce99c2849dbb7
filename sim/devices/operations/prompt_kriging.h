// Predicts calls of other numbers of heads from measured prompt calls: kriging (kriging.h) of the
// logarithm of measured over closed form.
//
// Calls are near that resemble each other in the logarithms of the prompts' length, their number,
// the rows of a KV head, the bytes of keys and of queries, the KV heads and the thread blocks; in
// how much of their last wave of blocks is empty; and in whether a tile of rows holds whole tokens
// (the query heads of a KV head divide it) or parts of them. Calls of all lengths and batch sizes
// count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/devices/operations/attention_kernel.h"
#include "sim/devices/operations/attention_table.h"

namespace twin::sim {

// Prompts of equal length without a context.
struct PromptCall {
  std::int32_t query_heads = 0;  // a multiple of kv_heads
  std::int32_t kv_heads = 0;
  double requests = 0;
  double tokens = 0;  // of each
};

class PromptKriging {
 public:
  // `kernel`: of the closed form; its tiles and the device's multiprocessors say which calls are
  // alike.
  explicit PromptKriging(const ContextKernel& kernel) : kernel_(kernel) {}

  void Add(const PromptCall& call, double log_ratio);
  [[nodiscard]] bool empty() const { return points_.empty(); }

  // The standard deviation is in units of that at a usual distance from measured heads. REQUIRES:
  // !empty().
  [[nodiscard]] LogRatio operator()(const PromptCall& call) const;

 private:
  static constexpr std::size_t kCoordinates = 9;
  using Place = std::array<double, kCoordinates>;  // in ranges of the covariance

  struct Point {
    Place place{};
    double log_ratio = 0;
  };

  [[nodiscard]] Place PlaceOf(const PromptCall& call) const;

  ContextKernel kernel_;
  std::vector<Point> points_;
};

}  // namespace twin::sim
