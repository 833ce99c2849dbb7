// Models whose layers differ, or attend in another way than to plain heads, against the logits and
// tokens that transformers 5.17 computes in double precision (make_layered_models.py): in chunks,
// in batches, one by one and under preemption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/input_error.h"
#include "exec/cpu/cpu_model.h"
#include "exec/generation.h"
#include "exec/model/weights.h"
#include "sched/policy/vllm_v1.h"
#include "tests/golden/models/reference_generation.h"
#include "tests/golden/models/reference_model.h"

namespace twin {
namespace {

using ::testing::HasSubstr;
using testing::ReadReference;
using testing::ReferenceModel;

class LayeredModelsTest : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override { reference_ = ReadReference(GetParam()); }

  // The outputs of all prompts; logits after every prompt token.
  std::vector<exec::Generation> Generate(const exec::GenerationOptions& options) const {
    return testing::GenerateFor(reference_, DType::kFp32, options, testing::LoadOnCpu);
  }

  ReferenceModel reference_;
};

void ExpectEqual(const std::vector<exec::Generation>& a, const std::vector<exec::Generation>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].output, b[i].output) << "prompt " << i;
    EXPECT_EQ(a[i].last_logits, b[i].last_logits) << "prompt " << i;
    EXPECT_EQ(a[i].all_logits, b[i].all_logits) << "prompt " << i;
  }
}

TEST_P(LayeredModelsTest, GivesTheReferenceLogitsAndTokens) {
  testing::ExpectReference(reference_, DType::kFp32, testing::LoadOnCpu);
  if (reference_.HasTolerance(DType::kBf16)) {
    testing::ExpectReference(reference_, DType::kBf16, testing::LoadOnCpu);
  }
}

// The stored weights are bf16, so that weights of this format with a cache of fp32 are exact unless
// products round their input.
TEST_P(LayeredModelsTest, WeightsOfBf16GiveTheReferenceWhereInputsAreNotRounded) {
  const auto load = [](const testing::ReferenceLoad& asked,
                       kernels::ThreadPool& pool) -> std::unique_ptr<exec::DeviceModel> {
    exec::LoadedWeights loaded =
        exec::LoadWeights(asked.directory, asked.config, DType::kBf16, pool);
    return std::make_unique<exec::CpuModel>(asked.config, std::move(loaded.weights),
                                            asked.positions, pool);
  };
  if (kernels::BestInstructionSet() == kernels::InstructionSet::kAvx512Bf16) {
    GTEST_SKIP() << "products of this machine round their input";
  }
  testing::ExpectReference(reference_, DType::kFp32, load);
}

TEST_P(LayeredModelsTest, EveryMistakeTriedExceedsTheTolerance) {
  const double tolerance = reference_.Tolerance(DType::kFp32).logits;
  for (const auto& [mistake, distance] : reference_.facts.at("mistakes_rel_l2").items()) {
    EXPECT_GT(distance.get<double>(), 3 * tolerance) << mistake;
  }
}

TEST_P(LayeredModelsTest, ChunksAndBatchesChangeNoBit) {
  exec::GenerationOptions whole = testing::SmallChunks(DType::kFp32, exec::KeptLogits::kAll);
  whole.policy = VllmV1Config{.max_num_batched_tokens = 1024, .max_num_seqs = 1};
  whole.block_size = 16;
  ExpectEqual(Generate(testing::SmallChunks(DType::kFp32, exec::KeptLogits::kAll)),
              Generate(whole));
}

TEST_P(LayeredModelsTest, PreemptionChangesNoToken) {
  exec::GenerationOptions scarce = testing::SmallChunks(DType::kFp32, exec::KeptLogits::kLast);
  const std::vector<exec::Generation> expected = Generate(scarce);
  // The two longest prompts have 185 tokens, which fit into blocks of 5; their outputs do not.
  scarce.blocks = 38;
  scarce.policy.Get<VllmV1Config>().scheduler_reserve_full_isl = false;
  std::vector<exec::Generation> got = expected;
  for (exec::Generation& generation : got) generation.output.clear();
  kernels::ThreadPool pool(2);
  const auto model = testing::LoadOnCpu({.directory = GetParam(),
                                         .config = exec::ReadModelConfig(GetParam()),
                                         .dtype = DType::kFp32,
                                         .positions = exec::LongestSequence(got)},
                                        pool);
  EXPECT_GT(exec::Generate(*model, got, scarce).preemptions, 0);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].output, expected[i].output);
}

TEST_P(LayeredModelsTest, OtherWeightFormatsAreRefused) {
  kernels::ThreadPool pool(1);
  const exec::ModelConfig config = exec::ReadModelConfig(GetParam());
  for (const DType format : {DType::kInt8, DType::kInt4}) {
    try {
      (void)exec::LoadWeights(GetParam(), config, format, pool);
      ADD_FAILURE() << "loaded as " << Name(format);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("is not computed for model_type " + config.model_type +
                                          "; allowed: fp32, bf16"));
    }
  }
}

TEST(ModelsWithStatesTest, RefuseWhatBeginsInTheMiddleOfARequest) {
  const ReferenceModel reference =
      ReadReference(testing::ReferencesNamed("layered-qwen3-next").front());
  const auto refusal = [&](const exec::GenerationOptions& options) -> std::string {
    try {
      (void)testing::GenerateFor(reference, DType::kFp32, options, testing::LoadOnCpu);
    } catch (const InputError& error) {
      return error.what();
    }
    return "computed";
  };
  exec::GenerationOptions options = testing::SmallChunks(DType::kFp32, exec::KeptLogits::kNone);
  EXPECT_EQ(refusal(options), "computed");
  options.policy.Get<VllmV1Config>().enable_prefix_caching = true;
  EXPECT_THAT(refusal(options), HasSubstr("recurrent layers, whose states do not allow prefix "
                                          "caching; allowed: to compute each request from"));
  options.policy.Get<VllmV1Config>().enable_prefix_caching = false;
  options.host_blocks = 4;
  EXPECT_THAT(refusal(options), HasSubstr("states do not allow swapping of blocks"));
}

INSTANTIATE_TEST_SUITE_P(All, LayeredModelsTest,
                         ::testing::ValuesIn(testing::ReferencesNamed("layered-")),
                         [](const auto& instance) {
                           std::string name = instance.param.filename();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace twin
