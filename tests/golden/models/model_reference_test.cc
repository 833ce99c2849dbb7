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
#include "tests/golden/models/reference_model.h"

namespace twin {
namespace {

using exec::Generation;
using testing::ReadReference;
using testing::ReferenceModel;
using testing::ReferencePrompt;
using testing::RelativeDistance;

std::filesystem::path TinyModel() {
  return std::filesystem::path(TWIN_SOURCE_DIR) / "tests" / "golden" / "models" / "tiny-llama";
}

// Chunks of at most 13 tokens, three requests at a time, blocks of 5: nothing divides anything.
exec::GenerationOptions SmallChunks(DType dtype, exec::KeptLogits keep) {
  exec::GenerationOptions options;
  options.policy = VllmV1Config{.max_num_batched_tokens = 13, .max_num_seqs = 3};
  options.keep = keep;
  options.kv_dtype = dtype;
  options.block_size = 5;
  return options;
}

std::vector<Generation> GenerateFor(const ReferenceModel& reference, DType dtype,
                                    const exec::GenerationOptions& options) {
  kernels::ThreadPool pool(2);
  exec::ModelConfig config = exec::ReadModelConfig(reference.directory);
  exec::LoadedWeights loaded = exec::LoadWeights(reference.directory, config, dtype, pool);
  EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings.front();
  std::vector<Generation> generations;
  std::size_t longest = 0;
  for (const ReferencePrompt& prompt : reference.prompts) {
    const auto tokens = static_cast<std::int32_t>(prompt.greedy.size());
    generations.push_back({.prompt = prompt.tokens, .tokens_max = tokens});
    longest = std::max(longest, prompt.tokens.size() + prompt.greedy.size());
  }
  exec::CpuModel model(std::move(config), std::move(loaded.weights),
                       static_cast<std::int32_t>(longest), pool);
  exec::Generate(model, generations, options);
  return generations;
}

void ExpectReference(const ReferenceModel& reference, DType dtype) {
  const std::vector<Generation> generations =
      GenerateFor(reference, dtype, SmallChunks(dtype, exec::KeptLogits::kAll));
  const testing::ReferenceTolerance tolerance = reference.Tolerance(dtype);
  double worst = 0;
  for (std::size_t i = 0; i < generations.size(); ++i) {
    const ReferencePrompt& expected = reference.prompts[i];
    worst = std::max(worst, RelativeDistance(generations[i].last_logits, expected.last_logits));
    for (std::size_t j = 0; j < expected.all_logits.size(); ++j) {
      worst =
          std::max(worst, RelativeDistance(generations[i].all_logits[j], expected.all_logits[j]));
    }
    const std::int32_t wrong =
        testing::FirstWrongToken(generations[i].output, expected, tolerance.margin);
    EXPECT_EQ(wrong, -1) << "prompt " << i << ": the first step with another token";
  }
  EXPECT_LE(worst, tolerance.logits);
  std::printf("%-20s %s: worst relative L2 %.1e, tolerance %.1e\n",
              reference.directory.filename().c_str(), std::string(Name(dtype)).c_str(), worst,
              tolerance.logits);
}

TEST(TinyModelTest, GivesTheReferenceLogitsAndTokens) {
  const ReferenceModel reference = ReadReference(TinyModel());
  ExpectReference(reference, DType::kFp32);
  ExpectReference(reference, DType::kBf16);
}

TEST(TinyModelTest, LogitsOfAnotherPromptAreNoticed) {
  // The comparison itself can fail.
  ReferenceModel reference = ReadReference(TinyModel());
  std::swap(reference.prompts[2].last_logits, reference.prompts[3].last_logits);
  const auto generations =
      GenerateFor(reference, DType::kFp32, SmallChunks(DType::kFp32, exec::KeptLogits::kLast));
  EXPECT_GT(RelativeDistance(generations[2].last_logits, reference.prompts[2].last_logits),
            reference.Tolerance(DType::kFp32).logits);
}

TEST(TinyModelTest, StopsAtTheEndOfSequenceWhereAsked) {
  // Its eos_token_id is what prompt 3 emits at step 4.
  const ReferenceModel reference = ReadReference(TinyModel());
  exec::GenerationOptions options = SmallChunks(DType::kFp32, exec::KeptLogits::kNone);
  options.stops_at_end_tokens = true;
  const auto generations = GenerateFor(reference, DType::kFp32, options);
  const auto& greedy = reference.prompts[3].greedy;
  EXPECT_EQ(generations[3].output, std::vector<std::int32_t>(greedy.begin(), greedy.begin() + 5));
}

// Mixtures of experts, which config.json is refused for.
const std::map<std::string, std::string> kUnsupported = {
    {"mixtral", "mixtral"}, {"qwen2-moe", "qwen2_moe"}, {"qwen3-moe", "qwen3_moe"}};

std::set<std::string> ModelNames() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(testing::ReferenceModels())) {
    const std::string name = entry.path().filename().string();
    if (name != "bad" && entry.is_directory()) names.insert(name);
  }
  return names;
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
  const std::filesystem::path folder = testing::ReferenceModels();
  std::int32_t compared = 0;
  for (const std::string& name : ModelNames()) {
    SCOPED_TRACE(name);
    if (const auto unsupported = kUnsupported.find(name); unsupported != kUnsupported.end()) {
      try {
        exec::ReadModelConfig(folder / name);
        ADD_FAILURE() << "was not refused";
      } catch (const InputError& error) {
        EXPECT_NE(std::string(error.what()).find(unsupported->second), std::string::npos);
      }
      continue;
    }
    ExpectReference(ReadReference(folder / name), GetParam());
    ++compared;
  }
  EXPECT_EQ(compared, 27);  // 21 of group main, 6 dense ones of group later
}

INSTANTIATE_TEST_SUITE_P(Precisions, ReferenceModelsTest,
                         ::testing::Values(DType::kFp32, DType::kBf16),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

}  // namespace
}  // namespace twin
