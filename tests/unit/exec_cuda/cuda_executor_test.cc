// The CUDA executor: on an emulated device, where kernels are carried out by the CPU, and on a GPU.
#include "exec/cuda/cuda_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "exec/generation.h"
#include "exec/profile/synthetic_steps.h"
#include "sched/policy/registry.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::cuda {
namespace {

using testing::DeviceModelTest;
using testing::Options;
using testing::Outputs;
using testing::OutputsOf;
using testing::Prompts;

// Two tokens whose logits differ by less than this, relative to the root mean square of all logits,
// may change places: arithmetic in 16 bits is off by up to 4 percent (README.md of the reference
// models), and each of the two may be.
constexpr double kTie = 0.08;

// Where outputs go apart, both tokens must be nearly as likely: libraries of a real device may
// round otherwise in another batch. Behind such a place nothing is compared.
class TokensByMargin {
 public:
  // `exact` computes in fp32.
  explicit TokensByMargin(DeviceModel& exact) : exact_(exact) {}

  // The largest margin between two tokens at the first difference of an output, or 0 where all are
  // equal. A missing token has an infinite one.
  double Worst(const Outputs& outputs, const Outputs& expected) {
    double worst = outputs.size() == expected.size() ? 0 : HUGE_VAL;
    for (std::size_t i = 0; i < std::min(outputs.size(), expected.size()); ++i) {
      const auto [got, wanted] = std::mismatch(outputs[i].begin(), outputs[i].end(),
                                               expected[i].begin(), expected[i].end());
      if (got == outputs[i].end() && wanted == expected[i].end()) continue;
      if (got == outputs[i].end() || wanted == expected[i].end()) return HUGE_VAL;
      worst = std::max(worst, Margin(i, {expected[i].begin(), wanted}, *got, *wanted));
    }
    return worst;
  }

 private:
  double Margin(std::size_t request, const std::vector<std::int32_t>& before, std::int32_t a,
                std::int32_t b) {
    Generation generation = Prompts()[request];
    generation.prompt.insert(generation.prompt.end(), before.begin(), before.end());
    generation.tokens_max = 1;
    std::vector<Generation> generations = {generation};
    GenerationOptions options = Options(VllmV1Config{}, DType::kFp32);
    options.keep = KeptLogits::kLast;
    Generate(exact_, generations, options);
    const std::vector<float>& logits = generations[0].last_logits;
    double squares = 0;
    for (const float logit : logits) squares += double{logit} * double{logit};
    const double difference = double{logits.at(static_cast<std::size_t>(a))} -
                              double{logits.at(static_cast<std::size_t>(b))};
    return std::abs(difference) / std::sqrt(squares / static_cast<double>(logits.size()));
  }

  DeviceModel& exact_;
};

class CudaExecutorTest : public DeviceModelTest {
 protected:
  // The same tokens; on a real device, but for ties.
  void ExpectAgree(const Outputs& outputs, const Outputs& expected) {
    if (testing::DeviceIsExact()) {
      EXPECT_EQ(outputs, expected);
    } else {
      EXPECT_LE(WorstMargin(outputs, expected), kTie);
    }
  }
  double WorstMargin(const Outputs& outputs, const Outputs& expected) {
    if (exact_ == nullptr) exact_ = LoadOnCpu(DType::kFp32);
    return TokensByMargin(*exact_).Worst(outputs, expected);
  }

