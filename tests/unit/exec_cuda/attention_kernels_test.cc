// One model by every attention kernel: a Llama-3-8B of two layers on a GPU, a small one on the
// emulated device.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "exec/cuda/cuda_model.h"
#include "kernels/cuda/attention.h"
#include "tests/unit/exec_cuda/device_model.h"
#include "tests/unit/kernels_cuda/attention_kernel_choice.h"
#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::exec::cuda {
namespace {

using kernels::cuda::AttentionChoice;
using kernels::cuda::ChoiceWith;

constexpr const char* kTwoLayersOfLlama3 = R"({"model_type": "llama", "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 2, "num_attention_heads": 32,
  "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
  "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": false})";

// Relative to the norm of the logits. Kernels round the weights of values to 16 bits, or partial
// results of split keys, each by up to 2^-9; a wrong mask, head or block changes logits by all of
// their norm.
constexpr double kDistanceMax = 0.04;

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double gap = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    gap += (double{a.at(i)} - double{b[i]}) * (double{a.at(i)} - double{b[i]});
    norm += double{b[i]} * double{b[i]};
  }
  return std::sqrt(gap / norm);
}

std::int32_t ComputeCapability() {
  int major = 0;
  int minor = 0;
  CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "asking");
  CheckCuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "asking");
  return 10 * major + minor;
}

using Logits = std::vector<std::vector<float>>;

// Computes prompts on one executor, in steps that a test chooses.
class Prompts {
 public:
  Prompts(DeviceModel& model, const std::vector<std::int32_t>& lengths)
      : executor_(model.MakeExecutor({.kv_dtype = DType::kBf16,
                                      .block_size = kBlockSize,
                                      .blocks = 200,
                                      .returns_logits = true})),
        computed_(lengths.size()) {
    Random random(11, "attention_kernels_test");
    std::int32_t block = 0;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      std::vector<std::int32_t> prompt;
      for (std::int32_t t = 0; t < lengths[r]; ++t) {
        prompt.push_back(static_cast<std::int32_t>(random.UniformInt(0, 28)));
      }
      executor_->Open(Request(r), prompt, {});
      for (std::int32_t t = 0; t < lengths[r]; t += kBlockSize) {
        next_.kv.push_back({KvOperation::Kind::kAllocate, Request(r), BlockId{block++}});
      }
    }
  }

  // The next `tokens` of a prompt become part of the next step.
  void Add(std::size_t request, std::int32_t tokens, bool emits) {
    next_.work.push_back({.request = Request(request),
                          .start = computed_[request],
                          .tokens = tokens,
                          .emits = emits});
    computed_[request] += tokens;
  }
  // Runs the step; returns the logits of what emits.
  Logits Step() {
    executor_->Launch(next_);
    const ComputedStep step = executor_->Collect();
    Logits logits;
    for (const LogitRow& row : step.logits) {
      logits.emplace_back(row.logits.begin(), row.logits.end());
    }
    next_ = {};
    return logits;
  }

 private:
  static constexpr std::int32_t kBlockSize = 16;
  static RequestId Request(std::size_t r) { return RequestId{static_cast<std::uint32_t>(r)}; }

  std::unique_ptr<Executor> executor_;
  std::vector<std::int32_t> computed_;
  StepPlan next_;
};

class AttentionKernelsTest : public ::testing::TestWithParam<AttentionKernel> {
 protected:
  void SetUp() override { testing::PrepareDevice(); }

  // Logits of a decode beside a chunk, of this chunk, and of decodes alone, replayed from a graph.
  // All but the last token of the decoded prompts are computed in chunks.
  Logits LogitsBy(const AttentionChoice& choice) {
    // What a CPU carries out must be small.
    const std::int32_t unit = testing::DeviceIsExact() ? 1 : 12;
    const LoadedCudaModel loaded = LoadCudaModel(
        {.config = ParseModelConfig(
             testing::DeviceIsExact() ? testing::kLlamaConfig : kTwoLayersOfLlama3, "config.json"),
         .seed = 3,
         .positions = 100 * unit,
         .largest_step = {.tokens = 24 * unit, .sequences = 4},
         .tunes = false,
         .attention = choice,
         .checks_finite = true},
        pool_);
    Prompts prompts(*loaded.model, {58 * unit + 1, 28 * unit + 1, unit + 1, 36 * unit});
    for (const std::int32_t tokens : {24, 24, 10}) {
      prompts.Add(0, tokens * unit, false);
      prompts.Step();
    }
    prompts.Add(1, 14 * unit, false);
    prompts.Add(2, unit, false);
    prompts.Step();
    prompts.Add(1, 14 * unit, false);
    prompts.Add(3, 10 * unit, false);
    prompts.Step();
    prompts.Add(3, 16 * unit, false);
    prompts.Step();
    prompts.Add(0, 1, true);
    prompts.Add(3, 10 * unit, true);
    Logits logits = prompts.Step();
    prompts.Add(1, 1, true);
    prompts.Add(2, 1, true);
    for (std::vector<float>& row : prompts.Step()) logits.push_back(std::move(row));
    return logits;
  }

  kernels::ThreadPool pool_{2};
};

TEST_P(AttentionKernelsTest, GiveTheLogitsOfTheKernelForAnyShape) {
  const AttentionChoice choice = ChoiceWith(GetParam());
  const kernels::cuda::AttentionShape shape{
      .heads = 32, .kv_heads = 8, .head_dim = 128, .block_size = 16, .windows = {0}};
  for (const AttentionKernel kernel : {choice.decode, choice.prefill}) {
    const std::string why = WhyNotAttention(kernel, shape, ComputeCapability());
    if (!why.empty()) GTEST_SKIP() << Name(kernel) << ": " << why;
  }
  const Logits expected = LogitsBy({});
  const Logits found = LogitsBy(choice);
  ASSERT_EQ(expected.size(), 4U);
  ASSERT_EQ(found.size(), 4U);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double distance = Distance(found[i], expected[i]);
    EXPECT_LE(distance, kDistanceMax) << i;
    std::printf("%-10s logits %zu: relative L2 %.1e\n", std::string(Name(GetParam())).c_str(), i,
                distance);
    // Other prompts have other logits: the comparison can fail.
    EXPECT_GT(Distance(found[i], expected[(i + 1) % 4]), 3 * kDistanceMax) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionKernelsTest,
                         ::testing::ValuesIn(kernels::cuda::TestedAttentionKernels()),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace twin::exec::cuda
