#include "kernels/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/float_formats.h"
#include "kernels/kv_copy.h"
#include "tests/unit/kernels/kernel_cases.h"

namespace twin::kernels {
namespace {

constexpr std::int64_t kLayer = 1;

struct Case {
  DType dtype = DType::kFp32;
  std::int64_t kv_heads = 2, group = 3, head_dim = 20, block_size = 4;
  std::vector<std::int32_t> queries;  // per sequence
  std::vector<std::int32_t> lengths;  // per sequence
  std::int64_t window = 0;
  float cap = 0;
  std::int64_t value_in_key = 0;
  std::vector<float> sinks = {};  // per query head

  [[nodiscard]] std::int64_t value_dim() const {
    return value_in_key > 0 ? value_in_key : head_dim;
  }
};

// A batch with its cache: keys and values of all lengths appended through AppendKv, block ids
// scattered; what no sequence holds is NaN, so that a read beyond the context shows.
class Scene {
 public:
  Scene(ThreadPool& pool, const Case& given) : case_(given) {
    const auto sequences = static_cast<std::int64_t>(given.lengths.size());
    for (const std::int32_t length : given.lengths) {
      stride_ = std::max<std::int64_t>(stride_, BlocksOf(length));
    }
    shape_ = {.dtype = given.dtype,
              .blocks = sequences * stride_ + 1,
              .layers = 3,
              .kv_heads = given.kv_heads,
              .block_size = given.block_size,
              .head_dim = given.head_dim,
              .value_in_key = given.value_in_key};
    bytes_.assign(static_cast<std::size_t>(shape_.Bytes()), std::byte{0xFF});
    tables_.assign(static_cast<std::size_t>(sequences * stride_), -1);
    first_query_ = {0};
    for (std::int64_t s = 0; s < sequences; ++s) {
      const auto i = static_cast<std::size_t>(s);
      first_query_.push_back(first_query_.back() + given.queries[i]);
      for (std::int64_t b = 0; b < BlocksOf(given.lengths[i]); ++b) {
        tables_[static_cast<std::size_t>(s * stride_ + b)] =
            static_cast<std::int32_t>(shape_.blocks - 1 - (b * sequences + s));
      }
      Append(pool, s);
    }
  }

  [[nodiscard]] std::int64_t BlocksOf(std::int64_t length) const {
    return (length + case_.block_size - 1) / case_.block_size;
  }
  [[nodiscard]] KvCacheView cache() { return {bytes_.data(), shape_}; }
  [[nodiscard]] std::int64_t tokens() const { return first_query_.back(); }
  [[nodiscard]] std::int64_t width() const { return case_.kv_heads * case_.group * case_.head_dim; }
  [[nodiscard]] std::int64_t out_width() const {
    return case_.kv_heads * case_.group * case_.value_dim();
  }
  [[nodiscard]] AttentionBatch batch() const {
    return {.first_query = first_query_,
            .kv_lengths = case_.lengths,
            .block_tables = tables_,
            .table_stride = stride_};
  }
  [[nodiscard]] AttentionOptions options() const {
    return {.scale = 1 / std::sqrt(static_cast<float>(case_.head_dim)),
            .window = case_.window,
            .logit_cap = case_.cap,
            .sinks = case_.sinks};
  }
  [[nodiscard]] std::vector<std::int32_t>& tables() { return tables_; }

  // Element d of the stored key or value of a position.
  double Cached(std::int64_t s, std::int64_t position, std::int64_t values, std::int64_t head,
                std::int64_t d) {
    const std::int64_t block =
        tables_[static_cast<std::size_t>(s * stride_ + position / case_.block_size)];
    const std::int64_t part = case_.value_in_key > 0 ? 0 : values;
    const std::byte* tile = cache().Tile(block, kLayer, part, head);
    const std::int64_t index = position % case_.block_size * case_.head_dim + d;
    if (case_.dtype == DType::kFp32) return reinterpret_cast<const float*>(tile)[index];
    return Bf16ToFloat(reinterpret_cast<const std::uint16_t*>(tile)[index]);
  }

