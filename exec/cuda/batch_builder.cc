#include "exec/cuda/batch_builder.h"

#include "core/check.h"

namespace twin::exec::cuda {

// Positions in the arrays at which the next sequence is written.
struct BatchBuilder::Cursor {
  std::int64_t row = 0;
  std::int64_t sequence = 0;
  std::int64_t page = 0;
};

void BatchBuilder::Arrange(const StepPlan& plan, const OpenRequests& requests,
                           const BatchOptions& options) {
  CHECK(options.bucket == 0 || !options.logits_of_all_rows);
  options_ = options;
  order_.clear();
  for (const bool single : {true, false}) {
    for (std::size_t i = 0; i < plan.work.size(); ++i) {
      if ((plan.work[i].tokens == 1) == single) order_.push_back(static_cast<std::int32_t>(i));
    }
    if (single) singles_ = static_cast<std::int64_t>(order_.size());
  }
  const auto items = static_cast<std::int64_t>(order_.size());
  padding_ = options.bucket > 0 ? options.bucket - items : plan.totals.padding_tokens;
  CHECK(padding_ >= 0);
  decodes_ = singles_ + padding_;
  pages_ = 0;
  logits_.clear();
  logit_rows_.clear();
  std::int32_t row = 0;
  for (std::int64_t i = 0; i < items; ++i) {
    if (i == singles_) row += static_cast<std::int32_t>(padding_);
    const std::int32_t index = order_[static_cast<std::size_t>(i)];
    const WorkItem& item = plan.work[static_cast<std::size_t>(index)];
    const OpenRequest& request = requests[item.request];
    const std::int32_t end = item.start + item.tokens;
    const std::int32_t pages = (end + options.block_size - 1) / options.block_size;
    CHECK(!options.reads_tokens || static_cast<std::size_t>(end) <= request.tokens.size());
    CHECK(static_cast<std::size_t>(pages) <= request.blocks.size());
    pages_ += pages;
    const std::int32_t first = options.logits_of_all_rows ? 0 : item.tokens - 1;
    for (std::int32_t j = first; j < item.tokens; ++j) {
      const bool last = j == item.tokens - 1;
      if (!options.logits_of_all_rows && !item.emits && options.bucket == 0) continue;
      logits_.push_back({index, item.start + j, last && item.emits});
      logit_rows_.push_back(row + j);
    }
    row += item.tokens;
  }
  if (singles_ == items) row += static_cast<std::int32_t>(padding_);
  shape_ = {.rows = row,
            .sequences = items + padding_,
            .logit_rows =
                options.bucket > 0 ? options.bucket : static_cast<std::int64_t>(logits_.size())};
}

void BatchBuilder::Write(const StepPlan& plan, const OpenRequests& requests,
                         const StepArrays& to) const {
  Cursor at;
  to.first_query[0] = 0;
  to.page_begin[0] = 0;
  const auto items = static_cast<std::int64_t>(order_.size());
  for (std::int64_t i = 0; i < items; ++i) {
    if (i == singles_) WritePadding(to, at);
    const WorkItem& item = plan.work[static_cast<std::size_t>(order_[static_cast<std::size_t>(i)])];
    WriteItem(item, requests[item.request], to, at);
  }
  if (singles_ == items) WritePadding(to, at);
  CHECK(at.row == shape_.rows && at.sequence == shape_.sequences && at.page == pages_);
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    const LogitSource& source = logits_[i];
    const WorkItem& item = plan.work[static_cast<std::size_t>(source.item)];
    to.logit_rows[i] = logit_rows_[i];
    to.sampling[i] = requests[item.request].sampling;
    to.sampling[i].position = static_cast<std::uint64_t>(source.position) + 1;
  }
  for (auto i = static_cast<std::int64_t>(logits_.size()); i < shape_.logit_rows; ++i) {
    to.logit_rows[i] = static_cast<std::int32_t>(i);
    to.sampling[i] = {};
  }
}

kernels::cuda::AttentionWork BatchBuilder::attention(const StepMemory& memory, bool graph) const {
  return {.sequences = shape_.sequences,
          .decodes = decodes_,
          .rows = shape_.rows,
          .host = memory.host.attention(),
          .device = memory.device.attention(),
          .host_plan = memory.host.plan,
          .device_plan = memory.device.plan,
          .graph = graph};
}

void BatchBuilder::WriteItem(const WorkItem& item, const OpenRequest& request, const StepArrays& to,
                             Cursor& at) const {
  const std::int32_t end = item.start + item.tokens;
  for (std::int32_t position = item.start; position < end; ++position) {
    const BlockId block = request.blocks[static_cast<std::size_t>(position / options_.block_size)];
    to.token_ids[at.row] =
        options_.reads_tokens ? request.tokens[static_cast<std::size_t>(position)] : 0;
    to.positions[at.row] = position;
    to.slots[at.row] = static_cast<std::int32_t>(Index(block)) * options_.block_size +
                       position % options_.block_size;
    ++at.row;
  }
  const std::int32_t pages = (end + options_.block_size - 1) / options_.block_size;
  for (std::int32_t i = 0; i < pages; ++i) {
    to.page_indices[at.page++] =
        static_cast<std::int32_t>(Index(request.blocks[static_cast<std::size_t>(i)]));
  }
  to.kv_lengths[at.sequence] = end;
  to.last_page_tokens[at.sequence] = end - (pages - 1) * options_.block_size;
  ++at.sequence;
  to.first_query[at.sequence] = static_cast<std::int32_t>(at.row);
  to.page_begin[at.sequence] = static_cast<std::int32_t>(at.page);
}

void BatchBuilder::WritePadding(const StepArrays& to, Cursor& at) const {
  for (std::int64_t i = 0; i < padding_; ++i) {
    to.token_ids[at.row] = 0;
    to.positions[at.row] = 0;
    to.slots[at.row] = -1;
    ++at.row;
    to.kv_lengths[at.sequence] = 0;
    to.last_page_tokens[at.sequence] = 1;
    ++at.sequence;
    to.first_query[at.sequence] = static_cast<std::int32_t>(at.row);
    to.page_begin[at.sequence] = static_cast<std::int32_t>(at.page);
  }
}

}  // namespace twin::exec::cuda
