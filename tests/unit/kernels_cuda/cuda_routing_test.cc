// Routing of rows to experts on a device, and sums of what these compute: by hand, and against the
// CPU's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/cuda/routing.h"
#include "kernels/routing.h"
#include "tests/unit/kernels_cuda/test_routing.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

class CudaRoutingTest : public ::testing::Test {
 protected:
  HostPairs Route(const std::vector<std::vector<float>>& logits, std::int32_t experts_per_row,
                  bool normalised) {
    const auto rows = static_cast<std::int64_t>(logits.size());
    const auto experts = static_cast<std::int64_t>(logits[0].size());
    TestRows on_device(DType::kFp32, rows, experts, 3);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < experts; ++j) {
        on_device.Set(i, j, logits[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]);
      }
    }
    on_device.Send();
    const TestPairs pairs({rows, static_cast<std::int32_t>(experts), experts_per_row});
    RouteRows(stream_.view(), on_device.matrix(), normalised, pairs.routed());
    return pairs.Fetch();
  }

  Random random_{5, "device tests"};
  TestStream stream_;
  ThreadPool pool_{1};
};

TEST_F(CudaRoutingTest, WeightsAreSoftmaxValuesOrTheirSharesOfTheSum) {
  const std::vector<std::vector<float>> logits = {{std::log(1.0F), std::log(5.0F), std::log(2.0F)}};
  const HostPairs plain = Route(logits, 2, false);
  EXPECT_THAT(plain.experts, ElementsAre(1, 2));
  EXPECT_THAT(plain.weights, ElementsAre(FloatNear(5.0F / 8, 1e-6F), FloatNear(0.25F, 1e-6F)));
  EXPECT_THAT(Route(logits, 2, true).weights,
              ElementsAre(FloatNear(5.0F / 7, 1e-6F), FloatNear(2.0F / 7, 1e-6F)));
}

TEST_F(CudaRoutingTest, OfEqualLogitsTheFirstExpertIsChosen) {
  EXPECT_THAT(Route({{0, 1, 1, 0}}, 3, false).experts, ElementsAre(0, 1, 2));
  EXPECT_THAT(Route({{0, 2, 2, 2}}, 2, false).experts, ElementsAre(1, 2));
  std::vector<float> many(70, 1.0F);
  many[69] = 2;
  EXPECT_THAT(Route({many}, 3, false).experts, ElementsAre(0, 1, 69));
}

// The second row's weights are 0.5 and 0.5 of the experts 0 and 2, and so on.
TEST_F(CudaRoutingTest, PlacesAreSortedByExpertThenByRow) {
  const HostPairs pairs = Route({{0, 5, 9, 0}, {9, 0, 5, 0}, {0, 0, 9, 5}}, 2, true);
  EXPECT_THAT(pairs.experts, ElementsAre(1, 2, 0, 2, 2, 3));
  EXPECT_THAT(pairs.first, ElementsAre(0, 1, 2, 5, 6));
  EXPECT_THAT(pairs.places, ElementsAre(1, 2, 0, 3, 4, 5));
  EXPECT_THAT(pairs.rows, ElementsAre(1, 0, 0, 1, 2, 2));
  const float most = 1 / (1 + std::exp(-4.0F));
  EXPECT_THAT(pairs.weights, ElementsAre(FloatNear(1 - most, 1e-6F), FloatNear(most, 1e-6F),
                                         FloatNear(most, 1e-6F), FloatNear(1 - most, 1e-6F),
                                         FloatNear(most, 1e-6F), FloatNear(1 - most, 1e-6F)));
}

TEST_F(CudaRoutingTest, NoRowsAreRoutedNowhere) {
  RouteRows(stream_.view(), {nullptr, DType::kFp32, 0, 3, 3}, true,
            RoutedPairs{.shape = {0, 3, 2}});
  stream_.Wait();
}

TEST_F(CudaRoutingTest, LogitsThatAreNoNumbersChooseDifferentExpertsAndShow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits :
       {std::vector{nan, nan, nan}, {1.0F, nan, 2.0F}, {infinity, 0, 0}}) {
    const HostPairs pairs = Route({logits}, 3, true);
    EXPECT_THAT(pairs.experts, ElementsAre(0, 1, 2));
    EXPECT_TRUE(std::isnan(std::accumulate(pairs.weights.begin(), pairs.weights.end(), 0.0F)));
  }
  EXPECT_THAT(Route({{-infinity, -infinity, 0}}, 2, true).weights, ElementsAre(0, 1));
}