 private:
  std::unique_ptr<DeviceModel> exact_;
};

TEST_F(CudaExecutorTest, AWrongTokenHasALargerMarginThanATie) {
  const auto right = OutputsOf(*LoadOnCpu(DType::kFp32), Options(VllmV1Config{}, DType::kFp32));
  EXPECT_EQ(WorstMargin(right, right), 0);
  for (std::size_t i = 0; i < right.size(); ++i) {
    Outputs wrong = right;
    wrong[i][2] = (wrong[i][2] + 1) % 29;
    EXPECT_GT(WorstMargin(wrong, right), kTie) << i;
    wrong = right;
    wrong[i].pop_back();
    EXPECT_EQ(WorstMargin(wrong, right), HUGE_VAL) << i;
  }
}

// Each prompt with its own parameters, all with two alternatives a token.
std::vector<Generation> SampledPrompts() {
  std::vector<Generation> generations = Prompts();
  for (std::size_t i = 0; i < generations.size(); ++i) {
    generations[i].sampling = {.temperature = 0.5F * static_cast<float>(i),
                               .top_k = i == 1 ? 12 : 0,
                               .top_p = i == 2 ? 0.9F : 1.0F,
                               .min_p = i == 3 ? 0.02F : 0.0F,
                               .seed = i,
                               .logprobs = 2};
  }
  return generations;
}

// The device's logits are close to the CPU's, and so are their log-probabilities; on a device whose
// logits are exact, a sampled token depends on no other request.
TEST_F(CudaExecutorTest, SamplesAndTellsLogprobsAsTheCpuDoes) {
  const auto model = Load({});
  std::vector<Generation> together = SampledPrompts();
  Generate(*model, together, Options(VllmV1Config{.async_scheduling = true}));
  std::vector<Generation> alone = SampledPrompts();
  Generate(*model, alone, Options(VllmV1Config{.max_num_seqs = 1}));
  const auto exact = LoadOnCpu(DType::kFp32);
  for (std::size_t i = 0; i < together.size(); ++i) {
    if (testing::DeviceIsExact()) {
      EXPECT_EQ(together[i].output, alone[i].output);
    }
    ASSERT_EQ(together[i].logprobs.size(), together[i].output.size());
    // What was sampled, as a prompt of the CPU.
    std::vector<Generation> again = {{.prompt = together[i].prompt, .tokens_max = 1}};
    again[0].prompt.insert(again[0].prompt.end(), together[i].output.begin(),
                           together[i].output.end());
    GenerationOptions options = Options(VllmV1Config{}, DType::kFp32);
    options.keep = KeptLogits::kAll;
    Generate(*exact, again, options);
    for (std::size_t t = 0; t < together[i].output.size(); ++t) {
      const auto& told = together[i].logprobs[t];
      ASSERT_EQ(told.size(), 3U);
      EXPECT_EQ(told[0].token, together[i].output[t]);
      const auto& logits = again[0].all_logits[together[i].prompt.size() - 1 + t];
      for (const kernels::TokenLogprob& each : told) {
        std::vector<kernels::TokenLogprob> expected;
        kernels::AppendLogprobs(logits, each.token, 0, expected);
        EXPECT_NEAR(each.logprob, expected[0].logprob, 0.15);  // bf16 against fp32
      }
      EXPECT_GE(told[1].logprob, told[2].logprob);
    }
  }
}

// What is told is the CPU's result for the device's own logits, to the last bit.
TEST_F(CudaExecutorTest, LogprobsAreThoseOfItsLogits) {
  const auto model = Load({});
  std::vector<Generation> generations = SampledPrompts();
  for (Generation& generation : generations) generation.sampling.logprobs = 20;
  GenerationOptions options = Options(VllmV1Config{});
  options.keep = KeptLogits::kLast;
  Generate(*model, generations, options);
  for (const Generation& generation : generations) {
    std::vector<kernels::TokenLogprob> expected;
    kernels::AppendLogprobs(generation.last_logits, generation.output.front(), 20, expected);
    const std::vector<kernels::TokenLogprob>& told = generation.logprobs.front();
    ASSERT_EQ(told.size(), expected.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].token, expected[i].token);
      EXPECT_EQ(told[i].logprob, expected[i].logprob);
    }
  }
}

// A replayed graph and launched kernels mask alike, and the logits told beside a token stay whole.
TEST_F(CudaExecutorTest, MaskedTokensDoNotComeBeforeTheirPosition) {
  const auto model = Load({});
  std::vector<Generation> free = SampledPrompts();
  Generate(*model, free, Options(VllmV1Config{.max_num_seqs = 1}));
  std::vector<Generation> masked = SampledPrompts();
  for (std::size_t i = 0; i < masked.size(); ++i) {
    masked[i].sampling.masked_count = 1;
    masked[i].sampling.masked[0] = free[i].output[0];
    masked[i].sampling.unmasked_from = masked[i].prompt.size() + 3;
  }
  std::vector<Generation> alone = masked;
  Generate(*model, alone, Options(VllmV1Config{.max_num_seqs = 1}));
  std::vector<Generation> together = masked;
  Generate(*model, together, Options(VllmV1Config{.async_scheduling = true}));
  const auto launching = Load({.graphs = false});
  std::vector<Generation> launched = masked;
  Generate(*launching, launched, Options(VllmV1Config{.max_num_seqs = 1}));
  for (std::size_t i = 0; i < masked.size(); ++i) {
    const std::int32_t hidden = free[i].output[0];
    for (const auto* run : {&alone, &together, &launched}) {
      const std::vector<std::int32_t>& output = (*run)[i].output;
      EXPECT_EQ(std::count(output.begin(), output.begin() + 3, hidden), 0);
      if (testing::DeviceIsExact()) {
        EXPECT_EQ(output, alone[i].output);
      }
    }
    // The likeliest tokens are those of all logits.
    if (i == 0) {
      EXPECT_EQ(alone[i].logprobs[0][1].token, hidden);
    }
  }
}

