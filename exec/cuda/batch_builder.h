// A plan's work as arrays for a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cuda/step_arena.h"
#include "exec/open_requests.h"
#include "kernels/cuda/attention.h"
#include "sched/step_plan.h"

namespace twin::exec::cuda {

// A row of logits, and whose it is.
struct LogitSource {
  std::int32_t item = 0;      // of the plan's work
  std::int32_t position = 0;  // the last one that the logits know
  bool emits = false;
};

struct BatchOptions {
  std::int32_t block_size = 16;
  bool logits_of_all_rows = false;
  // ComputedRows::bucket of the plan.
  std::int64_t bucket = 0;
  bool reads_tokens = true;  // otherwise every token id is 0: of a stage behind the first
};

// Items of one token come first, then the padding, then the others, each in the order of the plan;
// padding is sequences of one row without a cache.
class BatchBuilder {
 public:
  // Decides on the order. REQUIRES: where tokens are read, the requests have all of the work's, by
  // their number or as carried ones.
  void Arrange(const StepPlan& plan, const OpenRequests& requests, const BatchOptions& options);

  [[nodiscard]] const StepShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t pages() const { return pages_; }
  // By row of logits; those of padding are not in it.
  [[nodiscard]] std::span<const LogitSource> logits() const { return logits_; }

  // Writes all arrays but first_sampled, the page numbers behind the last of pages() excepted.
  void Write(const StepPlan& plan, const OpenRequests& requests, const StepArrays& to) const;
  // The same work as attention sees it; host and device arrays are the caller's to add.
  [[nodiscard]] kernels::cuda::AttentionWork attention() const {
    kernels::cuda::AttentionWork work;
    work.sequences = shape_.sequences;
    work.decodes = decodes_;
    work.rows = shape_.rows;
    return work;
  }

 private:
  struct Cursor;

  void WriteItem(const WorkItem& item, const OpenRequest& request, const StepArrays& to,
                 Cursor& at) const;
  void WritePadding(const StepArrays& to, Cursor& at) const;

  std::vector<std::int32_t> order_;  // items of the plan, single tokens first
  std::int64_t singles_ = 0;         // of them
  std::int64_t padding_ = 0;
  std::int64_t decodes_ = 0;  // sequences of one row, padding included
  std::int64_t pages_ = 0;
  BatchOptions options_;
  StepShape shape_;
  std::vector<LogitSource> logits_;
  std::vector<std::int32_t> logit_rows_;
};

}  // namespace twin::exec::cuda
