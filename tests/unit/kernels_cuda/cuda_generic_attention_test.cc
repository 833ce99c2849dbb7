// Our own attention kernel in shapes that no library takes, against double.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/attention_generic.h"
#include "tests/unit/kernels_cuda/attention_case.h"

namespace twin::kernels::cuda {
namespace {

struct Variant {
  std::int64_t kv_heads = 1;
  std::int64_t group = 1;
  std::int64_t head_dim = 0;
  std::int64_t block_size = 16;
  std::int64_t window = 0;
  float cap = 0;
};

// Decodes, chunks with and without context, more positions than all warps take at once, and a
// sequence without pages.
void ExpectAttention(const Variant& each) {
  const AttentionShape shape{.heads = each.kv_heads * each.group,
                             .kv_heads = each.kv_heads,
                             .head_dim = each.head_dim,
                             .block_size = each.block_size,
                             .scale = 1 / std::sqrt(static_cast<float>(each.head_dim)),
                             .logit_cap = each.cap,
                             .windows = {each.window}};
  AttentionBatch batch({.shape = shape}, 8, 16, 600);
  Random random(11, "generic attention");
  batch.Draw({{1, 1}, {1, 300}, {1, 0}, {1, 33}, {5, 5}, {3, 40}}, random);
  const TestStream stream;
  const AttentionWork work = batch.Work();
  GenericAttention(stream.view(), batch.Q(), work.device, work.sequences, work.rows, shape,
                   batch.Cache(), 1, each.window, batch.Out());
  stream.Wait();
  batch.ExpectAttention(each.window);
}

TEST(CudaGenericAttentionTest, EveryEvenHeadDimension) {
  for (const std::int64_t head_dim : {2, 8, 12, 24, 64, 66, 96, 128, 130, 256, 320, 512}) {
    SCOPED_TRACE(head_dim);
    ExpectAttention({.group = 1, .head_dim = head_dim});
    ExpectAttention({.group = 3, .head_dim = head_dim});
  }
}

TEST(CudaGenericAttentionTest, EveryGroup) {
  for (const std::int64_t group : {1, 2, 5, 8, 9, 17}) {
    SCOPED_TRACE(group);
    ExpectAttention({.kv_heads = 2, .group = group, .head_dim = 16});
    ExpectAttention({.kv_heads = 2, .group = group, .head_dim = 264});
  }
}

TEST(CudaGenericAttentionTest, EveryBlockSizeWindowAndCap) {
  for (const std::int64_t block_size : {1, 3, 16, 64}) {
    for (const std::int64_t window : {0, 1, 31, 100}) {
      SCOPED_TRACE(window);
      ExpectAttention({.group = 2, .head_dim = 32, .block_size = block_size, .window = window});
      ExpectAttention(
          {.group = 2, .head_dim = 20, .block_size = block_size, .window = window, .cap = 2});
    }
  }
}

}  // namespace
}  // namespace twin::kernels::cuda
