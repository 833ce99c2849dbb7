// Embedding lookups and row gathers on a device. CPU twin: kernels/elementwise.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// Parameters of an embedding lookup. Token ids that only the device knows, because it has just
// sampled them, are read from `carried`.
struct EmbeddingLookup {
  const std::int32_t* token_ids = nullptr;  // [tokens]; if negative, the token is carried[-1 - id]
  const std::int32_t* carried = nullptr;
  std::int64_t first_token =
      0;  // token of the table's row 0; tokens outside the table give zero rows
  float scale = 1;
};

// y[t] = scale * table[token - first_token]. Shapes: table [tokens of the table, hidden],
// y [tokens, hidden], both bf16. Exact if scale is 1, otherwise rounded once.
void EmbedTokens(StreamView stream, DeviceMatrix table, const EmbeddingLookup& lookup,
                 DeviceMatrix y);

// y[t] += table[positions[t] + offset], summed in fp32 and rounded once. The table is fp32 or has
// the format of y.
void AddPositionRows(StreamView stream, DeviceMatrix table, const std::int32_t* positions,
                     std::int32_t offset, DeviceMatrix y);

// y[i] = x[rows[i]]. x and y have the same format, which may be any. Aliasing: none.
void GatherRows(StreamView stream, DeviceMatrix x, const std::int32_t* rows, DeviceMatrix y);

}  // namespace twin::kernels::cuda
