// A ragged batch over a paged cache on a device, and what attention must make of it, in double.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "kernels/cuda/attention.h"
#include "tests/support/sent_plan.h"
#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::kernels::cuda {

// New tokens and all tokens of a sequence; {1, 0}: a padding one, without pages.
struct SequenceLengths {
  std::int64_t queries = 1;
  std::int64_t context = 1;
};

struct AttentionCase {
  AttentionShape shape;
  std::int64_t layers = 2;
  std::int64_t layer = 1;
  std::int64_t blocks = 0;   // of the cache; 0: some more than are used
  bool last_blocks = false;  // the highest ids instead of scattered ones
};

class AttentionBatch {
 public:
  // Sequences with one query first. The device arrays have room for `sequences_max`.
  AttentionBatch(const AttentionCase& each, std::int64_t sequences_max, std::int64_t rows_max,
                 std::int64_t pages_max);

  // Draws a new batch: queries, keys and values, pages. Waits for the device. The rows of sequences
  // with several queries hold their keys and values if all of these begin at position 0. What else
  // lies behind the queries is NaN, and so are the rows behind the batch.
  void Draw(const std::vector<SequenceLengths>& lengths, Random& random);

  [[nodiscard]] AttentionWork Work(bool graph = false) const;
  // Plans the batch and sends the plan; within a graph's replays always to one address.
  void Plan(StreamView stream, PagedAttention& attention, bool graph = false) {
    plan_.Plan(stream, attention, Work(graph));
  }
  [[nodiscard]] DeviceMatrix Q() const { return Qkv().Columns(0, Out().columns); }
  [[nodiscard]] DeviceMatrix Qkv() const;
  [[nodiscard]] DeviceMatrix Out() const;
  [[nodiscard]] KvCacheView Cache() const;

  // Compares all rows with attention in double; rows of sequences without pages must be zero.
  // Relative to the largest value, which is 1: 1e-2.
  void ExpectAttention(std::int64_t window) const;

 private:
  void DrawPages(const std::vector<SequenceLengths>& lengths, Random& random);
  void DrawTokens(const std::vector<SequenceLengths>& lengths, Random& random);
  void SendRows();
  [[nodiscard]] std::int64_t Decodes() const;
  void SendArrays();
  // Bits of the keys (`values` = 0) or values of a position.
  [[nodiscard]] const std::uint16_t* KeyOrValue(std::size_t sequence, std::int64_t position,
                                                std::int64_t values, std::int64_t kv_head) const;
  [[nodiscard]] std::vector<double> Expected(std::size_t sequence, std::int64_t row,
                                             std::int64_t head, std::int64_t window) const;

  AttentionCase case_;
  KvCacheShape cache_shape_;
  std::int64_t row_width_ = 0;  // of queries, with keys and values behind them as in a model
  std::int64_t rows_max_ = 0;
  DeviceBuffer cache_;
  OnDevice<std::uint16_t> q_;
  OnDevice<std::uint16_t> out_;
  OnDevice<std::int32_t> arrays_;
  SentPlan plan_;
  std::int64_t sequences_max_;
  std::int64_t pages_max_;

  std::vector<SequenceLengths> lengths_;
  std::vector<std::int32_t> first_query_;
  std::vector<std::int32_t> kv_lengths_;
  std::vector<std::int32_t> page_begin_;
  std::vector<std::int32_t> page_indices_;
  std::vector<std::int32_t> last_page_tokens_;
  std::vector<std::uint16_t> q_values_;
  std::vector<std::vector<std::uint16_t>> pages_;  // [place in page_indices] of the layer
};

}  // namespace twin::kernels::cuda
