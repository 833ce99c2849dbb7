#include <algorithm>
#include <array>
#include <vector>

#include "core/check.h"
#include "kernels/attention_rows.h"
#include "kernels/paged_attention.h"
#include "kernels/row_ranges.h"

namespace twin::kernels {
namespace {

// Query rows (queries * group) per piece of work: enough to amortise packing the keys and values.
constexpr std::int64_t kRowsPerPiece = 96;

bool IsCovered(const AttentionBatch& batch, MatrixView<const float> q) {
  return !batch.first_query.empty() && batch.first_query.front() == 0 &&
         batch.first_query.back() == q.rows &&
         batch.kv_lengths.size() + 1 == batch.first_query.size() &&
         static_cast<std::int64_t>(batch.block_tables.size()) >=
             static_cast<std::int64_t>(batch.kv_lengths.size()) * batch.table_stride;
}

// The pieces of a batch, ordered by sequence, then by KV head.
std::vector<AttentionPiece> Pieces(const AttentionBatch& batch, const KvCacheShape& shape,
                                   std::int64_t group) {
  const std::int64_t queries_per_piece = std::max<std::int64_t>(1, kRowsPerPiece / group);
  std::vector<AttentionPiece> pieces;
  for (std::size_t s = 0; s < batch.kv_lengths.size(); ++s) {
    const std::int64_t first = batch.first_query[s];
    const std::int64_t queries = batch.first_query[s + 1] - first;
    const std::int64_t length = batch.kv_lengths[s];
    CHECK(queries >= 0 && length >= queries);
    CHECK((length + shape.block_size - 1) / shape.block_size <= batch.table_stride || queries == 0);
    for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
      for (std::int64_t begin = 0; begin < queries; begin += queries_per_piece) {
        pieces.push_back({.blocks = batch.block_tables.data() +
                                    static_cast<std::int64_t>(s) * batch.table_stride,
                          .kv_head = head,
                          .first_row = first + begin,
                          .queries = std::min(queries_per_piece, queries - begin),
                          .first_position = length - queries + begin});
      }
    }
  }
  return pieces;
}

// The largest number of stretches of context that a piece sees.
std::int64_t MostStretches(const std::vector<AttentionPiece>& pieces) {
  std::int64_t most = 0;
  for (const AttentionPiece& piece : pieces) {
    most = std::max(most, (piece.first_position + piece.queries - 1) / kStretch + 1);
  }
  return most;
}

}  // namespace

