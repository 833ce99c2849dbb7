// The input of one forward pass: the tokens of several sequences, one row per token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "kernels/paged_attention.h"

namespace twin::exec {

// Consecutive tokens of one sequence. The keys and values of all earlier positions are in the
// cache.
struct BatchItem {
  std::span<const std::int32_t> tokens;  // at least one
  std::int32_t start = 0;                // position of the first
  // Position p lies in blocks[p / block_size]; covers all tokens.
  std::span<const BlockId> blocks;
};

// Prefill chunks and decodes in any order: row r of every activation belongs to token r. Reused
// from step to step; allocates only while it grows.
struct RaggedBatch {
  std::vector<std::int32_t> token_ids;     // by row
  std::vector<std::int32_t> positions;     // by row
  std::vector<std::int32_t> slots;         // by row: block * block_size + place in the block; -1:
                                           // nowhere
  std::vector<std::int32_t> first_row;     // by item, and at the end the number of rows
  std::vector<std::int32_t> kv_lengths;    // by item: positions in the cache after this pass
  std::vector<std::int32_t> block_tables;  // by item, `table_stride` entries each
  std::int64_t table_stride = 0;
  std::vector<std::int32_t> logit_rows;  // rows whose logits are wanted, ascending
  // By item, for models with states (SequenceStates): those of its sequence; padding has none.
  std::vector<float*> states;

  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(token_ids.size()); }
  [[nodiscard]] std::size_t items() const { return kv_lengths.size(); }

  // Adds rows whose results nobody uses: token 0 of `count` sequences of one token, which are not
  // written to the cache.
  void AppendPadding(std::int64_t count);

  // Replaces the content by the batch of `items`; logit_rows and states stay empty. REQUIRES:
  // blocks cover the tokens.
  void Assign(std::span<const BatchItem> items, std::int32_t block_size);
};

// The batch as attention reads it; borrows the batch.
inline kernels::AttentionBatch AttentionBatchOf(const RaggedBatch& batch) {
  return {.first_query = batch.first_row,
          .kv_lengths = batch.kv_lengths,
          .block_tables = batch.block_tables,
          .table_stride = batch.table_stride};
}

}  // namespace twin::exec