TEST_F(CudaExecutorTest, PoliciesChunksAndSwapsChangeNoToken) {
  const auto model = Load({});
  const auto plain = OutputsOf(*model, Options(VllmV1Config{.max_num_seqs = 1}));
  const auto batched = OutputsOf(*model, Options(VllmV1Config{}));
  ExpectAgree(batched, plain);
  ExpectAgree(OutputsOf(*model, Options(VllmV1Config{.max_num_batched_tokens = 7})), plain);
  ExpectAgree(OutputsOf(*model, Options(OrcaConfig{})), plain);
  ExpectAgree(OutputsOf(*model, Options(SarathiConfig{.chunk_size = 9})), plain);
  ExpectAgree(OutputsOf(*model, Options(VllmV1Config{.enable_prefix_caching = true})), plain);
  GenerationCounts counts;
  GenerationOptions tight =
      Options(VllmV0Config{.preemption_mode = VllmV0Config::PreemptionMode::kSwap});
  tight.blocks = 11;
  tight.host_blocks = 40;
  ExpectAgree(OutputsOf(*model, tight, &counts), plain);
  EXPECT_GT(counts.swapped_blocks, 0);
  GenerationOptions recomputing = Options(VllmV1Config{});
  recomputing.blocks = 9;
  ExpectAgree(OutputsOf(*model, recomputing, &counts), plain);
  EXPECT_GT(counts.preemptions, 0);
}

TEST_F(CudaExecutorTest, StepsPlannedAheadTakeTheirTokensOnTheDevice) {
  const auto model = Load({});
  const auto plain = OutputsOf(*model, Options(VllmV1Config{}));
  GenerationOptions ahead = Options(VllmV1Config{.async_scheduling = true});
  ExpectAgree(OutputsOf(*model, ahead), plain);
  ahead.blocks = 9;  // preempted with steps in flight
  ExpectAgree(OutputsOf(*model, ahead), plain);
}

TEST_F(CudaExecutorTest, ReplayedGraphsComputeWhatLaunchedKernelsDo) {
  const auto graphs = Load({.graphs = true});
  const auto replayed = OutputsOf(*graphs, Options(VllmV1Config{.async_scheduling = true}));
  const auto launched = OutputsOf(*Load({.graphs = false}), Options(VllmV1Config{}));
  ExpectAgree(replayed, launched);
}

TEST_F(CudaExecutorTest, TokensAreThoseOfTheCpuInSixteenBits) {
  const auto on_device = OutputsOf(*Load({}), Options(VllmV1Config{}));
  const auto on_cpu = OutputsOf(*LoadOnCpu(DType::kBf16), Options(VllmV1Config{}));
  EXPECT_LE(WorstMargin(on_device, on_cpu), kTie);
}

TEST_F(CudaExecutorTest, AStepMayBeLargerThanTheLargestExpected) {
  const auto small = Load({.largest_step = {.tokens = 4, .sequences = 1}});
  ExpectAgree(OutputsOf(*small, Options(VllmV1Config{.async_scheduling = true})),
              OutputsOf(*Load({}), Options(VllmV1Config{})));
}

TEST_F(CudaExecutorTest, EveryNanosecondOfAStepBelongsToAPart) {
  const auto model = Load({});
  SyntheticSteps steps(*model,
                       {.kv_dtype = DType::kBf16, .block_size = 4, .tokens = 100, .items = 4});
  const StepParts mixed =
      steps.Run(std::vector{ChunkItem(10, 8, true), DecodeItem(17), ChunkItem(0, 3, false)});
  EXPECT_GT(mixed[StepPart::kBuild], Duration{0});
  EXPECT_EQ(mixed[StepPart::kSchedule], Duration{0});
  const StepParts decodes = steps.RunDecodes(3, 8, 4);
  EXPECT_GT(decodes.device(), Duration{0});
}

TEST_F(CudaExecutorTest, OperationsRunThroughAllLayers) {
  const auto model = Load({});
  SyntheticSteps steps(*model,
                       {.kv_dtype = DType::kBf16, .block_size = 4, .tokens = 200, .items = 4});
  const std::unique_ptr<Operations> operations = model->MakeOperations(steps.cache());
  EXPECT_GE(operations->RunGemms(3).sum(), 0);
  EXPECT_GE(operations->RunHead(2), 0);
  EXPECT_GE(operations->RunOther(5).sum(), 0);
  EXPECT_GE(operations->RunAttention(std::vector{ChunkItem(10, 30, true), DecodeItem(50)}), 0);
  EXPECT_GE(operations->RunBlockCopies(3), 0);
}

}  // namespace
}  // namespace twin::exec::cuda
