// How many kernels a captured decode step has: each costs microseconds at small batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/cuda_executor.h"
#include "exec/generation.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec::cuda {
namespace {

using testing::DeviceModelTest;

class DecodeNodesTest : public DeviceModelTest {
 protected:
  void MakeModel(std::int64_t layers) {
    config_ = testing::WithLayers(testing::kLlamaConfig, layers);
    folder_.WriteWeights(testing::RandomTensors(config_, "model."));
  }

  // Of the graph that the last step of a few decodes of `sequences` requests replayed.
  cuda_emulation::DeviceCounts CountsOfDecodes(std::int32_t sequences) {
    const LoadedCudaModel loaded =
        LoadCudaModel({.config = config_,
                       .weights = folder_.path(),
                       .positions = 100,
                       .largest_step = {.tokens = 64, .sequences = sequences},
                       .tunes = false},
                      pool_);
    const auto executor = loaded.model->MakeExecutor(
        {.kv_dtype = DType::kBf16, .blocks = sequences, .returns_logits = false});
    for (std::int32_t step = 0; step < 4; ++step) {
      StepPlan plan;
      for (std::int32_t i = 0; i < sequences; ++i) {
        const RequestId request{static_cast<std::uint32_t>(i)};
        if (step == 0) {
          executor->Open(request, std::vector<std::int32_t>{1, 2, 3}, {});
          plan.kv.push_back({KvOperation::Kind::kAllocate, request, BlockId{i}});
        }
        plan.work.push_back({.request = request,
                             .start = step == 0 ? 0 : 2 + step,
                             .tokens = step == 0 ? 3 : 1,
                             .emits = true});
      }
      executor->Launch(plan);
      executor->Collect();
    }
    return cuda_emulation::Counts();
  }
};

// Of a layer: QKV, RoPE with the append to the cache, attention, O, sum and norm, gate and up,
// activation, down, sum and norm. Of a step: embedding, first norm, head, sampling. A device adds
// a kernel where attention is computed in pieces (one a layer) and where a product's sums are
// split.
TEST_F(DecodeNodesTest, ALlamaDecodeHasNineKernelsALayerAndFourMore) {
  for (const std::int64_t layers : {1, 2, 5}) {
    MakeModel(layers);
    for (const std::int32_t sequences : {1, 4}) {
      cuda_emulation::ResetDevice();
      const cuda_emulation::DeviceCounts counts = CountsOfDecodes(sequences);
      EXPECT_EQ(counts.graph_launches, 3);
      EXPECT_EQ(counts.kernels_of_last_graph, 9 * layers + 4) << sequences << " sequences";
      EXPECT_EQ(counts.nodes_of_last_graph, counts.kernels_of_last_graph);
    }
  }
}

// Otherwise tests on the emulated device could not find kernels that read before they wait.
TEST_F(DecodeNodesTest, KernelsOfADecodeStartBeforeTheOnesInFrontEnd) {
  MakeModel(2);
  EXPECT_GT(CountsOfDecodes(1).kernels_started_early, 3 * 2 * 5);
}

}  // namespace
}  // namespace twin::exec::cuda
