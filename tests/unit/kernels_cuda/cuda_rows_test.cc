// Activations, lookups, sums, counts and copies on a device, against the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/activation.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/block_copy.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/embedding.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

using CudaRowsTest = DeviceRowsTest;

struct Size {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t gap = 0;
};

// In packs, one by one, over several blocks of a row, and over more rows than a grid has.
constexpr Size kSizes[] = {{1, 8, 0}, {3, 7, 0},    {5, 64, 8},   {2, 64, 3},
                           {1, 1, 0}, {2, 4104, 0}, {1, 1023, 0}, {65540, 1, 0}};

TEST_F(CudaRowsTest, ActivationsAgreeWithTheCpus) {
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (const Size& size : kSizes) {
      for (const bool has_bias : {false, true}) {
        TestRows x(DType::kBf16, size.rows, size.columns, size.gap);
        x.Draw(random_, 4);
        const auto bias = RandomNumbersOf(random_, size.columns);
        const OnDevice<float> device_bias(bias);
        HostRows expected(x);
        for (std::int64_t i = 0; has_bias && i < size.rows * size.columns; ++i) {
          expected.values[static_cast<std::size_t>(i)] +=
              bias[static_cast<std::size_t>(i % size.columns)];
        }
        kernels::Activate(pool_, activation, expected.view());
        TestRows y(DType::kBf16, size.rows, size.columns);
        const float* added = has_bias ? device_bias.data() : nullptr;
        Activate(stream_.view(), activation, x.matrix(), added, y.matrix());
        Activate(stream_.view(), activation, x.matrix(), added, x.matrix());  // in place
        y.Expect([&](auto i, auto j) { return expected.At(i, j); }, 0.51, 2e-5);
        x.Expect([&](auto i, auto j) { return expected.At(i, j); }, 0.51, 2e-5);
        if (size.rows > 1000) break;
      }
    }
  }
}

TEST_F(CudaRowsTest, GatesMultiplyWhatLiesBesideThem) {
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    for (const Size& size : {Size{1, 8, 0}, Size{3, 7, 1}, Size{4, 2056, 16}, Size{2, 12, 0}}) {
      for (const bool has_bias : {false, true}) {
        TestRows x(DType::kBf16, size.rows, 2 * size.columns, size.gap);
        x.Draw(random_, 2);
        const auto bias = RandomNumbersOf(random_, 2 * size.columns);
        const OnDevice<float> device_bias(bias);
        HostRows sums(x);
        for (std::size_t i = 0; has_bias && i < sums.values.size(); ++i) {
          sums.values[i] += bias[i % bias.size()];
        }
        HostRows expected(size.rows, size.columns);
        kernels::ActivateGated(pool_, activation, sums.view().Columns(0, size.columns),
                               sums.view().Columns(size.columns, size.columns), expected.view());
        TestRows y(DType::kBf16, size.rows, size.columns, size.gap);
        ActivateGated(stream_.view(), activation, x.matrix(),
                      has_bias ? device_bias.data() : nullptr, y.matrix());
        y.Expect([&](auto i, auto j) { return expected.At(i, j); }, 0.51, 1e-4);
      }
    }
  }
}

TEST_F(CudaRowsTest, TokensAreLookedUpHereOrCarriedOverOrNotInTheTable) {
  for (const std::int64_t hidden : {8, 7, 2056}) {
    TestRows table(DType::kBf16, 10, hidden, 8);
    table.Draw(random_);
    // The table's rows are tokens 100..109.
    const OnDevice<std::int32_t> ids(std::vector<std::int32_t>{100, 109, 99, 110, -1, -3, 104});
    const OnDevice<std::int32_t> carried(std::vector<std::int32_t>{102, 0, 108});
    const std::vector<std::int64_t> rows = {0, 9, -1, -1, 2, 8, 4};
    for (const float scale : {1.0F, 3.3F}) {
      TestRows y(DType::kBf16, 7, hidden, 3);
      EmbedTokens(stream_.view(), table.matrix(), {ids.data(), carried.data(), 100, scale},
                  y.matrix());
      y.Expect(
          [&](auto t, auto j) {
            const std::int64_t row = rows[static_cast<std::size_t>(t)];
            return row < 0 ? 0.0 : double{scale * table.At(row, j)};
          },
          scale == 1 ? 0 : 0.51, 0);
    }
  }
}

TEST_F(CudaRowsTest, PositionRowsAreAdded) {
  const std::vector<std::int32_t> positions = {0, 5, 5, 2};
  const OnDevice<std::int32_t> device_positions(positions);
  for (const DType table_format : {DType::kBf16, DType::kFp32}) {
    for (const std::int64_t hidden : {16, 9}) {
      TestRows table(table_format, 8, hidden);
      TestRows y(DType::kBf16, 4, hidden, 8);
      table.Draw(random_);
      y.Draw(random_);
      const HostRows before(y);
      AddPositionRows(stream_.view(), table.matrix(), device_positions.data(), 2, y.matrix());
      y.Expect(
          [&](auto t, auto j) {
            return before.At(t, j) + table.At(positions[static_cast<std::size_t>(t)] + 2, j);
          },
          0.51, 1e-7);
    }
  }
}

