// Ranks on one CUDA device: their messages are staged through the host, because NCCL does not
// connect two ranks of one device. On an emulated device, and on a GPU.
#include "tests/unit/exec_cuda/grid_test.h"

namespace twin::exec {
namespace {

using testing::GridCase;

using CudaGridTest = testing::GridTest;

TEST_P(CudaGridTest, GivesTheLogitsOfOneRank) {
  const std::vector<Generation> one = GenerateOn({}, false);
  ExpectLogitsOfOneRank(GenerateOn(GetParam().grid, false), one);
}

INSTANTIATE_TEST_SUITE_P(Staged, CudaGridTest,
                         ::testing::Values(GridCase{{2, 1}}, GridCase{{1, 2}}, GridCase{{1, 3}},
                                           GridCase{{2, 2}},
                                           GridCase{{2, 2}, testing::kMixtureConfig}),
                         testing::NameOf);

}  // namespace
}  // namespace twin::exec
