#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "kernels/gemm.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

// Rows of x per pass over the weights. A depth block with this many rows fits the second-level
// cache.
constexpr std::int64_t kRowsPerPass = 240;
// With at least this many tiles, bf16 and int8 panels are widened once instead of in each tile.
constexpr std::int64_t kTilesToWiden = 2;

// How many bytes ahead of their use a single tile prefetches weights.
constexpr std::int64_t kFetchAhead = 8192;
// x of at most this many floats leaves room for weights in the second-level cache.
constexpr std::int64_t kSmallFloats = 1 << 17;

static_assert(kPanelColumns == WeightView::kPanelRows);
static_assert(kDepthBlock % WeightView::kGroup == 0);

// Divides rows of x into tiles of nearly equal height, and the words of a row into blocks.
struct Tiling {
  std::int64_t rows, tiles, height, blocks;

  Tiling(std::int64_t row_count, std::int64_t depth, std::int64_t tile_rows)
      : rows(row_count),
        tiles((row_count + tile_rows - 1) / tile_rows),
        height((row_count + tiles - 1) / tiles),
        blocks((depth + kDepthBlock - 1) / kDepthBlock) {}

  [[nodiscard]] std::int64_t FirstRow(std::int64_t tile) const { return tile * rows / tiles; }
  [[nodiscard]] std::int64_t Height(std::int64_t tile) const {
    return FirstRow(tile + 1) - FirstRow(tile);
  }
  [[nodiscard]] std::int64_t TileFloats() const { return height * kTileStride; }
  [[nodiscard]] std::int64_t Offset(std::int64_t tile, std::int64_t block) const {
    return (block * tiles + tile) * TileFloats();
  }
};

// One pass: up to kRowsPerPass rows of x times all weights.
class Pass {
 public:
  Pass(ThreadPool& pool, MatrixView<const float> x, const WeightView& w, const GemmOptions& options,
       MatrixView<float> y)
      : pool_(pool),
        kernels_(KernelsFor(pool.instruction_set())),
        x_(x),
        w_(w),
        options_(options),
        y_(y),
        in_pairs_(w.format == DType::kBf16 && kernels_.bf16_pairs_tile != nullptr),
        words_(in_pairs_ ? (w.columns + 1) / 2 : w.columns),
        tiling_(x.rows, words_, kernels_.tile_rows) {}

  void Run() {
    PackX();
    const std::int64_t panels = (w_.rows + kPanelColumns - 1) / kPanelColumns;
    const std::int64_t shares = std::int64_t{pool_.threads()} * 6;
    const std::int64_t grain = std::clamp<std::int64_t>(panels / shares, 1, 4);
    pool_.ParallelFor(panels, grain, [&](std::int64_t begin, std::int64_t end, std::int32_t t) {
      MultiplyPanels(begin, end, t);
    });
  }

 private:
  // Copies x into tiles with a row stride of kTileStride. A single row of floats is used in place.
  void PackX() {
    if (x_.rows == 1 && !in_pairs_ && w_.order == nullptr) {
      packed_ = x_.data;
      return;
    }
    float* packed = pool_.shared_scratch().Reserve<float>(tiling_.Offset(0, tiling_.blocks));
    packed_ = packed;
    const auto pack = [&](std::int64_t begin, std::int64_t end, std::int32_t) {
      for (std::int64_t tile = begin; tile < end; ++tile) PackTile(tile, packed);
    };
    const bool alone = x_.rows * x_.columns < 32768;
    pool_.ParallelFor(tiling_.tiles, alone ? tiling_.tiles : 1, pack);
  }

  void PackTile(std::int64_t tile, float* packed) const {
    for (std::int64_t block = 0; block < tiling_.blocks; ++block) {
      float* out = packed + tiling_.Offset(tile, block);
      for (std::int64_t r = 0; r < tiling_.Height(tile); ++r) {
        const float* row = x_.Row(tiling_.FirstRow(tile) + r);
        if (in_pairs_) {
          PackPairs(row, block, out + r * kTileStride);
        } else if (w_.order != nullptr) {
          const std::int32_t* order = w_.order + block * kDepthBlock;
          for (std::int64_t k = 0; k < Depth(block); ++k) out[r * kTileStride + k] = row[order[k]];
        } else {
          std::memcpy(out + r * kTileStride, row + block * kDepthBlock,
                      static_cast<std::size_t>(Depth(block)) * sizeof(float));
        }
      }
    }
  }

