// Models whose layers differ in the real world: with any policy they give the tokens of one request
// at a time, and their records replay to the same plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "exec/generation.h"
#include "exec/model/cache_shape.h"
#include "exec/model/weights.h"
#include "exec/request_tokens.h"
#include "tests/unit/exec/real_run.h"

namespace twin::exec {
namespace {

using testing::kPositions;
using testing::kVocab;
using testing::RealRun;
using twin::testing::Asked;
using twin::testing::ListedSource;

constexpr KvPoolConfig kTight{.block_size = 4, .blocks = 26};

// Four requests at once, then one every 100 us.
std::vector<TracedRequest> Requests() {
  const std::int32_t prompts[] = {40, 13, 1, 22, 9, 31, 17};
  std::vector<TracedRequest> requests;
  for (const std::int32_t prompt : prompts) {
    const auto number = static_cast<std::int32_t>(requests.size());
    const TimePoint at = kTimeZero + std::chrono::microseconds(number < 4 ? 0 : 100 * number);
    requests.push_back(Asked(at, prompt, 12 + number));
  }
  return requests;
}

class RealLayeredModelsTest : public ::testing::TestWithParam<const char*> {
 protected:
  static CpuModel Load(kernels::ThreadPool& pool) {
    const std::filesystem::path folder =
        std::filesystem::path(TWIN_SOURCE_DIR) / "tests" / "golden" / "models" / GetParam();
    const ModelConfig config = ReadModelConfig(folder);
    return {config, LoadWeights(folder, config, DType::kFp32, pool).weights, kPositions, pool};
  }

  std::vector<Generation> OneByOne() {
    RequestTokens tokens(/*seed=*/0, kVocab);
    std::vector<Generation> generations;
    for (const TracedRequest& request : Requests()) {
      const RequestId id{static_cast<std::uint32_t>(generations.size())};
      generations.push_back({tokens.Open(id, request), request.max_output_tokens});
    }
    Generate(model_, generations, {.policy = VllmV1Config{.max_num_seqs = 1}});
    return generations;
  }

  // Returns how often requests were preempted.
  std::size_t ExpectSame(const PolicyConfig& policy) {
    CpuExecutor backend(model_, {.block_size = kTight.block_size, .blocks = kTight.blocks});
    ListedSource source(Requests());
    RealRun run(source, backend, policy, kTight, {.max_model_length = kPositions});
    run.Serve();
    run.engine().CheckDrained();
    EXPECT_EQ(run.ReplayDifference(), "");
    const std::vector<Generation> expected = OneByOne();
    for (std::uint32_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(run.outputs[RequestId{i}], expected[i].output) << "request " << i;
    }
    return run.watcher.preemptions;
  }

  kernels::ThreadPool pool_{2};
  CpuModel model_ = Load(pool_);
};

TEST_P(RealLayeredModelsTest, PreemptedRequestsGiveTheirTokens) {
  EXPECT_GT(
      ExpectSame(VllmV1Config{.max_num_batched_tokens = 64, .scheduler_reserve_full_isl = false}),
      0U);
  EXPECT_GT(ExpectSame(VllmV0Config{}), 0U);
}

TEST_P(RealLayeredModelsTest, StepsMayBePlannedBeforeTheirTokensAreKnown) {
  EXPECT_GT(ExpectSame(VllmV1Config{.max_num_batched_tokens = 16,
                                    .async_scheduling = true,
                                    .scheduler_reserve_full_isl = false}),
            0U);
}

TEST_P(RealLayeredModelsTest, ChunksAndPaddedBatchesGiveTheTokens) {
  ExpectSame(SarathiConfig{.chunk_size = 10, .max_model_len = 100});
  ExpectSame(StaticConfig{.max_batch_size = 1, .max_model_len = 100});
}

TEST_P(RealLayeredModelsTest, PrefixesAreSharedWhereThereAreNoStates) {
  if (HasStates(model_.config().shape)) GTEST_SKIP() << "prefix caching is refused";
  ExpectSame(
      VllmV1Config{.max_num_batched_tokens = 16, .max_num_seqs = 4, .enable_prefix_caching = true});
}

INSTANTIATE_TEST_SUITE_P(Models, RealLayeredModelsTest,
                         ::testing::Values("layered-deepseek-v3", "layered-gpt-oss",
                                           "layered-qwen3-next", "layered-minimax-m2"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace twin::exec