// Both sum exponentials in fp32, in another order; choices are equal where weights differ by more.
TEST_F(CudaRoutingTest, ChoosesAndWeighsAsTheCpu) {
  struct Case {
    RoutingShape shape;
    bool normalised = false;
  };
  for (const Case& c : {Case{{1, 1, 1}, false}, Case{{5, 8, 2}, true}, Case{{70, 33, 5}, false},
                        Case{{300, 128, 8}, true}, Case{{3, 40, 32}, true}}) {
    TestRows logits(DType::kFp32, c.shape.rows, c.shape.experts, 1);
    logits.Draw(random_, 2);
    HostRows on_host(logits);
    kernels::RoutedRows expected;
    kernels::RouteRows(pool_, on_host.view(),
                       {.experts_per_row = c.shape.experts_per_row, .normalised = c.normalised},
                       expected);
    const TestPairs routed(c.shape);
    RouteRows(stream_.view(), logits.matrix(), c.normalised, routed.routed());
    const HostPairs pairs = routed.Fetch();
    EXPECT_TRUE(std::equal(pairs.first.begin(), pairs.first.end(), expected.first.begin(),
                           expected.first.end()));
    EXPECT_EQ(pairs.rows, expected.rows);
    for (std::size_t pair = 0; pair < pairs.places.size(); ++pair) {
      const auto place = static_cast<std::size_t>(pairs.places[pair]);
      EXPECT_EQ(expected.rows[place], static_cast<std::int32_t>(pair) / c.shape.experts_per_row);
      EXPECT_NEAR(pairs.weights[pair], expected.weights[place], 1e-5F * expected.weights[place]);
    }
  }
}

TEST_F(CudaRoutingTest, ACapturedGraphRoutesOtherLogits) {
  TestRows logits(DType::kFp32, 4, 6);
  logits.Draw(random_);
  const TestPairs routed({4, 6, 2});
  const TestGraph graph(stream_.view(),
                        [&] { RouteRows(stream_.view(), logits.matrix(), true, routed.routed()); });
  for (int turn = 0; turn < 3; ++turn) {
    logits.Draw(random_, 3);
    HostRows on_host(logits);
    kernels::RoutedRows expected;
    kernels::RouteRows(pool_, on_host.view(), {.experts_per_row = 2, .normalised = true}, expected);
    graph.Launch(stream_.view());
    EXPECT_EQ(routed.Fetch().rows, expected.rows);
  }
}

using CudaSumExpertsTest = DeviceRowsTest;

// Row 0 has the places 1 and 2, row 1 the places 0 and 3.
TEST_F(CudaSumExpertsTest, AddsWhatItsExpertsComputeOfARow) {
  for (const std::int64_t gap : {0, 1}) {
    const TestPairs pairs({2, 4, 2});
    pairs.Set({.experts = {1, 2, 0, 2},
               .weights = {0.25F, 0.75F, 2, -1},
               .places = {1, 2, 0, 3},
               .rows = {1, 0, 0, 1},
               .first = {0, 1, 2, 4, 4}});
    TestRows outputs(DType::kBf16, 4, 24, gap);
    TestRows y(DType::kBf16, 2, 24, gap);
    outputs.Draw(random_);
    SumExperts(stream_.view(), outputs.matrix(), pairs.routed(), {}, y.matrix());
    y.Expect(
        [&](auto t, auto d) {
          return t == 0 ? 0.25 * outputs.At(1, d) + 0.75 * outputs.At(2, d)
                        : 2.0 * outputs.At(0, d) - double{outputs.At(3, d)};
        },
        0.51, 1e-6);
  }
}

TEST_F(CudaSumExpertsTest, TheSharedExpertIsWeightedByTheSigmoidOfItsGate) {
  struct Size {
    std::int64_t columns = 0;
    std::int64_t gap = 0;
  };
  for (const Size& size : {Size{8, 0}, Size{40, 8}, Size{41, 2}, Size{2064, 0}}) {
    const RoutingShape shape{3, 4, 2};
    const TestPairs pairs(shape);
    TestRows logits(DType::kFp32, 3, 4);
    logits.Draw(random_);
    RouteRows(stream_.view(), logits.matrix(), true, pairs.routed());
    const HostPairs routed = pairs.Fetch();
    TestRows outputs(DType::kBf16, 6, size.columns, size.gap);
    TestRows x(DType::kBf16, 3, size.columns, size.gap);
    TestRows gate(DType::kBf16, 1, size.columns, size.gap);
    TestRows shared(DType::kBf16, 3, size.columns, size.gap);
    for (TestRows* rows : {&outputs, &x, &shared}) rows->Draw(random_);
    gate.Draw(random_, 1 / std::sqrt(static_cast<double>(size.columns)));
    const std::vector<float> inputs = x.Values();
    // The result may take the place of the input.
    SumExperts(stream_.view(), outputs.matrix(), pairs.routed(),
               {x.matrix(), gate.matrix(), shared.matrix()}, x.matrix());
    x.Expect(
        [&](auto t, auto d) {
          double z = 0;
          for (std::int64_t i = 0; i < size.columns; ++i) {
            z += double{inputs[static_cast<std::size_t>(t * size.columns + i)]} * gate.At(0, i);
          }
          double sum = shared.At(t, d) / (1 + std::exp(-z));
          for (const std::int64_t pair : {2 * t, 2 * t + 1}) {
            const auto at = static_cast<std::size_t>(pair);
            sum += double{routed.weights[at]} * outputs.At(routed.places[at], d);
          }
          return sum;
        },
        0.51, 1e-5);
  }
}

}  // namespace
}  // namespace twin::kernels::cuda
