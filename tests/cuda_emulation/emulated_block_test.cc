// Kernels on the emulated device: threads, barriers, exchanges within warps, shared memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/block_memory.cuh"
#include "kernels/cuda/launch.cuh"
#include "tests/cuda_emulation/emulated_device.h"

namespace twin::cuda_emulation {
namespace {

using kernels::cuda::BlockShared;
using kernels::cuda::DynamicShared;
using testing::HasSubstr;

template <class... Parameters, class... Arguments>
cudaError_t RunKernel(dim3 blocks, dim3 threads, std::size_t shared, void (*kernel)(Parameters...),
                      Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  if (const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...)) return error;
  return cudaDeviceSynchronize();
}

class EmulatedBlockTest : public testing::Test {
 protected:
  void SetUp() override {
    ResetDevice();
    ASSERT_EQ(cudaMalloc(&numbers_, kCount * sizeof(int)), cudaSuccess);
  }
  void TearDown() override { ResetDevice(); }

  std::vector<int> Numbers(std::size_t count) {
    std::vector<int> host(count);
    EXPECT_EQ(cudaMemcpy(host.data(), numbers_, count * sizeof(int), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return host;
  }

  static constexpr std::size_t kCount = 4096;
  int* numbers_ = nullptr;
};

__global__ void Places(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + thread] += static_cast<int>(block * 1000 + thread) + 1;
}

TEST_F(EmulatedBlockTest, EachThreadOfEachBlockRunsOnceAtItsPlace) {
  ASSERT_EQ(RunKernel({3, 2, 2}, {5, 3, 2}, 0, &Places, numbers_), cudaSuccess);
  const std::vector<int> numbers = Numbers(360);
  for (int i = 0; i < 360; ++i) {  // fresh memory is -1
    EXPECT_EQ(numbers[static_cast<std::size_t>(i)], i / 30 * 1000 + i % 30);
  }
  EXPECT_EQ(Numbers(361).back(), -1);
  EXPECT_EQ(Counts().kernels, 1);
}

struct Neighbours {
  int values[96];
};

template <bool kWaits>
__global__ void Reverse(int* out) {
  auto& shared = BlockShared<Neighbours>();
  shared.values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if constexpr (kWaits) __syncthreads();
  out[blockIdx.x * 96 + threadIdx.x] = shared.values[95 - threadIdx.x];
}

TEST_F(EmulatedBlockTest, ABarrierMakesSharedMemoryVisible) {
  ASSERT_EQ(RunKernel(2, 96, 0, &Reverse<true>, numbers_), cudaSuccess);
  const std::vector<int> numbers = Numbers(192);
  for (int i = 0; i < 192; ++i) EXPECT_EQ(numbers[static_cast<std::size_t>(i)], 95 - i % 96);
}

// Threads start upwards in one block and downwards in the next: somebody reads what is not written.
TEST_F(EmulatedBlockTest, AMissingBarrierShowsAsPoisonInEitherDirection) {
  ASSERT_EQ(RunKernel(2, 96, 0, &Reverse<false>, numbers_), cudaSuccess);
  const std::vector<int> numbers = Numbers(192);
  EXPECT_EQ(numbers[0], -1);
  EXPECT_EQ(numbers[95], 0);
  EXPECT_EQ(numbers[96], 95);
  EXPECT_EQ(numbers[191], -1);
}

__global__ void ReadsDynamicShared(int* out, int count) {
  const int* memory = DynamicShared<int>();
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += memory[i];
  *out = sum;
}

TEST_F(EmulatedBlockTest, DynamicSharedMemoryHasTheLaunchsSizeAndStartsPoisoned) {
  ASSERT_EQ(RunKernel(1, 1, 40, &ReadsDynamicShared, numbers_, 10), cudaSuccess);
  EXPECT_EQ(Numbers(1)[0], -10);
  EXPECT_EQ(RunKernel(1, 1, 64 << 10, &ReadsDynamicShared, numbers_, 10), cudaErrorInvalidValue);
  ASSERT_EQ(cudaFuncSetAttribute(reinterpret_cast<const void*>(&ReadsDynamicShared),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10),
            cudaSuccess);
  EXPECT_EQ(RunKernel(1, 1, 64 << 10, &ReadsDynamicShared, numbers_, 16 << 10), cudaSuccess);
  EXPECT_EQ(Numbers(1)[0], -(16 << 10));
}

__global__ void Shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int* mine = out + threadIdx.x * 8;
  mine[0] = __shfl_sync(~0U, lane, 5);
  mine[1] = __shfl_sync(~0U, lane, 3, 8);
  mine[2] = __shfl_xor_sync(~0U, lane, 16);
  mine[3] = __shfl_down_sync(~0U, lane, 4);
  mine[4] = __shfl_up_sync(~0U, lane, 4, 16);
  mine[5] = static_cast<int>(__ballot_sync(~0U, lane % 3 == 0));
  mine[6] = __any_sync(~0U, lane == 31) + 2 * __all_sync(~0U, lane < 31);
  mine[7] = lane < 16 ? __shfl_xor_sync(0xFFFFU, lane, 1) : __shfl_xor_sync(0xFFFF0000U, lane, 2);
}

// As the programming guide describes them; a lane without a source keeps its value.
TEST_F(EmulatedBlockTest, LanesExchangeValuesWithinTheirWarp) {
  ASSERT_EQ(RunKernel(1, 64, 0, &Shuffles, numbers_), cudaSuccess);
  const std::vector<int> numbers = Numbers(512);
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const int* mine = numbers.data() + thread * 8;
    EXPECT_EQ(mine[0], 5);
    EXPECT_EQ(mine[1], lane / 8 * 8 + 3);
    EXPECT_EQ(mine[2], lane ^ 16);
    EXPECT_EQ(mine[3], lane < 28 ? lane + 4 : lane);
    EXPECT_EQ(mine[4], lane % 16 < 4 ? lane : lane - 4);
    EXPECT_EQ(mine[5], 0x49249249);
    EXPECT_EQ(mine[6], 1);
    EXPECT_EQ(mine[7], lane < 16 ? lane ^ 1 : lane ^ 2);
  }
}

