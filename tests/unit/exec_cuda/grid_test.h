// Ranks as threads that share the layers of a model, on one CUDA device or several.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "exec/comm/thread_ranks.h"
#include "exec/generation.h"
#include "exec/grid_backend.h"
#include "exec/rank_groups.h"
#include "sched/policy/vllm_v1.h"
#include "tests/support/relative_distance.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::testing {

struct GridCase {
  Parallelism grid;
  const char* config = kLlamaConfig;
};

inline std::string NameOf(const ::testing::TestParamInfo<GridCase>& instance) {
  const GridCase& c = instance.param;
  return std::to_string(c.grid.tensor) + "x" + std::to_string(c.grid.pipeline) +
         (c.config == kMixtureConfig ? "_mixture" : "");
}

class GridTest : public DeviceModelTest, public ::testing::WithParamInterface<GridCase> {
 protected:
  GridTest() { config_ = WithLayers(GetParam().config, 3); }

  std::vector<Generation> GenerateOn(const Parallelism& grid, bool own_devices) {
    constexpr Duration kLong = std::chrono::seconds(60);
    std::vector<Generation> generations = Prompts();
    GenerationOptions options{.policy = VllmV1Config{.max_num_batched_tokens = 16,
                                                     .max_num_seqs = 4,
                                                     .pipeline_parallel_size = grid.pipeline},
                              .keep = KeptLogits::kAll,
                              .kv_dtype = DType::kBf16,
                              .block_size = 4};
    RunThreadRanks(grid.devices(), kLong, [&](Communicator& world) {
      const RankGroups groups(world, grid);
      kernels::ThreadPool pool(1);
      const LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                                    .weights = folder_.path(),
                                                    .format = DType::kBf16,
                                                    .positions = 100,
                                                    .links = groups.links(),
                                                    .device = own_devices ? world.rank() : 0,
                                                    .largest_step = {.tokens = 16, .sequences = 2},
                                                    .tunes = false,
                                                    .checks_finite = true},
                                                   pool);
      if (world.rank() == 0) {
        Generate(*loaded.model, generations, options, &world);
      } else {
        Follow(*loaded.model, world);
      }
    });
    return generations;
  }

  // Of the prompts: behind them the tokens may differ.
  static void ExpectLogitsOfOneRank(const std::vector<Generation>& grid,
                                    const std::vector<Generation>& one) {
    EXPECT_LT(twin::testing::RelativeDistance(PromptLogits(grid), PromptLogits(one)), kSixteenBits);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(grid[i].output.size(), one[i].output.size()) << "prompt " << i;
    }
  }
};

}  // namespace twin::exec::testing
