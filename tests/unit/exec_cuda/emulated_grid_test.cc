// Ranks on emulated devices of their own, connected by an emulated NCCL.
#include <memory>

#include "exec/cuda/nccl_library.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/cuda_emulation/emulated_nccl.h"
#include "tests/unit/exec_cuda/grid_test.h"

namespace twin::exec {
namespace {

using testing::GridCase;

using EmulatedGridTest = testing::GridTest;

TEST_P(EmulatedGridTest, GivesTheLogitsOfOneRank) {
  const std::vector<Generation> one = GenerateOn({}, false);
  cuda_emulation::ResetDevice({.devices = 4});
  cuda::SetNcclFinder(
      [] { return std::make_shared<const cuda::NcclLibrary>(cuda_emulation::EmulatedNccl()); });
  const std::vector<Generation> grid = GenerateOn(GetParam().grid, true);
  cuda::SetNcclFinder(nullptr);
  ExpectLogitsOfOneRank(grid, one);
}

INSTANTIATE_TEST_SUITE_P(Nccl, EmulatedGridTest,
                         ::testing::Values(GridCase{{2, 1}}, GridCase{{2, 2}}), testing::NameOf);

}  // namespace
}  // namespace twin::exec