__global__ void DivergentBarrier() {
  if (threadIdx.x < 7) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void BarrierBehindAnEnd() {
  if (threadIdx.x == 3) return;
  __syncthreads();
}

__global__ void ShuffleWithoutALane(int* out) {
  if (threadIdx.x == 3) return;
  *out = __shfl_sync(~0U, 1, 0);
}

__global__ void ShuffleAgainstBarrier(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    *out = __shfl_sync(threadIdx.x == 40 ? 1U << 8 : ~(1U << 8), 1, 0);
    if (threadIdx.x == 40) *out = __shfl_sync(~0U, 1, 0);
  }
}

__global__ void ShuffleOutsideOfTheMask(int* out) { *out = __shfl_sync(1U, 1, 0); }

TEST_F(EmulatedBlockTest, WhatABlockLeavesUndefinedIsAFailedKernel) {
  const auto expect = [&](cudaError_t error, const char* reason) {
    EXPECT_EQ(error, cudaErrorLaunchFailure);
    EXPECT_THAT(LastKernelFailure(), HasSubstr(reason));
    EXPECT_THAT(LastKernelFailure(), HasSubstr("emulated_block_test.cc:"));
    EXPECT_EQ(cudaMalloc(&numbers_, 4), cudaErrorLaunchFailure);  // and all calls behind it
    ResetDevice();
    ASSERT_EQ(cudaMalloc(&numbers_, 16), cudaSuccess);
  };
  expect(RunKernel(1, 32, 0, &DivergentBarrier), "threads of a block wait at different barriers");
  expect(RunKernel(1, 32, 0, &BarrierBehindAnEnd),
         "a thread ends while others wait at the barrier");
  expect(RunKernel(1, 32, 0, &ShuffleWithoutALane, numbers_), "a lane ends while its warp waits");
  expect(RunKernel(1, 64, 0, &ShuffleAgainstBarrier, numbers_), "a thread ends while others wait");
  expect(RunKernel(1, 32, 0, &ShuffleOutsideOfTheMask, numbers_), "not in its own mask");
}