  void PackPairs(const float* row, std::int64_t block, float* words) const {
    const std::int64_t first = 2 * block * kDepthBlock;
    const std::int64_t count = std::min(2 * kDepthBlock, w_.columns - first);
    auto* out = reinterpret_cast<std::uint16_t*>(words);
    kernels_.narrow_to_bf16(row + first, count, out);
    if (count % 2 != 0) out[count] = 0;
  }

  [[nodiscard]] std::int64_t Depth(std::int64_t block) const {
    return std::min(kDepthBlock, words_ - block * kDepthBlock);
  }

  void MultiplyPanels(std::int64_t begin, std::int64_t end, std::int32_t thread) {
    float* scratch = pool_.scratch(thread).Reserve<float>((x_.rows + kDepthBlock) * kPanelColumns);
    float* edge = scratch;
    float* widened = scratch + x_.rows * kPanelColumns;
    // Small x: one panel at a time, so that the weights are read as one stream. Large x: one depth
    // block at a time, so that its part of x stays in the cache for all these panels.
    const bool small = tiling_.Offset(0, tiling_.blocks) <= kSmallFloats;
    const std::int64_t together = small ? 1 : end - begin;
    for (std::int64_t first = begin; first < end; first += together) {
      const std::int64_t last = first + together;
      for (std::int64_t panel = first; panel < last; ++panel) StartPanel(panel, edge);
      for (std::int64_t block = 0; block < tiling_.blocks; ++block) {
        for (std::int64_t panel = first; panel < last; ++panel) {
          MultiplyBlock(panel, block, Output(panel, edge), widened);
        }
      }
      FinishPanel(last - 1, Output(last - 1, edge));
    }
  }

  void MultiplyBlock(std::int64_t panel, std::int64_t block, const MatrixView<float>& out,
                     float* widened) const {
    const bool widen = w_.format != DType::kFp32 && !in_pairs_ && tiling_.tiles >= kTilesToWiden;
    if (widen && w_.format == DType::kBf16) {
      kernels_.widen_bf16_panel(Weights<std::uint16_t>(panel, block), Depth(block), widened);
    } else if (widen && w_.format == DType::kInt4) {
      kernels_.widen_int4_panel(Int4(panel, block), Depth(block), widened);
    } else if (widen) {
      kernels_.widen_int8_panel(Weights<std::int8_t>(panel, block), Scales(panel, block),
                                Depth(block), widened);
    }
    for (std::int64_t t = 0; t < tiling_.tiles; ++t) {
      const Tile tile = TileOf(panel, block, t, out);
      if (widen) {
        kernels_.fp32_tile(tile, widened);
      } else if (w_.format == DType::kFp32) {
        kernels_.fp32_tile(tile, Weights<float>(panel, block));
      } else if (in_pairs_) {
        kernels_.bf16_pairs_tile(tile, Pairs(panel, block));
      } else if (w_.format == DType::kBf16) {
        kernels_.bf16_tile(tile, Weights<std::uint16_t>(panel, block));
      } else if (w_.format == DType::kInt4) {
        kernels_.int4_tile(tile, Int4(panel, block));
      } else {
        kernels_.int8_tile(tile, Weights<std::int8_t>(panel, block), Scales(panel, block));
      }
    }
  }

  // While tiles reuse a block of weights from the cache, memory would be idle, so each tile
  // prefetches a part of the next block. A single tile prefetches kFetchAhead bytes ahead.
  [[nodiscard]] Tile TileOf(std::int64_t panel, std::int64_t block, std::int64_t tile,
                            const MatrixView<float>& out) const {
    const std::int64_t bytes_per_k = BytesPerWord();
    const std::byte* weights =
        w_.panels + panel * w_.panel_bytes + block * kDepthBlock * bytes_per_k;
    const std::int64_t step = (bytes_per_k + tiling_.tiles - 1) / tiling_.tiles;
    const std::int64_t ahead =
        tiling_.tiles == 1 ? kFetchAhead : Depth(block) * (bytes_per_k + tile * step);
    return {.rows = tiling_.Height(tile),
            .x = packed_ == x_.data ? packed_ + block * kDepthBlock
                                    : packed_ + tiling_.Offset(tile, block),
            .depth = Depth(block),
            .y = out.Row(tiling_.FirstRow(tile)),
            .y_stride = out.stride,
            .ahead = weights + ahead,
            .ahead_step = step};
  }

