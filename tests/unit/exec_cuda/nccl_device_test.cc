// NCCL on one GPU: a group of one rank joins, computes in stream order and under capture, and ends.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "exec/comm/thread_ranks.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/nccl_communicator.h"

namespace twin::exec::cuda {
namespace {

TEST(NcclDeviceTest, AGroupOfOneRankComputesUnderCaptureToo) {
  const std::shared_ptr<const NcclLibrary> library = FindNccl();
  if (!library->usable()) GTEST_SKIP() << library->why();
  RunThreadRanks(1, kRankTimeout, [&](Communicator& host) {
    NcclCommunicator group(library, host);
    const Stream stream;
    const std::vector<float> values = {1, -2, 3.5F, 0.25F};
    const std::size_t bytes = values.size() * sizeof(float);
    const DeviceBuffer own(static_cast<std::int64_t>(bytes), "test values");
    const DeviceBuffer all(static_cast<std::int64_t>(bytes), "test values");
    CheckCuda(cudaMemcpy(own.data(), values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    // A copy from pageable memory may still be on its way, and the stream would not wait for it.
    CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const Graph graph = Graph::Capture(stream.view(), [&] {
      group.AllReduceSum(stream.view(), own.data(), 4, DType::kFp32);
      group.AllGather(stream.view(), own.data(), all.data(), static_cast<std::int64_t>(bytes));
    });
    for (int replay = 0; replay < 3; ++replay) graph.Launch(stream.view());
    const Event done(Event::Kind::kOrder);
    done.Record(stream.view());
    group.Await(done, Patience::kBounded);
    std::vector<float> found(values.size());
    CheckCuda(cudaMemcpy(found.data(), all.data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    EXPECT_EQ(found, values);
  });
}

}  // namespace
}  // namespace twin::exec::cuda