 private:
  void Append(ThreadPool& pool, std::int64_t s) {
    const std::int64_t length = case_.lengths[static_cast<std::size_t>(s)];
    TestMatrix keys(length, case_.kv_heads * case_.head_dim);
    TestMatrix values(length, case_.kv_heads * case_.head_dim);
    keys.FillRandom("keys" + std::to_string(s), 2);
    values.FillRandom("values" + std::to_string(s));
    std::vector<std::int32_t> slots;
    for (std::int64_t p = 0; p < length; ++p) {
      const std::int64_t block =
          tables_[static_cast<std::size_t>(s * stride_ + p / case_.block_size)];
      slots.push_back(static_cast<std::int32_t>(block * case_.block_size + p % case_.block_size));
    }
    if (case_.value_in_key > 0) {
      AppendKeys(pool, keys.view, slots, kLayer, cache());
    } else {
      AppendKv(pool, keys.view, values.view, slots, kLayer, cache());
    }
  }

  Case case_;
  KvCacheShape shape_;
  std::int64_t stride_ = 1;
  std::vector<std::byte> bytes_;
  std::vector<std::int32_t> first_query_;
  std::vector<std::int32_t> tables_;
};

// One head of one query in double precision.
std::vector<double> Exact(Scene& scene, const Case& given, std::int64_t s, std::int64_t position,
                          std::int64_t head, const float* query) {
  const std::int64_t begin =
      given.window > 0 ? std::max<std::int64_t>(0, position + 1 - given.window) : 0;
  std::vector<double> scores;
  for (std::int64_t p = begin; p <= position; ++p) {
    double score = 0;
    for (std::int64_t d = 0; d < given.head_dim; ++d) {
      score += query[d] * scene.Cached(s, p, 0, head / given.group, d);
    }
    score /= std::sqrt(static_cast<double>(given.head_dim));
    if (given.cap > 0) score = given.cap * std::tanh(score / given.cap);
    scores.push_back(score);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  if (!given.sinks.empty()) {
    total += std::exp(given.sinks[static_cast<std::size_t>(head)] - largest);
  }
  for (double& score : scores) total += score = std::exp(score - largest);
  std::vector<double> out(static_cast<std::size_t>(given.value_dim()));
  for (std::int64_t d = 0; d < given.value_dim(); ++d) {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      out[static_cast<std::size_t>(d)] +=
          scores[i] / total *
          scene.Cached(s, begin + static_cast<std::int64_t>(i), 1, head / given.group, d);
    }
  }
  return out;
}

void ExpectExact(Scene& scene, const Case& given, const TestMatrix& q, const TestMatrix& out) {
  std::int64_t row = 0;
  for (std::size_t s = 0; s < given.lengths.size(); ++s) {
    for (std::int64_t j = 0; j < given.queries[s]; ++j, ++row) {
      const std::int64_t position = given.lengths[s] - given.queries[s] + j;
      for (std::int64_t head = 0; head < given.kv_heads * given.group; ++head) {
        const std::vector<double> exact =
            Exact(scene, given, static_cast<std::int64_t>(s), position, head,
                  q.view.Row(row) + head * given.head_dim);
        for (std::int64_t d = 0; d < given.value_dim(); ++d) {
          // Values are normal deviates: |v| reaches about 4.
          ASSERT_NEAR(out.view.Row(row)[head * given.value_dim() + d],
                      exact[static_cast<std::size_t>(d)], 8e-5)
              << "sequence " << s << ", position " << position << ", head " << head;
        }
      }
    }
  }
}

class PagedAttentionTest : public testing::TestWithParam<InstructionSet> {
 protected:
  static void ExpectAgreement(const Case& given, std::int32_t threads = 2) {
    ThreadPool pool(threads, GetParam());
    Scene scene(pool, given);
    TestMatrix q(scene.tokens(), scene.width());
    TestMatrix out(scene.tokens(), scene.out_width());
    q.FillRandom("q");
    PagedAttention(pool, q.view, scene.batch(), scene.cache(), kLayer, scene.options(), out.view);
    ExpectExact(scene, given, q, out);
    EXPECT_TRUE(out.GapsAreUntouched());
  }
};

TEST_P(PagedAttentionTest, AgreesForEveryHeadSizeAndGrouping) {
  for (const std::int64_t head_dim : {1, 20, 24, 64, 80, 128, 256}) {
    for (const std::int64_t group : {1, 2, 7}) {
      ExpectAgreement({.kv_heads = 2,
                       .group = group,
                       .head_dim = head_dim,
                       .queries = {1, 5, 3},
                       .lengths = {9, 5, 70}});
    }
  }
}

TEST_P(PagedAttentionTest, AgreesForEveryBlockSizeAndBothFormats) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    for (const std::int64_t block_size : {1, 2, 3, 16, 17, 64, 256}) {
      ExpectAgreement({.dtype = dtype,
                       .block_size = block_size,
                       .queries = {1, 1, 40, 2},
                       .lengths = {1, 130, 100, 64}});
    }
  }
}

