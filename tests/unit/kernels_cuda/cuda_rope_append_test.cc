// Bias, head norms, rotation and append in one pass on a device, against the CPU's one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "kernels/cuda/rope_append.h"
#include "kernels/elementwise.h"
#include "kernels/float_formats.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::int64_t kHeads = 6;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kLayer = 1;
constexpr std::int64_t kBlockSize = 3;
constexpr std::int64_t kBlocks = 7;
constexpr std::int64_t kPositions = 50;
constexpr float kEpsilon = 1e-6F;

struct Case {
  std::int64_t head_dim = 0;
  std::int64_t pairs = 0;  // 0: no rotation
  bool bias = false;
  bool norms = false;
  std::int64_t gap = 0;
  bool keeps_keys = false;
};

class CudaRopeAppendTest : public DeviceRowsTest {
 protected:
  // Tokens: slots that differ, in no order, and padding.
  const std::vector<std::int32_t> positions_ = {0, 49, 7, 3, 11};
  const std::vector<std::int32_t> slots_ = {20, 0, -1, 7, 13};

  void Check(const Case& each);
  void ExpectCache(const Case& each, HostRows& expected, const std::vector<std::uint16_t>& cache);
};

void CudaRopeAppendTest::Check(const Case& each) {
  const auto tokens = static_cast<std::int64_t>(positions_.size());
  const std::int64_t width = (kHeads + 2 * kKvHeads) * each.head_dim;
  TestRows qkv(DType::kBf16, tokens, width, each.gap);
  qkv.Draw(random_, 2);
  const std::vector<float> bias = RandomNumbersOf(random_, width);
  const std::vector<float> query_gain = RandomNumbersOf(random_, each.head_dim);
  const std::vector<float> key_gain = RandomNumbersOf(random_, each.head_dim);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < each.pairs; ++i) {
    frequencies.push_back(std::pow(100.0, -static_cast<double>(i) / 16));
  }
  const RopeTable table(frequencies, kPositions);

  HostRows expected(qkv);
  if (each.bias) AddBias(pool_, bias, expected.view());
  const auto queries = expected.view().Columns(0, kHeads * each.head_dim);
  const auto keys = expected.view().Columns(kHeads * each.head_dim, kKvHeads * each.head_dim);
  if (each.norms) HeadRmsNorm(pool_, query_gain, kEpsilon, queries);
  if (each.norms) HeadRmsNorm(pool_, key_gain, kEpsilon, keys);
  if (each.pairs > 0) ApplyRope(pool_, table, positions_, {each.head_dim}, queries);
  if (each.pairs > 0) ApplyRope(pool_, table, positions_, {each.head_dim}, keys);

  const KvCacheShape shape{.dtype = DType::kBf16,
                           .blocks = kBlocks,
                           .layers = kLayers,
                           .kv_heads = kKvHeads,
                           .block_size = kBlockSize,
                           .head_dim = each.head_dim};
  const OnDevice<std::uint16_t> cache(static_cast<std::size_t>(shape.Bytes() / 2));
  const OnDevice<std::int32_t> positions(positions_);
  const OnDevice<std::int32_t> slots(slots_);
  const OnDevice<float> device_bias(bias);
  const OnDevice<float> device_query_gain(query_gain);
  const OnDevice<float> device_key_gain(key_gain);
  std::optional<OnDevice<float>> device_table;
  if (each.pairs > 0) {
    device_table.emplace(
        std::span<const float>(table.At(0), static_cast<std::size_t>(kPositions * 2 * each.pairs)));
  }
  const RopeAppendOptions options{.heads = kHeads,
                                  .kv_heads = kKvHeads,
                                  .bias = each.bias ? device_bias.data() : nullptr,
                                  .query_gain = each.norms ? device_query_gain.data() : nullptr,
                                  .key_gain = each.norms ? device_key_gain.data() : nullptr,
                                  .epsilon = kEpsilon,
                                  .rope_table = device_table ? device_table->data() : nullptr,
                                  .pairs = each.pairs,
                                  .keeps_keys = each.keeps_keys};
  RopeAppend(stream_.view(), qkv.matrix(), positions.data(), slots.data(), options, kLayer,
             {reinterpret_cast<std::byte*>(cache.data()), shape});
  ExpectCache(each, expected, cache.Get());
  qkv.Fetch();
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t j = 0; j < (each.keeps_keys ? width : queries.columns); ++j) {
      ASSERT_NEAR(qkv.At(t, j), expected.At(t, j),
                  0.51 * UlpOf(DType::kBf16) * std::abs(expected.At(t, j)) + 3e-5);
    }
  }
}

// Slots of tokens hold keys and values, all else is as it was.
void CudaRopeAppendTest::ExpectCache(const Case& each, HostRows& expected,
                                     const std::vector<std::uint16_t>& cache) {
  std::size_t at = 0;
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    for (std::int64_t tile = 0; tile < kLayers * 2 * kKvHeads; ++tile) {
      for (std::int64_t place = 0; place < kBlockSize; ++place) {
        const auto slot = static_cast<std::int32_t>(block * kBlockSize + place);
        const auto token = std::find(slots_.begin(), slots_.end(), slot) - slots_.begin();
        const bool written =
            token < static_cast<std::int64_t>(slots_.size()) && tile / (2 * kKvHeads) == kLayer;
        for (std::int64_t d = 0; d < each.head_dim; ++d, ++at) {
          if (!written) {
            ASSERT_EQ(cache[at], 0xFFFF);
            continue;
          }
          const double wanted =
              expected.At(token, (kHeads + tile % (2 * kKvHeads)) * each.head_dim + d);
          ASSERT_NEAR(Bf16ToFloat(cache[at]), wanted,
                      0.51 * UlpOf(DType::kBf16) * std::abs(wanted) + 3e-5)
              << "slot " << slot << " tile " << tile << " element " << d;
        }
      }
    }
  }
}

TEST_F(CudaRopeAppendTest, DoesWhatTheCpuDoesInFourPasses) {
  for (const std::int64_t head_dim : {8, 12, 16, 20, 64, 128, 256, 512}) {
    for (const bool bias : {false, true}) {
      for (const bool norms : {false, true}) {
        Check({.head_dim = head_dim, .pairs = head_dim / 2, .bias = bias, .norms = norms});
      }
    }
  }
}

TEST_F(CudaRopeAppendTest, TurnsAPartOfEachHeadOrNone) {
  for (const std::int64_t pairs : {0, 1, 4, 10, 16}) {
    Check({.head_dim = 64, .pairs = pairs, .bias = true, .norms = true});
  }
  Check({.head_dim = 20, .pairs = 0});
}

// Padding too, which is not in the cache.
TEST_F(CudaRopeAppendTest, KeepsKeysAndValuesOnRequest) {
  for (const std::int64_t head_dim : {20, 64, 128, 256}) {
    for (const bool bias : {false, true}) {
      Check({.head_dim = head_dim,
             .pairs = head_dim / 2,
             .bias = bias,
             .norms = !bias,
             .keeps_keys = true});
    }
  }
  Check({.head_dim = 64, .pairs = 0, .keeps_keys = true});
  Check({.head_dim = 64, .pairs = 10, .bias = true, .norms = true, .gap = 3, .keeps_keys = true});
}

TEST_F(CudaRopeAppendTest, RowsMayLieApart) {
  Check({.head_dim = 64, .pairs = 32, .gap = 64});
  Check({.head_dim = 64, .pairs = 32, .gap = 3});  // not 16-byte aligned
}

}  // namespace
}  // namespace twin::kernels::cuda
