#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/attention_rows.h"

namespace twin::kernels {
namespace {

static_assert(kDepthPiece <= kTileStride && kChunk <= kTileStride);

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kChunkPanels = kChunk / kPanelColumns;

// Replaces keys and values that no row sees; heads are at most kHeadDimMax wide.
constexpr std::array<float, kHeadDimMax> kZeroKey = {};

std::int64_t RoundUp(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Brings rows into the cache with a burst of plain loads in ascending order, which the hardware
// prefetcher follows. Packing alone reads columns of many rows between other work and keeps fewer
// cache lines in flight, and so do prefetch instructions (measured: 10 against 17 GB/s).
void ReadInOrder(const std::array<const void*, kChunk>& rows, std::int64_t row_bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::size_t i = 0; i < rows.size();) {
    const auto* begin = static_cast<const char*>(rows[i]);
    const char* end = begin + row_bytes;
    for (++i; i < rows.size() && rows[i] == end; ++i) end += row_bytes;
    for (const volatile char* line = begin; line < end; line += kLine) static_cast<void>(*line);
  }
}

}  // namespace

// The parts of Attend's scratch memory.
struct AttentionRows::Work {
  float* queries;  // [depth piece][rows][kTileStride], multiplied by the scale
  float* keys;     // [panel of 32 keys][dim][32]
  float* values;   // [panel of 32 dims][keys][32]
  float* scores;   // [tile rows][kTileStride]
};

AttentionRows::AttentionRows(const VectorKernels& kernels, MatrixView<const float> q,
                             const KvCacheView& cache, std::int64_t layer,
                             const AttentionOptions& options, MatrixView<float> out)
    : kernels_(kernels),
      q_(q),
      cache_(cache),
      layer_(layer),
      options_(options),
      out_(out),
      dim_(cache.shape.head_dim),
      depth_pieces_((cache.shape.head_dim + kDepthPiece - 1) / kDepthPiece),
      value_dim_(cache.shape.value_dim()),
      padded_values_(RoundUp(cache.shape.value_dim(), kPanelColumns)),
      group_(q.columns / (cache.shape.kv_heads * cache.shape.head_dim)) {}

std::int64_t AttentionRows::WorkFloats(std::int64_t queries) const {
  return (queries * group_ * depth_pieces_ + kernels_.tile_rows) * kTileStride +
         kChunk * (dim_ + padded_values_);
}

AttentionRows::Span AttentionRows::Visible(const AttentionPiece& piece, std::int64_t row) const {
  const std::int64_t end = piece.first_position + row / group_ + 1;
  return {options_.window > 0 ? std::max<std::int64_t>(0, end - options_.window) : 0, end};
}

void AttentionRows::Clear(const AttentionPiece& piece, float* state) const {
  const std::int64_t rows = Rows(piece);
  std::fill_n(state, rows * padded_values_, 0.0F);
  std::fill_n(state + rows * padded_values_, rows, kNothing);
  std::fill_n(state + rows * (padded_values_ + 1), rows, 0.0F);
}

void AttentionRows::Attend(const AttentionPiece& piece, std::int64_t stretch, float* state,
                           float* memory) const {
  Clear(piece, state);
  const std::int64_t rows = Rows(piece);
  const std::int64_t begin = std::max(stretch * kStretch, Visible(piece, 0).begin);
  const std::int64_t end = std::min((stretch + 1) * kStretch, Visible(piece, rows - 1).end);
  if (begin >= end) return;

  Work work{};
  work.queries = memory;
  work.keys = work.queries + rows * depth_pieces_ * kTileStride;
  work.values = work.keys + kChunk * dim_;
  work.scores = work.values + kChunk * padded_values_;
  PackQueries(piece, work.queries);
  const std::int64_t tiles = (rows + kernels_.tile_rows - 1) / kernels_.tile_rows;
  const bool bf16 = cache_.shape.dtype == DType::kBf16;
  for (std::int64_t first = begin / kChunk * kChunk; first < end; first += kChunk) {
    const Span chunk = {first, std::min(first + kChunk, end)};
    const Places places = PlacesOf(piece, chunk);
    ReadInOrder(places.keys, cache_.shape.RowBytes());
    if (cache_.shape.parts() == 2) ReadInOrder(places.values, cache_.shape.RowBytes());
    kernels_.pack_keys(places.keys.data(), bf16, kChunkPanels, dim_, work.keys);
    kernels_.pack_values(places.values.data(), bf16, chunk.end - first, value_dim_, work.values);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t row = tile * rows / tiles;
      AttendTile(piece, chunk, row, (tile + 1) * rows / tiles - row, work, state);
    }
  }
}

void AttentionRows::PackQueries(const AttentionPiece& piece, float* queries) const {
  for (std::int64_t row = 0; row < Rows(piece); ++row) {
    const float* query =
        q_.Row(piece.first_row + row / group_) + (piece.kv_head * group_ + row % group_) * dim_;
    for (std::int64_t piece_of = 0; piece_of < depth_pieces_; ++piece_of) {
      float* const to = queries + (piece_of * Rows(piece) + row) * kTileStride;
      const std::int64_t first = piece_of * kDepthPiece;
      const std::int64_t depth = std::min(kDepthPiece, dim_ - first);
      for (std::int64_t d = 0; d < depth; ++d) to[d] = query[first + d] * options_.scale;
    }
  }
}

