// Products of the experts of a mixture on a device, against double.
#include <gtest/gtest.h>

#include "kernels/cuda/expert_gemm.h"
#include "tests/unit/kernels_cuda/test_routing.h"
#include "tests/unit/kernels_cuda/test_rows.h"

namespace twin::kernels::cuda {
namespace {

using CudaExpertGemmTest = DeviceRowsTest;

struct Size {
  RoutingShape shape;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::int64_t gap = 0;  // between the rows of x
};

// A mixture with random weights and a random choice of experts.
class TestExperts {
 public:
  TestExperts(DType dtype, const Size& size, Random& random, StreamView stream)
      : x(dtype, size.shape.rows, size.inputs, size.gap),
        w(dtype, size.shape.experts * size.outputs, size.inputs, 8),
        pairs(size.shape) {
    x.Draw(random);
    w.Draw(random);
    // The first experts are chosen more often, and the last ones hardly ever.
    TestRows logits(DType::kFp32, size.shape.rows, size.shape.experts);
    for (std::int64_t t = 0; t < size.shape.rows; ++t) {
      for (std::int64_t e = 0; e < size.shape.experts; ++e) {
        const double less = 4.0 * static_cast<double>(e) / size.shape.experts;
        logits.Set(t, e, static_cast<float>(random.Normal() - less));
      }
    }
    logits.Send();
    RouteRows(stream, logits.matrix(), true, pairs.routed());
    routed = pairs.Fetch();
    for (std::int32_t e = 0; e < size.shape.experts; ++e) {
      for (std::int32_t p = routed.first[static_cast<std::size_t>(e)];
           p < routed.first[static_cast<std::size_t>(e) + 1]; ++p) {
        expert_of_place.push_back(e);
      }
    }
  }

  [[nodiscard]] double Expected(std::int64_t row, std::int64_t place, std::int64_t output,
                                std::int64_t outputs) const {
    const std::int64_t weights =
        expert_of_place[static_cast<std::size_t>(place)] * outputs + output;
    double sum = 0;
    for (std::int64_t k = 0; k < x.columns(); ++k) {
      sum += double{x.At(row, k)} * double{w.At(weights, k)};
    }
    return sum;
  }