TEST_F(EmulatedBlockTest, LaunchesOfImpossibleSizesAreRefused) {
  EXPECT_EQ(RunKernel(1, 1025, 0, &Places, numbers_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(RunKernel({1, 65536, 1}, 1, 0, &Places, numbers_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(RunKernel(0, 1, 0, &Places, numbers_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Counts().kernels, 0);
}

__global__ void Adds(int* out) { atomicAdd(out, 1); }

TEST_F(EmulatedBlockTest, ArgumentsAreTakenByValueAtTheLaunch) {
  ASSERT_EQ(cudaMemset(numbers_, 0, 8), cudaSuccess);
  cudaLaunchConfig_t config{};
  config.gridDim = 4;
  config.blockDim = 8;
  int* place = numbers_;
  ASSERT_EQ(cudaLaunchKernelEx(&config, &Adds, place), cudaSuccess);
  place = numbers_ + 1;
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_THAT(Numbers(2), testing::ElementsAre(32, 0));
}

constexpr int kWritten = 7;

__global__ void Writes(int* out) {
  kernels::cuda::WaitForEarlierKernels();
  out[blockIdx.x * blockDim.x + threadIdx.x] = kWritten;
}

enum class Order { kWaitsFirst, kReadsFirst, kWritesFirst, kNeverWaits };

// Copies `in` to `out`, and puts 1 into `mark`.
template <Order kOrder>
__global__ void Copies(const int* in, int* out, int* mark) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = 0;
  if (kOrder == Order::kReadsFirst) value = in[i];
  if (kOrder == Order::kWritesFirst) mark[i] = 1;
  if (kOrder != Order::kNeverWaits) kernels::cuda::WaitForEarlierKernels();
  if (kOrder != Order::kReadsFirst) value = in[i];
  __syncthreads();
  out[i] = value;
  if (kOrder != Order::kWritesFirst) mark[i] = 1;
}

// Kernels that overlap, 32 blocks of 64 threads, one behind the other on one stream.
class EmulatedOverlapTest : public EmulatedBlockTest {
 protected:
  static constexpr std::size_t kThreads = 2048;

  void SetUp() override {
    EmulatedBlockTest::SetUp();
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&out_, kThreads * sizeof(int)), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&mark_, kThreads * sizeof(int)), cudaSuccess);
  }

  template <Order kOrder>
  void EnqueueCopies() {
    kernels::cuda::Launch(kernels::cuda::StreamView(stream_), kShape, "Copies", &Copies<kOrder>,
                          static_cast<const int*>(numbers_), out_, mark_);
  }
  void EnqueueWrites() {
    kernels::cuda::Launch(kernels::cuda::StreamView(stream_), kShape, "Writes", &Writes, numbers_);
  }
  // How many threads copied what Writes() wrote.
  [[nodiscard]] std::int64_t Copied() const {
    std::vector<int> host(kThreads);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(host.data(), out_, kThreads * sizeof(int), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return std::count(host.begin(), host.end(), kWritten);
  }

  static constexpr std::int64_t kAll = kThreads;
  static constexpr std::int64_t kEarly = kEarlyBlocks * 64;  // threads that start early
  inline static const kernels::cuda::LaunchShape kShape{.blocks = dim3(32), .threads = 64};
  cudaStream_t stream_ = nullptr;
  int* out_ = nullptr;
  int* mark_ = nullptr;
};

TEST_F(EmulatedOverlapTest, AKernelThatWaitsFirstSeesWhatTheOneInFrontWrote) {
  EnqueueWrites();
  EnqueueCopies<Order::kWaitsFirst>();
  EXPECT_EQ(Copied(), kAll);
  EXPECT_EQ(Counts().kernels, 2);
  EXPECT_EQ(Counts().kernels_started_early, 1);
}

TEST_F(EmulatedOverlapTest, AKernelThatReadsBeforeItWaitsSeesWhatWasThereBefore) {
  EnqueueWrites();
  EnqueueCopies<Order::kReadsFirst>();
  EXPECT_EQ(Copied(), kAll - kEarly);
}

TEST_F(EmulatedOverlapTest, AKernelThatWritesBeforeItWaitsIsSeenByTheOneInFront) {
  std::vector<int> marks(kThreads);
  EnqueueWrites();
  ASSERT_EQ(EnqueueOnStream(stream_, [&] { marks.assign(mark_, mark_ + kThreads); }), cudaSuccess);
  EnqueueCopies<Order::kWritesFirst>();
  EXPECT_EQ(Copied(), kAll);
  EXPECT_EQ(std::count(marks.begin(), marks.end(), 1), kEarly);
}

TEST_F(EmulatedOverlapTest, AKernelThatNeverWaitsFails) {
  EnqueueWrites();
  EnqueueCopies<Order::kNeverWaits>();
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_THAT(LastKernelFailure(), HasSubstr("ends without a wait"));
}

TEST_F(EmulatedOverlapTest, KernelsApartAndKernelsBehindCopiesDoNotStartEarly) {
  {
    const kernels::cuda::KernelsApart apart;
    EnqueueWrites();
    EnqueueCopies<Order::kReadsFirst>();
  }
  EXPECT_EQ(Copied(), kAll);
  ASSERT_EQ(cudaMemsetAsync(out_, 0, kThreads * sizeof(int), stream_), cudaSuccess);
  EnqueueCopies<Order::kReadsFirst>();
  EXPECT_EQ(Copied(), kAll);
  EXPECT_EQ(Counts().kernels_started_early, 0);
}

TEST_F(EmulatedOverlapTest, KernelsOfAGraphStartEarlyInEachReplay) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EnqueueWrites();
  EnqueueCopies<Order::kReadsFirst>();
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int replay = 1; replay <= 2; ++replay) {
    ASSERT_EQ(cudaMemsetAsync(numbers_, 0, kThreads * sizeof(int), stream_), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
    EXPECT_EQ(Copied(), kAll - kEarly);
    EXPECT_EQ(Counts().kernels_started_early, replay);
  }
}

// Both run in the order of the waits between the streams, and none of them overlaps.
TEST_F(EmulatedOverlapTest, CapturedKernelsOfDifferentStreamsDoNotOverlap) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EnqueueWrites();
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
  std::swap(stream_, other);
  EnqueueCopies<Order::kReadsFirst>();
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  std::swap(stream_, other);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(Copied(), kAll);
  EXPECT_EQ(Counts().kernels_started_early, 0);
}

}  // namespace
}  // namespace twin::cuda_emulation