AttentionRows::Places AttentionRows::PlacesOf(const AttentionPiece& piece, Span chunk) const {
  const KvCacheShape& shape = cache_.shape;
  Places places;
  places.keys.fill(kZeroKey.data());
  places.values.fill(kZeroKey.data());
  const std::int64_t first = std::max(chunk.begin, Visible(piece, 0).begin);
  const std::int64_t value_part = shape.parts() - 1;
  std::int64_t block = first / shape.block_size;
  std::int64_t place = first % shape.block_size;
  for (std::int64_t i = first - chunk.begin; i < chunk.end - chunk.begin; ++i) {
    const std::int64_t offset = place * shape.RowBytes();
    const auto index = static_cast<std::size_t>(i);
    places.keys[index] = cache_.Tile(piece.blocks[block], layer_, 0, piece.kv_head) + offset;
    places.values[index] =
        cache_.Tile(piece.blocks[block], layer_, value_part, piece.kv_head) + offset;
    if (++place == shape.block_size) {
      place = 0;
      ++block;
    }
  }
  return places;
}

void AttentionRows::AttendTile(const AttentionPiece& piece, Span chunk, std::int64_t first_row,
                               std::int64_t rows, const Work& work, float* state) const {
  const std::int64_t all_rows = Rows(piece);
  float* sums = state + first_row * padded_values_;
  float* maxima = state + all_rows * padded_values_ + first_row;
  float* weights = state + all_rows * (padded_values_ + 1) + first_row;
  // Later rows see later positions. Skips the tile if the chunk is after all positions that its
  // last row sees, or before all positions that its first row sees.
  if (Visible(piece, first_row + rows - 1).end <= chunk.begin ||
      Visible(piece, first_row).begin >= chunk.end) {
    return;
  }
  const std::int64_t keys = chunk.end - chunk.begin;
  for (std::int64_t r = 0; r < rows; ++r) std::fill_n(work.scores + r * kTileStride, kChunk, 0.0F);
  for (std::int64_t panel = 0; panel * kPanelColumns < keys; ++panel) {
    for (std::int64_t piece_of = 0; piece_of < depth_pieces_; ++piece_of) {
      const std::int64_t first = piece_of * kDepthPiece;
      const float* packed = work.keys + (panel * dim_ + first) * kPanelColumns;
      kernels_.fp32_tile({.rows = rows,
                          .x = work.queries + (piece_of * all_rows + first_row) * kTileStride,
                          .depth = std::min(kDepthPiece, dim_ - first),
                          .y = work.scores + panel * kPanelColumns,
                          .y_stride = kTileStride,
                          .ahead = packed,
                          .ahead_step = 0},
                         packed);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    float* scores = work.scores + r * kTileStride;
    const Span sees = Visible(piece, first_row + r);
    const std::int64_t begin = std::max(sees.begin, chunk.begin) - chunk.begin;
    const std::int64_t end = std::min(sees.end, chunk.end) - chunk.begin;
    if (begin >= end) {
      std::fill_n(scores, kChunk, 0.0F);
      continue;
    }
    const float factor = kernels_.softmax_chunk({.scores = scores,
                                                 .width = kChunk,
                                                 .begin = begin,
                                                 .end = end,
                                                 .cap = options_.logit_cap,
                                                 .maximum = maxima + r,
                                                 .sum = weights + r});
    if (factor != 1) kernels_.scale(factor, padded_values_, sums + r * padded_values_);
  }
  for (std::int64_t d = 0; d < padded_values_; d += kPanelColumns) {
    kernels_.fp32_tile({.rows = rows,
                        .x = work.scores,
                        .depth = keys,
                        .y = sums + d,
                        .y_stride = padded_values_,
                        .ahead = work.values,
                        .ahead_step = 0},
                       work.values + d * keys);
  }
}

void AttentionRows::Merge(const AttentionPiece& piece, const float* state, float* total) const {
  const std::int64_t rows = Rows(piece);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* sum = state + row * padded_values_;
    float* total_sum = total + row * padded_values_;
    const std::int64_t maximum = rows * padded_values_ + row;
    const std::int64_t weight = maximum + rows;
    if (state[maximum] == kNothing) continue;
    if (total[maximum] == kNothing) {
      std::copy_n(sum, padded_values_, total_sum);
      total[maximum] = state[maximum];
      total[weight] = state[weight];
      continue;
    }
    const float larger = std::max(state[maximum], total[maximum]);
    const float factor = std::exp(state[maximum] - larger);
    const float total_factor = std::exp(total[maximum] - larger);
    for (std::int64_t d = 0; d < padded_values_; ++d) {
      total_sum[d] = total_sum[d] * total_factor + sum[d] * factor;
    }
    total[weight] = total[weight] * total_factor + state[weight] * factor;
    total[maximum] = larger;
  }
}

void AttentionRows::Finish(const AttentionPiece& piece, const float* state) const {
  const std::int64_t rows = Rows(piece);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t head = piece.kv_head * group_ + row % group_;
    const float weight = state[rows * (padded_values_ + 1) + row];
    float factor = weight > 0 ? 1 / weight : 0;
    if (!options_.sinks.empty() && weight > 0) {
      const float maximum = state[rows * padded_values_ + row];
      const float sink = options_.sinks[static_cast<std::size_t>(head)];
      const float larger = std::max(maximum, sink);
      const float share = std::exp(maximum - larger);
      factor = share / (weight * share + std::exp(sink - larger));
    }
    float* out = out_.Row(piece.first_row + row / group_) + head * value_dim_;
    for (std::int64_t d = 0; d < value_dim_; ++d) out[d] = state[row * padded_values_ + d] * factor;
  }
}

}  // namespace twin::kernels