TEST_F(CudaRowsTest, RowsAreGatheredInAnyFormat) {
  const std::vector<std::int32_t> rows = {3, 3, 0};
  const OnDevice<std::int32_t> device_rows(rows);
  for (const DType format : {DType::kBf16, DType::kFp32}) {
    for (const Size& size : {Size{4, 16, 0}, Size{4, 9, 0}, Size{4, 16, 1}, Size{4, 4096, 8}}) {
      TestRows x(format, size.rows, size.columns, size.gap);
      TestRows y(format, 3, size.columns, size.gap);
      x.Draw(random_);
      GatherRows(stream_.view(), x.matrix(), device_rows.data(), y.matrix());
      y.Expect([&](auto i, auto j) { return x.At(rows[static_cast<std::size_t>(i)], j); }, 0, 0);
    }
  }
  const OnDevice<std::uint8_t> bytes(
      std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const OnDevice<std::uint8_t> gathered(std::size_t{9});
  GatherRows(stream_.view(), DenseDeviceMatrix(bytes.data(), DType::kInt8, 4, 3),
             device_rows.data(), DenseDeviceMatrix(gathered.data(), DType::kInt8, 3, 3));
  EXPECT_EQ(gathered.Get(), (std::vector<std::uint8_t>{10, 11, 12, 10, 11, 12, 1, 2, 3}));
}

TEST_F(CudaRowsTest, ABiasIsAddedToEachRow) {
  for (const DType format : {DType::kBf16, DType::kFp32}) {
    for (const Size& size : kSizes) {
      TestRows y(format, size.rows, size.columns, size.gap);
      y.Draw(random_);
      const auto bias = RandomNumbersOf(random_, size.columns);
      const OnDevice<float> device_bias(bias);
      const HostRows before(y);
      AddBias(stream_.view(), device_bias.data(), y.matrix());
      y.Expect([&](auto i, auto j) { return before.At(i, j) + bias[static_cast<std::size_t>(j)]; },
               0.51, 1e-7);
    }
  }
}

TEST_F(CudaRowsTest, LogitsAreScaledThenCapped) {
  for (const float cap : {0.0F, 30.0F}) {
    for (const Size& size : {Size{3, 64, 0}, Size{2, 7, 1}, Size{1, 5000, 0}}) {
      TestRows y(DType::kFp32, size.rows, size.columns, size.gap);
      y.Draw(random_, 50);
      const HostRows before(y);
      FinishLogits(stream_.view(), 0.7F, cap, y.matrix());
      y.Expect(
          [&](auto i, auto j) {
            const double scaled = 0.7F * before.At(i, j);
            return cap > 0 ? cap * std::tanh(scaled / cap) : scaled;
          },
          1, 1e-4);
    }
  }
}

TEST_F(CudaRowsTest, WhatIsNotFiniteIsCounted) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const DType format : {DType::kBf16, DType::kFp32}) {
    for (const Size& size : kSizes) {
      if (size.rows > 1000) continue;  // others show it
      TestRows x(format, size.rows, size.columns, size.gap);
      x.Draw(random_);
      const OnDevice<int> count(std::vector<int>{5});
      CountNotFinite(stream_.view(), x.matrix(), count.data());
      EXPECT_EQ(count.Get()[0], 5);  // gaps are NaN and do not count
      x.Set(0, 0, infinity);
      x.Set(size.rows - 1, size.columns - 1, -infinity);
      x.Set(size.rows / 2, size.columns / 2, std::nanf(""));
      x.Send();
      const auto values = x.Values();
      const auto wanted = std::count_if(values.begin(), values.end(),
                                        [](float value) { return !std::isfinite(value); });
      CountNotFinite(stream_.view(), x.matrix(), count.data());
      EXPECT_EQ(count.Get()[0], 5 + wanted);
    }
  }
}

TEST_F(CudaRowsTest, BlocksAreCopiedWholeWithinACacheAndBetweenTwo) {
  for (const std::int64_t head_dim : {8, 6, 130}) {
    KvCacheShape shape{.dtype = DType::kBf16,
                       .blocks = 6,
                       .layers = 3,
                       .kv_heads = 1,
                       .block_size = 1,
                       .head_dim = head_dim};
    const auto block = static_cast<std::size_t>(shape.BlockBytes() / 2);
    std::vector<std::uint16_t> values(6 * block);
    std::iota(values.begin(), values.end(), std::uint16_t{0});
    const OnDevice<std::uint16_t> from(values);
    const OnDevice<std::uint16_t> to(4 * block);
    const OnDevice<BlockCopy> within(
        std::vector<BlockCopy>{{.source = 0, .destination = 5}, {.source = 3, .destination = 1}});
    const OnDevice<BlockCopy> between(std::vector<BlockCopy>{{.source = 5, .destination = 2}});
    const KvCacheView cache{reinterpret_cast<std::byte*>(from.data()), shape};
    CopyBlocks(stream_.view(), cache, cache, within.data(), 2);
    shape.blocks = 4;
    CopyBlocks(stream_.view(), cache, {reinterpret_cast<std::byte*>(to.data()), shape},
               between.data(), 1);
    const auto got = from.Get();
    const auto other = to.Get();
    const std::size_t source[] = {0, 3, 2, 3, 4, 0};
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], values[source[i / block] * block + i % block]);
    }
    for (std::size_t i = 0; i < other.size(); ++i) {
      ASSERT_EQ(other[i], i / block == 2 ? values[i % block] : 0xFFFF);
    }
  }
}

}  // namespace
}  // namespace twin::kernels::cuda
