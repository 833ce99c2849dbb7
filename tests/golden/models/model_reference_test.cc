// Reference models through the code of `twinserve generate`, in small chunks, against their logits
// and tokens. The models were computed in double precision by transformers 4.55.4; the tolerances
// are theirs (20 times the library's own fp32 error, twice its bf16 error).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "core/input_error.h"
#include "exec/cpu/cpu_model.h"
#include "exec/generation.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "sched/policy/vllm_v1.h"
#include "tests/golden/models/reference_generation.h"
#include "tests/golden/models/reference_model.h"

namespace twin {
namespace {

using testing::ReadReference;
using testing::ReferenceModel;
using testing::RelativeDistance;

std::filesystem::path TinyModel() {
  return std::filesystem::path(TWIN_SOURCE_DIR) / "tests" / "golden" / "models" / "tiny-llama";
}

using testing::ExpectReference;
using testing::GenerateFor;
using testing::SmallChunks;

TEST(TinyModelTest, GivesTheReferenceLogitsAndTokens) {
  const ReferenceModel reference = ReadReference(TinyModel());
  ExpectReference(reference, DType::kFp32, testing::LoadOnCpu);
  ExpectReference(reference, DType::kBf16, testing::LoadOnCpu);
}

TEST(TinyModelTest, LogitsOfAnotherPromptAreNoticed) {
  // The comparison itself can fail.
  ReferenceModel reference = ReadReference(TinyModel());
  std::swap(reference.prompts[2].last_logits, reference.prompts[3].last_logits);
  const auto generations =
      GenerateFor(reference, DType::kFp32, SmallChunks(DType::kFp32, exec::KeptLogits::kLast),
                  testing::LoadOnCpu);
  EXPECT_GT(RelativeDistance(generations[2].last_logits, reference.prompts[2].last_logits),
            reference.Tolerance(DType::kFp32).logits);
}

TEST(TinyModelTest, StopsAtTheEndOfSequenceWhereAsked) {
  // Its eos_token_id is what prompt 3 emits at step 4.
  const ReferenceModel reference = ReadReference(TinyModel());
  exec::GenerationOptions options = SmallChunks(DType::kFp32, exec::KeptLogits::kNone);
  options.stops_at_end_tokens = true;
  const auto generations = GenerateFor(reference, DType::kFp32, options, testing::LoadOnCpu);
  const auto& greedy = reference.prompts[3].greedy;
  EXPECT_EQ(generations[3].output, std::vector<std::int32_t>(greedy.begin(), greedy.begin() + 5));
}

// Every row that verifies drafts computes what the step of one token would.
void ExpectDraftsToChangeNothing(const std::filesystem::path& directory) {
  const ReferenceModel reference = ReadReference(directory);
  exec::GenerationOptions options = SmallChunks(DType::kFp32, exec::KeptLogits::kLast);
  const auto plain = GenerateFor(reference, DType::kFp32, options, testing::LoadOnCpu);
  options.policy.Get<VllmV1Config>().speculation.num_speculative_tokens = 3;
  options.ngram = {.lookup_min = 1, .lookup_max = 3};
  const auto drafted = GenerateFor(reference, DType::kFp32, options, testing::LoadOnCpu);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(drafted[i].output, plain[i].output) << "prompt " << i;
    EXPECT_EQ(drafted[i].last_logits, plain[i].last_logits) << "prompt " << i;
  }
}

// Likewise, with drafts of the model itself in bf16, most of which are right.
void ExpectDraftModelToChangeNothing(const std::filesystem::path& directory) {
  const ReferenceModel reference = ReadReference(directory);
  exec::GenerationOptions options = SmallChunks(DType::kFp32, exec::KeptLogits::kLast);
  const auto plain = GenerateFor(reference, DType::kFp32, options, testing::LoadOnCpu);
  kernels::ThreadPool pool(2);
  const exec::ModelConfig config = exec::ReadModelConfig(directory);
  const auto draft =
      testing::LoadOnCpu({directory, config, DType::kBf16, config.shape.max_position}, pool);
  auto& policy = options.policy.Get<VllmV1Config>();
  policy.speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = 3};
  options.draft_model = draft.get();
  const auto drafted = GenerateFor(reference, DType::kFp32, options, testing::LoadOnCpu);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(drafted[i].output, plain[i].output) << "prompt " << i;
    EXPECT_EQ(drafted[i].last_logits, plain[i].last_logits) << "prompt " << i;
  }
}

TEST(TinyModelTest, DraftsChangeNoToken) { ExpectDraftsToChangeNothing(TinyModel()); }

TEST(TinyModelTest, ADraftModelChangesNoToken) { ExpectDraftModelToChangeNothing(TinyModel()); }

TEST(AttentionModelsTest, GiveTheReferenceLogitsAndTokens) {
  const std::vector<std::filesystem::path> folders = testing::AttentionReferences();
  EXPECT_EQ(folders.size(), 5U);
  for (const std::filesystem::path& folder : folders) {
    SCOPED_TRACE(folder.filename());
    const ReferenceModel reference = ReadReference(folder);
    ExpectReference(reference, DType::kFp32, testing::LoadOnCpu);
    ExpectReference(reference, DType::kBf16, testing::LoadOnCpu);
  }
}

TEST(AttentionModelsTest, EveryMistakeTriedExceedsTheTolerance) {
  for (const std::filesystem::path& folder : testing::AttentionReferences()) {
    const ReferenceModel reference = ReadReference(folder);
    const double tolerance = reference.Tolerance(DType::kBf16).logits;
    for (const auto& [mistake, distance] : reference.facts.at("mistakes_rel_l2").items()) {
      EXPECT_GT(distance.get<double>(), 3 * tolerance) << folder.filename() << ": " << mistake;
    }
  }
}

class ReferenceModelsTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (testing::ReferenceModels().empty()) {
      GTEST_SKIP() << "golden data set not found; set TWIN_SHARED to the folder that holds golden/";
    }
  }
};

TEST_P(ReferenceModelsTest, GiveTheReferenceLogitsAndTokens) {
  const std::int32_t compared = testing::ExpectAllReferences(GetParam(), testing::LoadOnCpu);
  // 21 of group main, 6 dense ones of group later; 3 mixtures, which state none for bf16.
  EXPECT_EQ(compared, GetParam() == DType::kFp32 ? 30 : 27);
}

TEST(ReferenceDraftsTest, ChangeNoToken) {
  if (testing::ReferenceModels().empty()) {
    GTEST_SKIP() << "golden data set not found; set TWIN_SHARED to the folder that holds golden/";
  }
  for (const std::string& name : testing::ReferenceNames()) {
    SCOPED_TRACE(name);
    ExpectDraftsToChangeNothing(testing::ReferenceModels() / name);
    ExpectDraftModelToChangeNothing(testing::ReferenceModels() / name);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, ReferenceModelsTest,
                         ::testing::Values(DType::kFp32, DType::kBf16),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

}  // namespace
}  // namespace twin
