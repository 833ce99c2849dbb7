// Ranks on CUDA devices, as threads on an emulated one: their messages are staged through the host,
// or go over an emulated NCCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "exec/comm/thread_ranks.h"
#include "exec/cuda/nccl_library.h"
#include "exec/generation.h"
#include "exec/grid_backend.h"
#include "exec/rank_groups.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/cuda_emulation/emulated_nccl.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec {
namespace {

constexpr Duration kLong = std::chrono::seconds(60);

struct GridCase {
  Parallelism grid;
  bool nccl = false;
  const char* config = testing::kLlamaConfig;
};

class CudaGridTest : public testing::DeviceModelTest,
                     public ::testing::WithParamInterface<GridCase> {
 protected:
  CudaGridTest() {
    std::string text = GetParam().config;
    const std::string layers = "\"num_hidden_layers\": ";
    text.replace(text.find(layers), layers.size() + 1, layers + "3");
    config_ = ParseModelConfig(text, "config.json");
  }

  std::vector<Generation> GenerateOn(const Parallelism& grid, bool own_devices) {
    std::vector<Generation> generations = testing::Prompts();
    GenerationOptions options{.policy = VllmV1Config{.max_num_batched_tokens = 16,
                                                     .max_num_seqs = 4,
                                                     .pipeline_parallel_size = grid.pipeline},
                              .keep = KeptLogits::kLast,
                              .kv_dtype = DType::kFp16,
                              .block_size = 4};
    RunThreadRanks(grid.devices(), kLong, [&](Communicator& world) {
      const RankGroups groups(world, grid);
      kernels::ThreadPool pool(1);
      const LoadedCudaModel loaded = LoadCudaModel({.config = config_,
                                                    .weights = folder_.path(),
                                                    .format = DType::kFp16,
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
};

TEST_P(CudaGridTest, GivesTheTokensAndLogitsOfOneRank) {
  const std::vector<Generation> one = GenerateOn({}, false);
  cuda_emulation::ResetDevice({.devices = 4});
  if (GetParam().nccl) {
    cuda::SetNcclFinder(
        [] { return std::make_shared<const cuda::NcclLibrary>(cuda_emulation::EmulatedNccl()); });
  }
  const std::vector<Generation> grid = GenerateOn(GetParam().grid, GetParam().nccl);
  cuda::SetNcclFinder(nullptr);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(grid[i].output, one[i].output) << "prompt " << i;
    ASSERT_EQ(grid[i].last_logits.size(), one[i].last_logits.size());
    double gap = 0;
    double norm = 0;
    for (std::size_t j = 0; j < one[i].last_logits.size(); ++j) {
      const double difference =
          static_cast<double>(grid[i].last_logits[j]) - static_cast<double>(one[i].last_logits[j]);
      gap += difference * difference;
      norm +=
          static_cast<double>(one[i].last_logits[j]) * static_cast<double>(one[i].last_logits[j]);
    }
    // Halves are rounded to fp16 before they are summed: 2^-11 a sum, over some sums.
    EXPECT_LT(std::sqrt(gap / norm), 5e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, CudaGridTest,
                         ::testing::Values(GridCase{{2, 1}}, GridCase{{1, 2}}, GridCase{{1, 3}},
                                           GridCase{{2, 2}}, GridCase{{2, 1}, true},
                                           GridCase{{2, 2}, true},
                                           GridCase{{2, 2}, false, testing::kMixtureConfig}),
                         [](const auto& instance) {
                           const GridCase& c = instance.param;
                           return std::to_string(c.grid.tensor) + "x" +
                                  std::to_string(c.grid.pipeline) + (c.nccl ? "_nccl" : "_staged") +
                                  (c.config == testing::kMixtureConfig ? "_mixture" : "");
                         });

}  // namespace
}  // namespace twin::exec
