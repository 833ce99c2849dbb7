// Converts the work of a step plan into the arrays that device kernels read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cuda/step_arena.h"
#include "exec/open_requests.h"
#include "kernels/cuda/attention.h"
#include "sched/step_plan.h"

namespace twin::exec::cuda {

// The work item and position that a row of logits belongs to.
struct LogitSource {
  std::int32_t item = 0;      // index into the plan's work
  std::int32_t position = 0;  // the last position that the logits depend on
  bool emits = false;
};

struct BatchOptions {
  std::int32_t block_size = 16;
  bool logits_of_all_rows = false;
  // ComputedRows::bucket of the plan.
  std::int64_t bucket = 0;
  bool reads_tokens = true;  // false for stages after the first: all token ids are 0
};

// Orders a batch: first the items of one token, then the padding, then the other items, each in
// plan order. Padding consists of sequences with one row and no pages.
class BatchBuilder {
 public:
  // Determines the order and the sizes of the batch. REQUIRES: if tokens are read, the requests
  // contain all tokens of the work, as token ids or as carried tokens.
  void Arrange(const StepPlan& plan, const OpenRequests& requests, const BatchOptions& options);

  [[nodiscard]] const StepShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t pages() const { return pages_; }
  // One entry per row of logits, without the rows of padding.
  [[nodiscard]] std::span<const LogitSource> logits() const { return logits_; }

  // Writes all arrays except first_sampled. Writes pages() entries of page_indices.
  void Write(const StepPlan& plan, const OpenRequests& requests, const StepArrays& to) const;
  // The batch as input of PagedAttention, with its arrays and its plan in `memory`.
  [[nodiscard]] kernels::cuda::AttentionWork attention(const StepMemory& memory = {},
                                                       bool graph = false) const;

 private:
  struct Cursor;

  void WriteItem(const WorkItem& item, const OpenRequest& request, const StepArrays& to,
                 Cursor& at) const;
  void WritePadding(const StepArrays& to, Cursor& at) const;

  std::vector<std::int32_t> order_;  // items of the plan, single tokens first
  std::int64_t singles_ = 0;         // number of items of one token
  std::int64_t padding_ = 0;
  std::int64_t decodes_ = 0;  // sequences of one row, padding included
  std::int64_t pages_ = 0;
  BatchOptions options_;
  StepShape shape_;
  std::vector<LogitSource> logits_;
  std::vector<std::int32_t> logit_rows_;
};

}  // namespace twin::exec::cuda
