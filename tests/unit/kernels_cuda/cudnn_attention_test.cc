// cuDNN's attention, a second oracle beside sums in double. Runs on a device alone, in builds with
// TWIN_CUDNN.
#include "kernels/cuda/cudnn_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/kernels_cuda/attention_case.h"

namespace twin::kernels::cuda {
namespace {

struct Heads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
};

class CudnnAttentionTest : public testing::TestWithParam<Heads> {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNotCudnn(Shape()); !why.empty()) GTEST_SKIP() << why;
  }
  [[nodiscard]] static AttentionShape Shape() {
    const Heads& heads = GetParam();
    return {.heads = heads.heads,
            .kv_heads = heads.kv_heads,
            .head_dim = heads.head_dim,
            .block_size = 16,
            .scale = 1 / std::sqrt(static_cast<float>(heads.head_dim)),
            .windows = {0}};
  }
  static void ExpectRight(const std::vector<SequenceLengths>& lengths) {
    CudnnAttentionSizes sizes{.sequences = static_cast<std::int64_t>(lengths.size())};
    for (const SequenceLengths& each : lengths) {
      sizes.queries_max = std::max(sizes.queries_max, each.queries);
      sizes.context_max = std::max(sizes.context_max, each.context);
    }
    AttentionBatch batch({.shape = Shape()}, 8, 256, 128);
    const TestStream stream;
    Random random(3, "cudnn_attention_test");
    batch.Draw(lengths, random);
    CudnnAttention attention(Shape(), batch.Cache().shape, sizes, batch.Q().stride);
    attention.Plan(stream.view(), batch.Work());
    attention.Run(stream.view(), batch.Q(), batch.Cache(), 1, batch.Out());
    batch.ExpectAttention(0);
    // Ours, of the same numbers.
    PagedAttention ours(Shape(), {}, 256, 8);
    batch.Plan(stream.view(), ours);
    ours.Run(stream.view(), batch.Qkv(), batch.Cache(), 1, 0, batch.Out());
    batch.ExpectAttention(0);
  }
};

TEST_P(CudnnAttentionTest, OfDecodesIsThatOfOurOwnKernel) {
  ExpectRight({{1, 1}, {1, 17}, {1, 300}, {1, 64}});
}

TEST_P(CudnnAttentionTest, OfPrefillsIsThatOfOurOwnKernel) {
  ExpectRight({{5, 5}, {37, 100}, {70, 70}, {2, 33}});
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudnnAttentionTest,
                         testing::Values(Heads{4, 2, 64}, Heads{8, 2, 128}), [](const auto& test) {
                           return std::to_string(test.param.heads) + "_" +
                                  std::to_string(test.param.kv_heads) + "_" +
                                  std::to_string(test.param.head_dim);
                         });

}  // namespace
}  // namespace twin::kernels::cuda
