// Runs on a device and on the emulated one, which has the generic kernel alone.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "tests/unit/kernels_cuda/attention_case.h"
#include "tests/unit/kernels_cuda/attention_kernel_choice.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::int64_t kRowsMax = 512;
constexpr std::int64_t kSequencesMax = 16;
constexpr std::int64_t kPagesMax = 512;

int ComputeCapability() {
  int major = 0;
  int minor = 0;
  CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "asking");
  CheckCuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "asking");
  return 10 * major + minor;
}

std::string WhyNot(const AttentionChoice& choice, const AttentionShape& shape) {
  std::string why = WhyNotAttention(choice.decode, shape, ComputeCapability());
  if (why.empty()) why = WhyNotAttention(choice.prefill, shape, ComputeCapability());
  return why;
}

struct Heads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
};

AttentionShape Shape(const Heads& heads, std::vector<std::int64_t> windows = {0},
                     std::int64_t block_size = 16) {
  return {.heads = heads.heads,
          .kv_heads = heads.kv_heads,
          .head_dim = heads.head_dim,
          .block_size = block_size,
          .scale = 1 / std::sqrt(static_cast<float>(heads.head_dim)),
          .windows = std::move(windows)};
}

void PlanAndRun(PagedAttention& attention, AttentionBatch& batch, std::int64_t window,
                const TestStream& stream) {
  batch.Plan(stream.view(), attention);
  attention.Run(stream.view(), batch.Qkv(), batch.Cache(), 1, window, batch.Out());
}

void ExpectRight(AttentionKernel kernel, const AttentionShape& shape,
                 const std::vector<SequenceLengths>& lengths) {
  const AttentionChoice choice = ChoiceWith(kernel);
  const std::string why = WhyNot(choice, shape);
  if (!why.empty()) GTEST_SKIP() << Name(kernel) << ": " << why;
  PagedAttention attention(shape, choice, kRowsMax, kSequencesMax);
  AttentionBatch batch({.shape = shape}, kSequencesMax, kRowsMax, kPagesMax);
  const TestStream stream;
  Random random(3, "cuda_attention_test");
  for (const std::int64_t window : shape.windows) {
    batch.Draw(lengths, random);
    PlanAndRun(attention, batch, window, stream);
    batch.ExpectAttention(window);
  }
}

const std::vector<SequenceLengths> kDecodes = {{1, 1}, {1, 17}, {1, 300}, {1, 0}, {1, 64}};
const std::vector<SequenceLengths> kPrefills = {{5, 5}, {37, 100}, {70, 70}, {2, 33}};
// More than a tile of queries or keys of kFa3, less, and a whole one.
const std::vector<SequenceLengths> kFresh = {{19, 19}, {200, 200}, {2, 2}, {128, 128}, {5, 5}};
const std::vector<SequenceLengths> kFreshBehindDecodes = {{1, 40}, {1, 0},     {1, 161},
                                                          {7, 7},  {300, 300}, {33, 33}};
const std::vector<SequenceLengths> kMixed = {{1, 40}, {1, 161}, {1, 3}, {19, 19}, {33, 90}};

class CudaAttentionTest : public testing::TestWithParam<std::tuple<AttentionKernel, Heads>> {
 protected:
  [[nodiscard]] static AttentionKernel Kernel() { return std::get<0>(GetParam()); }
  [[nodiscard]] static AttentionShape ShapeOf(std::vector<std::int64_t> windows = {0}) {
    return Shape(std::get<1>(GetParam()), std::move(windows));
  }
};

TEST_P(CudaAttentionTest, OfDecodes) { ExpectRight(Kernel(), ShapeOf(), kDecodes); }
TEST_P(CudaAttentionTest, OfPrefills) { ExpectRight(Kernel(), ShapeOf(), kPrefills); }
TEST_P(CudaAttentionTest, OfDecodesAndPrefillsTogether) {
  ExpectRight(Kernel(), ShapeOf(), kMixed);
}
TEST_P(CudaAttentionTest, OfDecodesAndFreshPrefillsTogether) {
  ExpectRight(Kernel(), ShapeOf(), kFreshBehindDecodes);
}
TEST_P(CudaAttentionTest, InWindowsAndWithout) {
  ExpectRight(Kernel(), ShapeOf({1, 24, 0}), kMixed);
}