  // Bytes of a panel's weights for each word of a row of x.
  [[nodiscard]] std::int64_t BytesPerWord() const {
    if (in_pairs_) return kPanelColumns * 4;
    return w_.format == DType::kInt4 ? kPanelColumns / 2 : kPanelColumns * ByteSize(w_.format);
  }

  template <class T>
  [[nodiscard]] const T* Weights(std::int64_t panel, std::int64_t block) const {
    return reinterpret_cast<const T*>(w_.panels + panel * w_.panel_bytes) +
           block * kDepthBlock * kPanelColumns;
  }
  [[nodiscard]] const std::uint16_t* Pairs(std::int64_t panel, std::int64_t block) const {
    return Weights<std::uint16_t>(panel, 2 * block);
  }
  [[nodiscard]] const std::uint16_t* Scales(std::int64_t panel, std::int64_t block) const {
    return w_.scales + panel * w_.panel_scales +
           block * (kDepthBlock / WeightView::kGroup) * kPanelColumns;
  }

  [[nodiscard]] Int4Block Int4(std::int64_t panel, std::int64_t block) const {
    const std::int64_t first = block * kDepthBlock;
    return {.weights = reinterpret_cast<const std::uint8_t*>(w_.panels + panel * w_.panel_bytes) +
                       first / 2 * kPanelColumns,
            .scales = w_.group_scales + panel * w_.panel_scales,
            .zeros = w_.group_zeros + panel * w_.panel_scales,
            .first = first,
            .group = w_.group};
  }

  // The destination of the panel's sums: y, or `edge` for a last panel that is not full.
  [[nodiscard]] MatrixView<float> Output(std::int64_t panel, float* edge) const {
    const std::int64_t first = panel * kPanelColumns;
    if (first + kPanelColumns <= w_.rows) return y_.Columns(first, kPanelColumns);
    return DenseMatrix(edge, x_.rows, kPanelColumns);
  }

  [[nodiscard]] std::int64_t Width(std::int64_t panel) const {
    return std::min(kPanelColumns, w_.rows - panel * kPanelColumns);
  }

  void StartPanel(std::int64_t panel, float* edge) const {
    const std::int64_t first = panel * kPanelColumns;
    const std::int64_t width = Width(panel);
    const MatrixView<float> out = Output(panel, edge);
    for (std::int64_t r = 0; r < x_.rows; ++r) {
      float* row = out.Row(r);
      const float* y = y_.Row(r) + first;
      const float* bias = options_.bias.empty() ? nullptr : options_.bias.data() + first;
      for (std::int64_t c = 0; c < width; ++c) {
        const float start = options_.accumulate ? y[c] : 0.0F;
        row[c] = bias == nullptr ? start : start + bias[c];
      }
      for (std::int64_t c = width; c < kPanelColumns; ++c) row[c] = 0;
    }
  }

  void FinishPanel(std::int64_t panel, const MatrixView<float>& out) const {
    const std::int64_t width = Width(panel);
    if (width == kPanelColumns) return;
    for (std::int64_t r = 0; r < x_.rows; ++r) {
      std::copy_n(out.Row(r), width, y_.Row(r) + panel * kPanelColumns);
    }
  }

  ThreadPool& pool_;
  const VectorKernels& kernels_;
  const MatrixView<const float> x_;
  const WeightView& w_;
  const GemmOptions& options_;
  const MatrixView<float> y_;
  const bool in_pairs_;       // words of x and w are pairs of bf16
  const std::int64_t words_;  // words per row of x
  const Tiling tiling_;
  const float* packed_ = nullptr;
};

}  // namespace

void Gemm(ThreadPool& pool, MatrixView<const float> x, const WeightView& w,
          const GemmOptions& options, MatrixView<float> y) {
  CHECK(x.columns == w.columns && y.columns == w.rows && x.rows == y.rows);
  CHECK(options.bias.empty() || static_cast<std::int64_t>(options.bias.size()) == w.rows);
  for (std::int64_t first = 0; first < x.rows; first += kRowsPerPass) {
    const std::int64_t rows = std::min(kRowsPerPass, x.rows - first);
    Pass(pool, x.Rows(first, rows), w, options, y.Rows(first, rows)).Run();
  }
}

}  // namespace twin::kernels
