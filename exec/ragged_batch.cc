#include "exec/ragged_batch.h"

#include <algorithm>

#include "core/check.h"

namespace twin::exec {

void RaggedBatch::Assign(std::span<const BatchItem> items, std::int32_t block_size) {
  token_ids.clear();
  positions.clear();
  slots.clear();
  first_row.assign(1, 0);
  kv_lengths.clear();
  logit_rows.clear();
  states.clear();
  std::size_t stride = 1;
  for (const BatchItem& item : items) stride = std::max(stride, item.blocks.size());
  table_stride = static_cast<std::int64_t>(stride);
  block_tables.assign(items.size() * stride, 0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const BatchItem& item = items[i];
    std::int32_t position = item.start;
    for (const std::int32_t token : item.tokens) {
      const auto block = static_cast<std::size_t>(position / block_size);
      CHECK(block < item.blocks.size());
      const auto block_number = static_cast<std::int32_t>(Index(item.blocks[block]));
      token_ids.push_back(token);
      positions.push_back(position);
      slots.push_back(block_number * block_size + position % block_size);
      ++position;
    }
    first_row.push_back(static_cast<std::int32_t>(token_ids.size()));
    kv_lengths.push_back(position);
    for (std::size_t b = 0; b < item.blocks.size(); ++b) {
      block_tables[i * stride + b] = static_cast<std::int32_t>(Index(item.blocks[b]));
    }
  }
}

void RaggedBatch::AppendPadding(std::int64_t count) {
  const auto more = static_cast<std::size_t>(count);
  token_ids.resize(token_ids.size() + more, 0);
  positions.resize(positions.size() + more, 0);
  slots.resize(slots.size() + more, -1);
  for (std::int64_t i = 0; i < count; ++i) first_row.push_back(first_row.back() + 1);
  kv_lengths.resize(kv_lengths.size() + more, 1);
  block_tables.resize(kv_lengths.size() * static_cast<std::size_t>(table_stride), 0);
}

}  // namespace twin::exec
