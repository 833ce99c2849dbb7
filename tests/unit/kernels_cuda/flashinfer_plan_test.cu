// How FlashInfer splits attention, on the host alone: without a device it takes tiles of 64 rows
// where one would give it tiles of 16.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/cuda/flashinfer/own_dispatch.cuh"
//
#include "kernels/cuda/flashinfer/planner.cuh"
//
#include "core/random.h"
#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::int64_t kMultiprocessors = 132;

struct Split {
  bool split = false;
  std::size_t works = 0;
  std::size_t padded = 0;
  std::size_t tile = 0;
  std::int64_t chunk = 0;  // tokens
  std::vector<std::int32_t> requests;
  std::vector<std::int32_t> query_tiles;
  std::vector<std::int32_t> chunks;
  std::vector<std::int32_t> merge_begin;
  std::vector<std::int32_t> partial_begin;

  bool operator==(const Split&) const = default;
};

struct Batch {
  std::vector<std::int32_t> first_query;
  std::vector<std::int32_t> page_begin;

  [[nodiscard]] std::int64_t sequences() const {
    return static_cast<std::int64_t>(first_query.size()) - 1;
  }
  [[nodiscard]] std::int64_t rows() const { return first_query.back() - first_query.front(); }
};

Split SplitWork(Batch batch, const AttentionShape& shape, std::int64_t window, bool graph,
                std::int32_t piece = -1, std::int32_t waves = 1) {
  const auto unsigned_of = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const auto result = flashinfer::PrefillSplitQOKVIndptr<std::int32_t>(
      batch.first_query.data(), batch.page_begin.data(), unsigned_of(batch.rows()),
      unsigned_of(batch.sequences()), unsigned_of(shape.heads), unsigned_of(shape.kv_heads),
      unsigned_of(shape.head_dim), unsigned_of(shape.block_size),
      unsigned_of(PiecesMax(batch.sequences(), waves, shape, kMultiprocessors)), graph,
      window > 0 ? static_cast<std::int32_t>(window - 1) : -1, piece, false, graph ? 1 : 0,
      unsigned_of(shape.head_dim), 2);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result), std::get<3>(result),
          std::get<4>(result), std::get<5>(result), std::get<6>(result), std::get<7>(result),
          std::get<8>(result), std::get<9>(result)};
}