std::string ParameterName(const testing::TestParamInfo<std::tuple<AttentionKernel, Heads>>& info) {
  const auto& [kernel, heads] = info.param;
  std::ostringstream name;
  name << Name(kernel) << "_" << heads.heads << "_" << heads.kv_heads << "_" << heads.head_dim;
  return name.str();
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttentionTest,
                         testing::Combine(testing::ValuesIn(TestedAttentionKernels()),
                                          testing::Values(Heads{2, 2, 64}, Heads{4, 2, 64},
                                                          Heads{3, 1, 128}, Heads{8, 2, 128},
                                                          Heads{5, 1, 128}, Heads{14, 2, 64},
                                                          Heads{8, 1, 128}, Heads{4, 1, 256})),
                         ParameterName);

class CudaAttentionKernelTest : public testing::TestWithParam<AttentionKernel> {};

TEST_P(CudaAttentionKernelTest, TakesBlocksOfAnySize) {
  ExpectRight(GetParam(), Shape({4, 1, 64}, {0}, 5), kMixed);
}

TEST_P(CudaAttentionKernelTest, OfFreshPrefillsInWindowsAndWithout) {
  for (const std::int64_t head_dim : {64, 128}) {
    ExpectRight(GetParam(), Shape({4, 2, head_dim}), kFresh);
    ExpectRight(GetParam(), Shape({4, 2, head_dim}, {1, 24, 150, 0}), kFreshBehindDecodes);
  }
}

// What comes of rows and what comes of pages is told apart: the others hold NaN.
TEST_P(CudaAttentionKernelTest, TakesRowsAndPagesInTurn) {
  const AttentionShape shape = Shape({8, 2, 128});
  const AttentionChoice choice = ChoiceWith(GetParam());
  if (const std::string why = WhyNot(choice, shape); !why.empty()) GTEST_SKIP() << why;
  PagedAttention attention(shape, choice, kRowsMax, kSequencesMax);
  AttentionBatch batch({.shape = shape}, kSequencesMax, kRowsMax, kPagesMax);
  const TestStream stream;
  Random random(8, "cuda_attention_test");
  for (const auto& lengths : {kFresh, kPrefills, kDecodes, kFreshBehindDecodes}) {
    batch.Draw(lengths, random);
    PlanAndRun(attention, batch, 0, stream);
    const bool fresh =
        lengths.back().queries > 1 && lengths.back().queries == lengths.back().context;
    EXPECT_EQ(attention.ReadsKeysOfRows(), fresh && choice.prefill == AttentionKernel::kFa3);
    batch.ExpectAttention(0);
  }
}

TEST_P(CudaAttentionKernelTest, OfFreshPrefillsMayTakePages) {
  const AttentionShape shape = Shape({8, 2, 128});
  AttentionChoice choice = ChoiceWith(GetParam());
  choice.fa3_reads_rows = false;
  if (const std::string why = WhyNot(choice, shape); !why.empty()) GTEST_SKIP() << why;
  PagedAttention attention(shape, choice, kRowsMax, kSequencesMax);
  AttentionBatch batch({.shape = shape}, kSequencesMax, kRowsMax, kPagesMax);
  const TestStream stream;
  Random random(9, "cuda_attention_test");
  batch.Draw(kFresh, random);
  PlanAndRun(attention, batch, 0, stream);
  EXPECT_FALSE(attention.ReadsKeysOfRows());
  batch.ExpectAttention(0);
}

// Sequences change, padding with them, and with every replay the plan; the launches do not.
void ExpectReplays(AttentionKernel kernel, const Heads& heads) {
  const AttentionShape shape = Shape(heads);
  const AttentionChoice choice = ChoiceWith(kernel);
  if (const std::string why = WhyNot(choice, shape); !why.empty()) GTEST_SKIP() << why;
  PagedAttention attention(shape, choice, kRowsMax, kSequencesMax);
  AttentionBatch batch({.shape = shape}, kSequencesMax, kRowsMax, kPagesMax);
  const TestStream stream;
  Random random(4, "cuda_attention_test");
  batch.Draw({{1, 1}, {1, 1}, {1, 1}, {1, 1}}, random);
  batch.Plan(stream.view(), attention, /*graph=*/true);
  const TestGraph graph(stream.view(), [&] {
    attention.Run(stream.view(), batch.Qkv(), batch.Cache(), 1, 0, batch.Out());
  });
  const std::vector<std::vector<SequenceLengths>> steps = {{{1, 3}, {1, 700}, {1, 16}, {1, 17}},
                                                           {{1, 1200}, {1, 0}, {1, 0}, {1, 0}},
                                                           {{1, 40}, {1, 41}, {1, 42}, {1, 0}},
                                                           {{1, 0}, {1, 0}, {1, 0}, {1, 0}}};
  for (const auto& lengths : steps) {
    batch.Draw(lengths, random);
    batch.Plan(stream.view(), attention, /*graph=*/true);
    graph.Launch(stream.view());
    batch.ExpectAttention(0);
  }
}