TEST_P(PagedAttentionTest, AgreesUnderASlidingWindowAndALogitCap) {
  for (const std::int64_t window : {1, 2, 15, 16, 64, 100}) {
    ExpectAgreement({.queries = {1, 70, 1}, .lengths = {150, 140, 10}, .window = window});
  }
  ExpectAgreement({.queries = {3, 1}, .lengths = {80, 20}, .cap = 1.5F});
}

TEST_P(PagedAttentionTest, ReadsValuesFromTheBeginningsOfKeys) {
  // One key head for all queries, wider than the pieces in which scores are summed.
  for (const auto& [head_dim, value] : {std::pair{40, 24}, {256, 255}, {300, 256}, {576, 512}}) {
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      ExpectAgreement({.dtype = dtype,
                       .kv_heads = 1,
                       .group = 5,
                       .head_dim = head_dim,
                       .queries = {1, 30, 3},
                       .lengths = {9, 30, 70},
                       .value_in_key = value});
    }
  }
}

TEST_P(PagedAttentionTest, SinksTakeAShareOfTheWeights) {
  // Sinks far below, among and far above the scores; a window that ends the first stretch.
  const std::vector<float> sinks = {-30, 0.5F, 3, 90};
  ExpectAgreement(
      {.kv_heads = 2, .group = 2, .queries = {1, 40, 3}, .lengths = {9, 40, 70}, .sinks = sinks});
  ExpectAgreement({.kv_heads = 2,
                   .group = 2,
                   .queries = {1, 9},
                   .lengths = {1100, 30},
                   .window = 100,
                   .sinks = sinks});
}

TEST_P(PagedAttentionTest, AgreesWhereTheContextIsSplitAmongThreads) {
  for (const std::int32_t threads : {1, 4}) {
    ExpectAgreement({.kv_heads = 1, .group = 2, .queries = {1}, .lengths = {2500}}, threads);
    ExpectAgreement({.kv_heads = 1, .group = 2, .queries = {1}, .lengths = {2500}, .window = 1100},
                    threads);
  }
}

TEST_P(PagedAttentionTest, SequencesWithoutQueriesOrContextAreLeftOut) {
  ExpectAgreement({.queries = {0, 2, 0}, .lengths = {0, 4, 7}});
  ThreadPool pool(2, GetParam());
  Scene scene(pool, {.queries = {0}, .lengths = {3}});
  TestMatrix none(0, scene.width());
  PagedAttention(pool, none.view, scene.batch(), scene.cache(), kLayer, scene.options(), none.view);
}

// Blocks that the window has left may have been given away: their entries are never followed.
TEST_P(PagedAttentionTest, NeverReadsBlocksBeforeTheWindow) {
  const Case given = {.queries = {1}, .lengths = {150}, .window = 10};
  ThreadPool pool(2, GetParam());
  Scene scene(pool, given);
  TestMatrix q(1, scene.width());
  TestMatrix out(1, scene.width());
  q.FillRandom("q");
  const std::vector<std::int32_t> kept = scene.tables();
  std::fill_n(scene.tables().begin(), 140 / 4, std::numeric_limits<std::int32_t>::min());
  PagedAttention(pool, q.view, scene.batch(), scene.cache(), kLayer, scene.options(), out.view);
  scene.tables() = kept;
  ExpectExact(scene, given, q, out);
}