// `queries` of each sequence drawn, on so many pages that they fit.
Batch DrawBatch(Random& random, std::int64_t sequences, std::int64_t queries_max,
                std::int64_t block_size) {
  Batch batch{{0}, {0}};
  for (std::int64_t s = 0; s < sequences; ++s) {
    const std::int64_t queries = random.UniformInt(1, queries_max);
    const std::int64_t context = queries + random.UniformInt(0, 20'000);
    const std::int64_t pages = (context + block_size - 1) / block_size;
    batch.first_query.push_back(batch.first_query.back() + static_cast<std::int32_t>(queries));
    batch.page_begin.push_back(batch.page_begin.back() + static_cast<std::int32_t>(pages));
  }
  return batch;
}

// The sequences from `first` on, counted from the step's beginning or from their own.
Batch Tail(const Batch& batch, std::int64_t first, bool rebased) {
  Batch tail{{batch.first_query.begin() + first, batch.first_query.end()},
             {batch.page_begin.begin() + first, batch.page_begin.end()}};
  if (!rebased) return tail;
  const std::int32_t row = tail.first_query.front();
  const std::int32_t page = tail.page_begin.front();
  for (std::int32_t& value : tail.first_query) value -= row;
  for (std::int32_t& value : tail.page_begin) value -= page;
  return tail;
}

const std::vector<AttentionShape> kShapes = {
    {.heads = 32, .kv_heads = 8, .head_dim = 128, .block_size = 16},
    {.heads = 28, .kv_heads = 4, .head_dim = 128, .block_size = 16},
    {.heads = 12, .kv_heads = 12, .head_dim = 64, .block_size = 5},
    {.heads = 71, .kv_heads = 1, .head_dim = 64, .block_size = 64},
    {.heads = 32, .kv_heads = 8, .head_dim = 128, .block_size = 128},
    {.heads = 32, .kv_heads = 8, .head_dim = 128, .block_size = 256}};

TEST(FlashInferPlanTest, ATailIsSplitAlikeWhereverItsCountingBegins) {
  Random random(1, "flashinfer_plan_test");
  for (const AttentionShape& shape : kShapes) {
    const Batch batch = DrawBatch(random, 40, 300, shape.block_size);
    for (const std::int64_t window : {0, 1000}) {
      EXPECT_EQ(SplitWork(Tail(batch, 7, false), shape, window, false),
                SplitWork(Tail(batch, 7, true), shape, window, false));
    }
  }
}

// Each tile of each sequence's rows meets each chunk of its keys once, and partial results follow
// each other without a gap.
TEST(FlashInferPlanTest, CoversEveryRowAndKeyOnce) {
  Random random(2, "flashinfer_plan_test");
  for (const AttentionShape& shape : kShapes) {
    for (const std::int64_t sequences : {1, 3, 40}) {
      const Batch batch = DrawBatch(random, sequences, 300, shape.block_size);
      const Split split = SplitWork(batch, shape, 0, false);
      ASSERT_EQ(split.requests.size(), split.works);
      std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, int> met;
      for (std::size_t i = 0; i < split.works; ++i) {
        ++met[{split.requests[i], split.query_tiles[i], split.chunks[i]}];
      }
      const std::int64_t group = shape.heads / shape.kv_heads;
      std::size_t expected = 0;
      for (std::int32_t s = 0; s < sequences; ++s) {
        const std::size_t at = static_cast<std::size_t>(s);
        const std::int64_t rows = batch.first_query[at + 1] - batch.first_query[at];
        const std::int64_t pages = batch.page_begin[at + 1] - batch.page_begin[at];
        const std::int64_t tile = static_cast<std::int64_t>(split.tile);
        const std::int64_t tiles = (rows * group + tile - 1) / tile;
        const std::int64_t tokens = pages * shape.block_size;
        const std::int64_t chunks = split.split ? (tokens + split.chunk - 1) / split.chunk : 1;
        for (std::int32_t t = 0; t < tiles; ++t) {
          for (std::int32_t c = 0; c < chunks; ++c) EXPECT_EQ((met[{s, t, c}]), 1);
        }
        expected += static_cast<std::size_t>(tiles * chunks);
        EXPECT_EQ(split.partial_begin[at + 1] - split.partial_begin[at], rows * chunks);
      }
      EXPECT_EQ(split.works, expected);
    }
  }
}

// As PrefillPlanImpl of attention/scheduler.cuh takes of its workspaces.
void ExpectRoom(const Split& split, const AttentionShape& shape, const Batch& batch, bool graph,
                const PlanSizes& sizes) {
  const auto aligned = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
  std::size_t ints = 3 * aligned(4 * split.padded) +
                     aligned(4 * static_cast<std::size_t>(batch.sequences() + 1)) + 32 +
                     (graph ? aligned(split.padded) : 0);
  std::size_t floats = 0;
  if (split.split) {
    ints += aligned(4 * static_cast<std::size_t>(batch.rows() + 1));
    const auto group = static_cast<std::size_t>(shape.heads / shape.kv_heads);
    // A graph's sequences have one tile each in either size.
    const std::size_t tile = graph && group <= 16 ? 16 : split.tile;
    const std::size_t rows = (split.padded * tile + group - 1) / group;
    floats = static_cast<std::size_t>(shape.heads) * rows *
             static_cast<std::size_t>(shape.head_dim + 1) * 4;
  }
  EXPECT_LE(ints, sizes.int_bytes);
  EXPECT_LE(floats, sizes.float_bytes);
}

// Room for a step of these rows and sequences.
PlanSizes SizesFor(const Batch& batch, const AttentionShape& shape) {
  return SizesOfPlan(
      AttentionKernel::kFa2, shape,
      {.rows = batch.rows(), .sequences = batch.sequences(), .multiprocessors = kMultiprocessors});
}

TEST(FlashInferPlanTest, TheRoomOfAStepHoldsItsPlan) {
  Random random(3, "flashinfer_plan_test");
  for (const AttentionShape& shape : kShapes) {
    for (int draw = 0; draw < 200; ++draw) {
      const std::int64_t sequences = random.UniformInt(1, 256);
      const std::int64_t queries_max = random.UniformInt(1, 8192 / sequences);
      const Batch batch = DrawBatch(random, sequences, queries_max, shape.block_size);
      const std::int64_t window = draw % 3 == 0 ? 4096 : 0;
      ExpectRoom(SplitWork(batch, shape, window, false), shape, batch, false,
                 SizesFor(batch, shape));
      const Batch decodes = DrawBatch(random, sequences, 1, shape.block_size);
      ExpectRoom(SplitWork(decodes, shape, window, true), shape, decodes, true,
                 SizesFor(decodes, shape));
      ExpectRoom(SplitWork(decodes, shape, window, true, -1, kWavesMax), shape, decodes, true,
                 SizesFor(decodes, shape));
    }
  }
}

TEST(FlashInferPlanTest, AGraphsLaunchDependsOnItsSequencesAlone) {
  Random random(4, "flashinfer_plan_test");
  for (const AttentionShape& shape : kShapes) {
    for (const std::int32_t waves : {1, kWavesMax}) {
      for (const std::int64_t sequences : {1, 8, 256}) {
        const auto draw = [&] {
          return SplitWork(DrawBatch(random, sequences, 1, shape.block_size), shape, 0, true, -1,
                           waves);
        };
        const Split first = draw();
        for (int again = 0; again < 20; ++again) {
          const Split other = draw();
          EXPECT_EQ(std::tuple(other.padded, other.tile, other.split),
                    std::tuple(first.padded, first.tile, first.split));
          EXPECT_LE(other.works, other.padded);
        }
      }
    }
  }
}

// 24 sequences of 500 tokens and one of 8,000, as 33 pieces and as 157: by hand, 20,000 / 157 = 127
// tokens at least a piece.
TEST(FlashInferPlanTest, MoreWavesCutALongSequenceFinely) {
  const AttentionShape& shape = kShapes.front();
  Batch batch{{0}, {0}};
  for (int s = 0; s < 25; ++s) {
    batch.first_query.push_back(s + 1);
    batch.page_begin.push_back(batch.page_begin.back() + (s == 0 ? 500 : 32));
  }
  EXPECT_GE(SplitWork(batch, shape, 0, true).chunk, 500);
  const Split fine = SplitWork(batch, shape, 0, true, -1, kWavesMax);
  EXPECT_GE(fine.chunk, 127);
  EXPECT_LE(fine.chunk, 256);
  EXPECT_LE(fine.works, 4U * 33 + 25);
}

TEST(FlashInferPlanTest, DecodesThatNearlyFillTheDeviceAreNeitherCutNorMerged) {
  Random random(5, "flashinfer_plan_test");
  for (const AttentionShape& shape : kShapes) {
    const std::int64_t fill = 2 * kMultiprocessors / shape.kv_heads;
    const std::int64_t nearly = (3 * fill + 3) / 4;
    for (const std::int64_t sequences : {nearly - 1, nearly, fill, 2 * fill}) {
      const Batch batch = DrawBatch(random, sequences, 1, shape.block_size);
      const std::int32_t piece =
          FixedPiece({.sequences = sequences, .graph = true}, shape, kMultiprocessors);
      EXPECT_EQ(FixedPiece({.sequences = sequences}, shape, kMultiprocessors), -1);
      EXPECT_EQ(piece > 0, sequences >= nearly);
      if (piece < 0) continue;
      const Split whole = SplitWork(batch, shape, 0, true, piece);
      const Split free = SplitWork(batch, shape, 0, true);
      EXPECT_FALSE(whole.split);
      EXPECT_LE(whole.chunk, std::numeric_limits<std::int32_t>::max());  // it is sent in 32 bits
      EXPECT_TRUE(free.split);
      if (sequences < fill) continue;
      // The same work in the same launch: only the merging is gone.
      EXPECT_EQ(std::tuple(whole.works, whole.padded, whole.tile, whole.requests, whole.chunks),
                std::tuple(free.works, free.padded, free.tile, free.requests, free.chunks));
    }
  }
}

// As BatchPrefillWithPagedKVCacheDispatched of attention/prefill.cuh chooses them; shared memory of
// a multiprocessor and of a block at compute capability 8.6 and 8.9, 8.0, 9.0.
TEST(FlashInferPlanTest, EveryTileThatADeviceTakesIsCompiled) {
  for (const auto& [shared, of_block] :
       {std::pair(100 << 10, 99 << 10), std::pair(164 << 10, 163 << 10),
        std::pair(228 << 10, 227 << 10)}) {
    for (const int head_dim : {64, 128, 256}) {
      for (const int tile : {16, 64, 128}) {
        if (tile == 128 && head_dim == 256) continue;
        const int queries = tile * head_dim * 2;
        const int step = 2 * head_dim * 16 * (tile == 16 ? 4 : 1) * 2;
        const int blocks = shared >= 2 * (queries + step) ? 2 : 1;
        const int room = std::min(shared / blocks, of_block) - queries;
        const int steps = std::min(room / step, tile == 128 ? 4 : 8);
        EXPECT_TRUE(TakesSteps(static_cast<std::uint32_t>(tile),
                               static_cast<std::uint32_t>(head_dim),
                               std::bit_floor(static_cast<std::uint32_t>(steps))))
            << shared << " " << head_dim << " " << tile << " " << steps;
      }
    }
  }
}

}  // namespace
}  // namespace twin::kernels::cuda