  TestRows x;
  TestRows w;
  TestPairs pairs;
  HostPairs routed;
  std::vector<std::int32_t> expert_of_place;
};

// CUDA cores: one row, two, few for each expert, and rows that are not aligned or not whole packs.
// Tensor cores: tiles of 16, 32 and 64 places; outputs and inputs that are no multiples of a
// tile's; experts without rows, of one row, and of several tiles; one expert alone.
constexpr Size kSizes[] = {
    {{1, 8, 2}, 12, 40},       {{2, 5, 3}, 9, 1032, 0}, {{9, 40, 3}, 7, 72, 8},
    {{7, 3, 2}, 5, 36, 4},     {{10, 3, 1}, 6, 24, 1},  {{20, 6, 2}, 24, 104, 8},
    {{16, 36, 6}, 16, 40, 16}, {{20, 2, 1}, 136, 64},   {{70, 5, 2}, 24, 40},
    {{70, 1, 1}, 40, 8},
};

TEST_F(CudaExpertGemmTest, AgreesWithDouble) {
  for (const Size& size : kSizes) {
    const TestExperts experts(DType::kBf16, size, random_, stream_.view());
    TestRows y(DType::kBf16, size.shape.pairs(), size.outputs, size.outputs % 8 == 0 ? 8 : 1);
    ExpertGemm(stream_.view(), experts.x.matrix(), experts.w.matrix(), experts.pairs.routed(),
               ExpertInput::kRows, y.matrix());
    y.Expect(
        [&](auto p, auto n) {
          return experts.Expected(experts.routed.rows[static_cast<std::size_t>(p)], p, n,
                                  size.outputs);
        },
        0.51, 1e-5 * static_cast<double>(size.inputs));
  }
}

TEST_F(CudaExpertGemmTest, TakesTheRowOfAPlaceOrOfItsPair) {
  for (const Size& size : {Size{{3, 4, 2}, 8, 16}, Size{{24, 4, 2}, 8, 16}}) {
    // One row for each place.
    const TestExperts experts(DType::kBf16, size, random_, stream_.view());
    TestRows x(DType::kBf16, size.shape.pairs(), size.inputs);
    TestRows by_place(DType::kBf16, size.shape.pairs(), size.outputs);
    TestRows by_row(DType::kBf16, size.shape.pairs(), size.outputs);
    for (std::int64_t p = 0; p < size.shape.pairs(); ++p) {
      const std::int64_t row = experts.routed.rows[static_cast<std::size_t>(p)];
      for (std::int64_t k = 0; k < size.inputs; ++k) x.Set(p, k, experts.x.At(row, k));
    }
    x.Send();
    ExpertGemm(stream_.view(), x.matrix(), experts.w.matrix(), experts.pairs.routed(),
               ExpertInput::kPlaces, by_place.matrix());
    ExpertGemm(stream_.view(), experts.x.matrix(), experts.w.matrix(), experts.pairs.routed(),
               ExpertInput::kRows, by_row.matrix());
    by_row.Fetch();
    by_place.Expect([&](auto p, auto n) { return by_row.At(p, n); }, 0, 0);
  }
}

TEST_F(CudaExpertGemmTest, ACapturedGraphFollowsAnotherChoiceOfExperts) {
  for (const Size& size : {Size{{3, 5, 2}, 8, 16}, Size{{24, 5, 2}, 8, 16}}) {
    const TestExperts experts(DType::kBf16, size, random_, stream_.view());
    TestRows y(DType::kBf16, size.shape.pairs(), size.outputs);
    const TestGraph graph(stream_.view(), [&] {
      ExpertGemm(stream_.view(), experts.x.matrix(), experts.w.matrix(), experts.pairs.routed(),
                 ExpertInput::kRows, y.matrix());
    });
    // All rows choose the last two experts.
    HostPairs last = experts.routed;
    const auto rows = static_cast<std::int32_t>(size.shape.rows);
    last.first = {0, 0, 0, 0, rows, 2 * rows};
    for (std::int32_t place = 0; place < 2 * rows; ++place) {
      last.rows[static_cast<std::size_t>(place)] = place % rows;
    }
    experts.pairs.Set(last);
    graph.Launch(stream_.view());
    y.Expect(
        [&](auto p, auto n) {
          const std::int64_t row = p % rows;
          double sum = 0;
          for (std::int64_t k = 0; k < size.inputs; ++k) {
            const std::int64_t weights = (p < rows ? 3 : 4) * size.outputs + n;
            sum += double{experts.x.At(row, k)} * double{experts.w.At(weights, k)};
          }
          return sum;
        },
        0.51, 1e-5 * static_cast<double>(size.inputs));
  }
}

// On tensor cores, a row's sums do not depend on the rows beside it.
TEST_F(CudaExpertGemmTest, ARowIsTheSameInAnotherOrder) {
  const Size size{{24, 2, 1}, 16, 72};
  TestExperts experts(DType::kBf16, size, random_, stream_.view());
  HostPairs pairs = experts.routed;
  const auto run = [&](const std::vector<std::int32_t>& rows) {
    pairs.rows = rows;
    pairs.first = {0, 0, 24};
    experts.pairs.Set(pairs);
    TestRows y(DType::kBf16, 24, 16);
    ExpertGemm(stream_.view(), experts.x.matrix(), experts.w.matrix(), experts.pairs.routed(),
               ExpertInput::kRows, y.matrix());
    y.Fetch();
    return y;
  };
  std::vector<std::int32_t> ascending(24);
  std::vector<std::int32_t> descending(24);
  for (std::int32_t i = 0; i < 24; ++i) {
    ascending[static_cast<std::size_t>(i)] = i;
    descending[static_cast<std::size_t>(i)] = 23 - i;
  }
  const TestRows up = run(ascending);
  const TestRows down = run(descending);
  for (std::int64_t i = 0; i < 24; ++i) {
    for (std::int64_t n = 0; n < 16; ++n) EXPECT_EQ(up.At(i, n), down.At(23 - i, n));
  }
}

}  // namespace
}  // namespace twin::kernels::cuda
