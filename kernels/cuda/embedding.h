// Lookups and copies of rows on a device. CPU twin: kernels/elementwise.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// Which rows of an embedding, and where token ids come from that no host has seen yet.
struct EmbeddingLookup {
  const std::int32_t* token_ids = nullptr;  // [tokens]; negative: carried[-1 - id] is the token
  const std::int32_t* carried = nullptr;
  std::int64_t first_token = 0;  // the table's row 0; tokens not in the table give zeros
  float scale = 1;
};

// y[t] = scale * table[token - first_token]. Shapes: table [tokens of the table, hidden],
// y [tokens, hidden], of one format, bf16 or fp16. Exact where scale is 1, else rounded once.
void EmbedTokens(StreamView stream, DeviceMatrix table, const EmbeddingLookup& lookup,
                 DeviceMatrix y);

// y[t] += table[positions[t] + offset]; table fp32 or y's format. Sum in fp32, rounded once.
void AddPositionRows(StreamView stream, DeviceMatrix table, const std::int32_t* positions,
                     std::int32_t offset, DeviceMatrix y);

// y[i] = x[rows[i]], any format, equal ones. Aliasing: none.
void GatherRows(StreamView stream, DeviceMatrix x, const std::int32_t* rows, DeviceMatrix y);

}  // namespace twin::kernels::cuda