void PagedAttention(ThreadPool& pool, MatrixView<const float> q, const AttentionBatch& batch,
                    const KvCacheView& cache, std::int64_t layer, const AttentionOptions& options,
                    MatrixView<float> out) {
  const KvCacheShape& shape = cache.shape;
  const std::int64_t width = shape.kv_heads * shape.head_dim;
  CHECK(IsCovered(batch, q) && out.rows == q.rows);
  CHECK(width > 0 && q.columns % width == 0 && q.columns > 0);
  const std::int64_t heads = q.columns / shape.head_dim;
  CHECK(out.columns == heads * shape.value_dim());
  CHECK(options.sinks.empty() || static_cast<std::int64_t>(options.sinks.size()) == heads);
  CHECK(shape.head_dim <= kHeadDimMax && layer >= 0 && layer < shape.layers);
  CHECK(shape.dtype == DType::kFp32 || shape.dtype == DType::kBf16);

  const AttentionRows rows(KernelsFor(pool.instruction_set()), q, cache, layer, options, out);
  const std::vector<AttentionPiece> pieces = Pieces(batch, shape, rows.group());
  const auto count = static_cast<std::int64_t>(pieces.size());
  if (count == 0) return;
  const std::int64_t stretches = MostStretches(pieces);
  const std::int64_t largest =
      rows.StateFloats(std::ranges::max(pieces, {}, &AttentionPiece::queries).queries);

  if (pool.threads() == 1 || stretches == 1 || count >= 2 * pool.threads()) {
    pool.ParallelFor(count, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        const AttentionPiece& piece = pieces[static_cast<std::size_t>(i)];
        float* memory =
            pool.scratch(thread).Reserve<float>(2 * largest + rows.WorkFloats(piece.queries));
        rows.Clear(piece, memory);
        for (std::int64_t s = 0; s < stretches; ++s) {
          rows.Attend(piece, s, memory + largest, memory + 2 * largest);
          rows.Merge(piece, memory + largest, memory);
        }
        rows.Finish(piece, memory);
      }
    });
    return;
  }
  // Few pieces with long contexts: stretches run in parallel and are merged in the same order as
  // above.
  float* states = pool.shared_scratch().Reserve<float>((count * stretches + count) * largest);
  float* totals = states + count * stretches * largest;
  pool.ParallelFor(
      count * stretches, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto& piece = pieces[static_cast<std::size_t>(i / stretches)];
          float* work = pool.scratch(thread).Reserve<float>(rows.WorkFloats(piece.queries));
          rows.Attend(piece, i % stretches, states + i * largest, work);
        }
      });
  for (std::int64_t i = 0; i < count; ++i) {
    const AttentionPiece& piece = pieces[static_cast<std::size_t>(i)];
    float* total = totals + i * largest;
    rows.Clear(piece, total);
    for (std::int64_t s = 0; s < stretches; ++s) {
      rows.Merge(piece, states + (i * stretches + s) * largest, total);
    }
    rows.Finish(piece, total);
  }
}

namespace {

// Writes packed tokens: keys, and values if they have rows of their own.
void AppendParts(ThreadPool& pool, std::span<const MatrixView<const float>> parts,
                 std::span<const std::int32_t> slots, std::int64_t layer,
                 const KvCacheView& cache) {
  const KvCacheShape& shape = cache.shape;
  const auto rows = static_cast<std::int64_t>(slots.size());
  const std::int64_t width = shape.kv_heads * shape.head_dim;
  CHECK(static_cast<std::int64_t>(parts.size()) == shape.parts());
  for (const auto& part : parts) CHECK(part.columns == width && part.rows == rows);
  CHECK(shape.dtype == DType::kFp32 || shape.dtype == DType::kBf16);
  CHECK(layer >= 0 && layer < shape.layers);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  const auto write = [&](const float* row, std::byte* place) {
    if (shape.dtype == DType::kFp32) {
      std::copy_n(row, shape.head_dim, reinterpret_cast<float*>(place));
    } else {
      kernels.narrow_to_bf16(row, shape.head_dim, reinterpret_cast<std::uint16_t*>(place));
    }
  };
  ForEachRow(pool, rows, shape.parts() * width, [&](std::int64_t t) {
    const std::int64_t slot = slots[static_cast<std::size_t>(t)];
    if (slot < 0) return;
    const std::int64_t block = slot / shape.block_size;
    const std::int64_t offset = slot % shape.block_size * shape.RowBytes();
    CHECK(block < shape.blocks);
    for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
      for (std::size_t part = 0; part < parts.size(); ++part) {
        write(parts[part].Row(t) + head * shape.head_dim,
              cache.Tile(block, layer, static_cast<std::int64_t>(part), head) + offset);
      }
    }
  });
}

}  // namespace

void AppendKv(ThreadPool& pool, MatrixView<const float> keys, MatrixView<const float> values,
              std::span<const std::int32_t> slots, std::int64_t layer, const KvCacheView& cache) {
  AppendParts(pool, std::array{keys, values}, slots, layer, cache);
}

void AppendKeys(ThreadPool& pool, MatrixView<const float> keys, std::span<const std::int32_t> slots,
                std::int64_t layer, const KvCacheView& cache) {
  AppendParts(pool, std::array{keys}, slots, layer, cache);
}

}  // namespace twin::kernels