// The promise that lets a scheduler batch, chunk and preempt as it likes: a token's bits are those
// of a lone decode of it.
TEST_P(PagedAttentionTest, ARowHasTheSameBitsAsADecodeAndInAnyChunkAndBatch) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    for (const std::int64_t window : {0, 50}) {
      const Case whole = {.dtype = dtype,
                          .kv_heads = 2,
                          .group = 3,
                          .head_dim = 24,
                          .queries = {90, 1},
                          .lengths = {1100, 300},
                          .window = window};
      ThreadPool pool(3, GetParam());
      ThreadPool alone(1, GetParam());
      Scene scene(pool, whole);
      TestMatrix q(91, scene.width());
      TestMatrix together(91, scene.width());
      q.FillRandom("q");
      PagedAttention(pool, q.view, scene.batch(), scene.cache(), kLayer, scene.options(),
                     together.view);
      for (const std::int64_t row : {0, 1, 12, 13, 14, 63, 89}) {
        const std::vector<std::int32_t> first = {0, 1};
        const std::vector<std::int32_t> length = {static_cast<std::int32_t>(1011 + row)};
        AttentionBatch batch = scene.batch();
        batch.first_query = first;
        batch.kv_lengths = length;
        for (ThreadPool* each : {&pool, &alone}) {
          TestMatrix decode(1, scene.width());
          PagedAttention(*each, q.view.Rows(row, 1), batch, scene.cache(), kLayer, scene.options(),
                         decode.view);
          ASSERT_EQ(std::memcmp(decode.view.Row(0), together.view.Row(row),
                                static_cast<std::size_t>(scene.width()) * sizeof(float)),
                    0)
              << "row " << row;
        }
      }
    }
  }
}

TEST_P(PagedAttentionTest, ANegativeSlotWritesNothing) {
  ThreadPool pool(1, GetParam());
  const KvCacheShape shape = {
      .blocks = 2, .layers = 1, .kv_heads = 1, .block_size = 2, .head_dim = 3};
  std::vector<float> cache(static_cast<std::size_t>(shape.Bytes()) / sizeof(float), 7);
  std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  const MatrixView<float> view = DenseMatrix(rows.data(), 2, 3);
  AppendKv(pool, view, view, std::vector<std::int32_t>{-1, 3}, 0,
           {reinterpret_cast<std::byte*>(cache.data()), shape});
  // Block 1: keys of tokens 2 and 3, then values; token 3 is the second.
  EXPECT_EQ(cache, (std::vector<float>{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,  //
                                       7, 7, 7, 4, 5, 6, 7, 7, 7, 4, 5, 6}));
}

TEST_P(PagedAttentionTest, Bf16CachesRoundToNearestEven) {
  ThreadPool pool(1, GetParam());
  constexpr std::int64_t kDim = 67;
  const KvCacheShape shape = {.dtype = DType::kBf16,
                              .blocks = 1,
                              .layers = 1,
                              .kv_heads = 1,
                              .block_size = 1,
                              .head_dim = kDim};
  std::vector<std::uint16_t> cache(static_cast<std::size_t>(shape.Bytes()) / 2);
  std::vector<float> row = RandomFloats("row", kDim);
  row[0] = 1 + 0x1p-8F;
  row[1] = 1 + 0x3p-8F;
  row[2] = std::numeric_limits<float>::quiet_NaN();
  const MatrixView<float> view = DenseMatrix(row.data(), 1, kDim);
  AppendKv(pool, view, view, std::vector<std::int32_t>{0}, 0,
           {reinterpret_cast<std::byte*>(cache.data()), shape});
  for (std::size_t d = 0; d < kDim; ++d) EXPECT_EQ(cache[d], FloatToBf16(row[d])) << d;
}

INSTANTIATE_TEST_SUITE_P(Sets, PagedAttentionTest, testing::ValuesIn(AllSets()), SetName);

TEST(CopyBlocksTest, MovesWholeBlocksBetweenPools) {
  ThreadPool pool(2);
  const KvCacheShape device = {
      .blocks = 3, .layers = 2, .kv_heads = 1, .block_size = 2, .head_dim = 3};
  KvCacheShape host = device;
  host.blocks = 5;
  const auto block = static_cast<std::size_t>(device.BlockBytes());
  ASSERT_EQ(block, 2U * 2 * 1 * 2 * 3 * sizeof(float));
  std::vector<std::byte> from(3 * block);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(1 + i / block);
  std::vector<std::byte> to(5 * block);
  CopyBlocks(
      pool, {from.data(), device}, {to.data(), host},
      std::vector<BlockCopy>{{.source = 2, .destination = 0}, {.source = 0, .destination = 4}});
  std::vector<std::byte> expected(5 * block);
  std::fill_n(expected.begin(), block, std::byte{3});
  std::fill_n(expected.end() - static_cast<std::ptrdiff_t>(block), block, std::byte{1});
  EXPECT_EQ(to, expected);
}

}  // namespace
}  // namespace twin::kernels