TEST_P(CudaAttentionKernelTest, ReplaysOneGraphForChangingDecodes) {
  const bool by_cuda_core = GetParam() == AttentionKernel::kCudaCore;
  ExpectReplays(GetParam(), by_cuda_core ? Heads{4, 2, 64} : Heads{8, 1, 128});
}

// Four sequences of so many key heads give each of 132 multiprocessors two blocks.
TEST_P(CudaAttentionKernelTest, ReplaysOneGraphForDecodesThatFillTheDevice) {
  ExpectReplays(GetParam(), {64, 64, 64});
}

// A plan holds nothing of the plans before it, which the device may not have read yet.
TEST_P(CudaAttentionKernelTest, PlansAheadOfTheDevice) {
  const AttentionShape shape = Shape({8, 2, 128});
  const AttentionChoice choice = ChoiceWith(GetParam());
  if (const std::string why = WhyNot(choice, shape); !why.empty()) GTEST_SKIP() << why;
  PagedAttention attention(shape, choice, kRowsMax, kSequencesMax);
  const TestStream stream;
  Random random(5, "cuda_attention_test");
  std::vector<std::unique_ptr<AttentionBatch>> batches;
  for (int step = 0; step < 5; ++step) {
    batches.push_back(std::make_unique<AttentionBatch>(AttentionCase{.shape = shape}, kSequencesMax,
                                                       kRowsMax, kPagesMax));
    batches.back()->Draw(step % 2 == 0 ? kMixed : kDecodes, random);
  }
  for (const auto& batch : batches) PlanAndRun(attention, *batch, 0, stream);
  for (const auto& batch : batches) batch->ExpectAttention(0);
}

// Blocks that lie more than 2^32 elements behind the first one.
TEST_P(CudaAttentionKernelTest, FindsBlocksFarBehindTheFirst) {
  const AttentionShape shape = Shape({8, 2, 128});
  const AttentionChoice choice = ChoiceWith(GetParam());
  if (const std::string why = WhyNot(choice, shape); !why.empty()) GTEST_SKIP() << why;
  const std::int64_t layers = 64;
  const std::int64_t block_bytes = layers * 2 * 2 * 16 * 128 * 2;
  const std::int64_t blocks = (std::int64_t{9} << 30) / block_bytes;
  std::size_t free = 0;
  std::size_t total = 0;
  CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (free < static_cast<std::size_t>(blocks * block_bytes) + (std::size_t{1} << 30)) {
    GTEST_SKIP() << "10 GB of device memory are needed";
  }
  PagedAttention attention(shape, choice, kRowsMax, kSequencesMax);
  AttentionBatch batch({.shape = shape, .layers = layers, .blocks = blocks, .last_blocks = true},
                       kSequencesMax, kRowsMax, kPagesMax);
  const TestStream stream;
  Random random(6, "cuda_attention_test");
  batch.Draw(kMixed, random);
  PlanAndRun(attention, batch, 0, stream);
  batch.ExpectAttention(0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaAttentionKernelTest,
                         testing::ValuesIn(TestedAttentionKernels()),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST(CudaAttentionChoiceTest, AShapeThatOnlyTheGenericKernelTakesIsRight) {
  AttentionShape shape = Shape({6, 3, 20});
  shape.logit_cap = 3;
  EXPECT_EQ(BestAttention(shape, 90).decode, AttentionKernel::kGeneric);
  EXPECT_EQ(BestAttention(shape, 90).prefill, AttentionKernel::kGeneric);
  ExpectRight(AttentionKernel::kGeneric, shape, kMixed);
}

TEST(CudaAttentionChoiceTest, TheBestKernelsServeTheirShape) {
  for (const Heads& heads : {Heads{2, 2, 64}, Heads{8, 2, 128}, Heads{4, 2, 64}}) {
    const AttentionShape shape = Shape(heads);
    const AttentionChoice best = BestAttention(shape, ComputeCapability());
    EXPECT_EQ(WhyNot(best, shape), "");
  }
}

TEST(CudaAttentionDeathTest, AStepLargerThanPromisedIsRefused) {
  const AttentionShape shape = Shape({2, 2, 64});
  PagedAttention attention(shape, {}, 4, kSequencesMax);
  AttentionBatch batch({.shape = shape}, kSequencesMax, kRowsMax, kPagesMax);
  const TestStream stream;
  Random random(7, "cuda_attention_test");
  batch.Draw({{5, 5}}, random);
  EXPECT_DEATH(attention.Plan(batch.Work()), "limits_.rows");
}

}  // namespace
}  // namespace twin::kernels::cuda
