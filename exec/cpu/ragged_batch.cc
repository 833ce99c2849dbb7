#include "exec/cpu/ragged_batch.h"

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

}  // namespace twin::exec
