// The emulated runtime: lazy streams, events, captures, memory, planned failures.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/emulated_device.h"

namespace twin::cuda_emulation {
namespace {

void TakeCpuTime(std::chrono::nanoseconds time) {
  const auto taken = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
  };
  const std::chrono::nanoseconds end = taken() + time;
  while (taken() < end) continue;
}

class EmulatedRuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    ResetDevice({.devices = 2, .memory_bytes = 1 << 20});
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&host_), 64, 0), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device_), 64), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&event_), cudaSuccess);
  }
  void TearDown() override { ResetDevice(); }

  cudaError_t Send(int value, cudaStream_t stream) {
    *host_ = value;
    return cudaMemcpyAsync(device_, host_, sizeof(int), cudaMemcpyHostToDevice, stream);
  }
  int OnDevice() {
    int value = 0;
    EXPECT_EQ(cudaMemcpy(&value, device_, sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }

  cudaStream_t stream_ = nullptr;
  cudaStream_t other_ = nullptr;
  cudaEvent_t event_ = nullptr;
  int* host_ = nullptr;
  int* device_ = nullptr;
};

TEST_F(EmulatedRuntimeTest, ACopySeesWhatIsWrittenBeforeSomebodyWaits) {
  ASSERT_EQ(Send(1, stream_), cudaSuccess);
  *host_ = 2;  // too early: the copy is still to come
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  *host_ = 3;
  EXPECT_EQ(OnDevice(), 2);
}

TEST_F(EmulatedRuntimeTest, ResultsAreThereBehindAWaitAndNotBefore) {
  ASSERT_EQ(Send(7, stream_), cudaSuccess);
  host_[1] = 0;
  ASSERT_EQ(cudaMemcpyAsync(host_ + 1, device_, 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(host_[1], 0);
  ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(host_[1], 7);
}

TEST_F(EmulatedRuntimeTest, PageableMemoryIsTakenAtOnceAndReceivesBeforeTheCallReturns) {
  int value = 4;
  ASSERT_EQ(cudaMemcpyAsync(device_, &value, 4, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  value = 5;
  int back = 0;
  ASSERT_EQ(cudaMemcpyAsync(&back, device_, 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_EQ(back, 4);
}

TEST_F(EmulatedRuntimeTest, StreamsAreOrderedByEventsAlone) {
  ASSERT_EQ(Send(1, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host_ + 1, device_, 4, cudaMemcpyDeviceToHost, other_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  EXPECT_EQ(host_[1], -1);  // fresh memory: nothing made the other stream wait
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 0, 4, stream_), cudaSuccess);  // behind the event
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host_ + 2, device_, 4, cudaMemcpyDeviceToHost, other_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  EXPECT_EQ(host_[2], 1);
}

TEST_F(EmulatedRuntimeTest, AWaitIsForTheRecordingThatWasLastWhenItWasAskedFor) {
  ASSERT_EQ(Send(1, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 0, 4, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host_ + 1, device_, 4, cudaMemcpyDeviceToHost, other_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  EXPECT_EQ(host_[1], 1);
}

TEST_F(EmulatedRuntimeTest, TheDefaultStreamWaitsForBlockingStreamsAndNotForOthers) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(Send(1, blocking), cudaSuccess);
  EXPECT_EQ(OnDevice(), 1);
  ASSERT_EQ(Send(2, stream_), cudaSuccess);
  EXPECT_EQ(OnDevice(), 1);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(OnDevice(), 2);
}

TEST_F(EmulatedRuntimeTest, ElapsedTimeIsTheCpuTimeOfOperationsBetweenEventsThatHaveHappened) {
  cudaEvent_t end = nullptr;
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(EnqueueOnStream(stream_, [] { TakeCpuTime(std::chrono::milliseconds(3)); }),
            cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaErrorNotReady);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaSuccess);
  EXPECT_GE(milliseconds, 3);
}

TEST_F(EmulatedRuntimeTest, ElapsedTimeHoldsNoneInWhichTheDeviceDidNotCompute) {
  cudaEvent_t end = nullptr;
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  ASSERT_EQ(EnqueueOnStream(stream_, sleep), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  float milliseconds = -1;
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaSuccess);
  EXPECT_LT(milliseconds, 50);
}

TEST_F(EmulatedRuntimeTest, AGraphRepeatsWhatWasCapturedOnTheMemoryOfNow) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaStreamCaptureStatus status{};
  ASSERT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  ASSERT_EQ(Send(1, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host_ + 1, device_, 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecordWithFlags(event_, stream_, cudaEventRecordExternal), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  host_[1] = 0;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(host_[1], 0);  // captured is not carried out
  for (int value = 10; value < 13; ++value) {
    *host_ = value;
    ASSERT_EQ(cudaGraphLaunch(executable, other_), cudaSuccess);
    ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess);  // recorded by the graph
    EXPECT_EQ(host_[1], value);
  }
  EXPECT_EQ(Counts().graph_launches, 3);
  ASSERT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

TEST_F(EmulatedRuntimeTest, AStreamJoinsACaptureByItsEventAndMustComeBack) {
  cudaGraph_t graph = nullptr;
  for (const bool joins : {true, false}) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
    ASSERT_EQ(Send(1, other_), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
    if (joins) {
      ASSERT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph),
              joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
  }
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);  // no longer capturing
}

TEST_F(EmulatedRuntimeTest, WhatACaptureForbidsFailsAndInvalidatesIt) {
  const auto expect = [&](auto forbidden, cudaError_t error) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(forbidden(), error);
    EXPECT_EQ(Send(1, stream_), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
  };
  void* memory = nullptr;
  int pageable = 0;
  expect([&] { return cudaMalloc(&memory, 8); }, cudaErrorStreamCaptureUnsupported);
  expect([&] { return cudaStreamSynchronize(stream_); }, cudaErrorStreamCaptureUnsupported);
  expect([&] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported);
  expect([&] { return cudaEventQuery(event_); }, cudaErrorStreamCaptureUnsupported);
  expect([&] { return cudaStreamWaitEvent(stream_, event_, 0); }, cudaErrorStreamCaptureIsolation);
  expect([&] { return cudaMemcpyAsync(device_, &pageable, 4, cudaMemcpyDefault, stream_); },
         cudaErrorStreamCaptureUnsupported);
  expect(
      [&] {
        EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
        return cudaEventSynchronize(event_);
      },
      cudaErrorCapturedEvent);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
}

TEST_F(EmulatedRuntimeTest, MemoryIsCountedAndRunsOutPerDevice) {
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total, 1U << 20);
  EXPECT_EQ(free, total - 64);
  void* most = nullptr;
  EXPECT_EQ(cudaMalloc(&most, free + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&most, free), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  void* there = nullptr;
  EXPECT_EQ(cudaMalloc(&there, total), cudaSuccess);
  EXPECT_EQ(DeviceBytesInUse(), 2 * total);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaFree(most), cudaSuccess);
  EXPECT_EQ(cudaFree(most), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
}

TEST_F(EmulatedRuntimeTest, FreshMemoryIsNotANumber) {
  EXPECT_EQ(OnDevice(), -1);
  EXPECT_EQ(host_[3], -1);
}

TEST_F(EmulatedRuntimeTest, FreeingWaitsForTheWorkThatUsesTheMemory) {
  ASSERT_EQ(Send(9, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host_ + 1, device_, 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  ASSERT_EQ(cudaFree(device_), cudaSuccess);
  EXPECT_EQ(host_[1], 9);
}

TEST_F(EmulatedRuntimeTest, CopiesOutsideOfAnAllocationOrOfAnotherKindAreRefused) {
  EXPECT_EQ(cudaMemcpyAsync(device_, host_, 65, cudaMemcpyHostToDevice, stream_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(device_, host_, 4, cudaMemcpyDeviceToDevice, stream_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device_ + 15, 0, 8, stream_), cudaErrorInvalidValue);
  EXPECT_TRUE(IsDeviceMemory(device_ + 15, 4));
  EXPECT_FALSE(IsDeviceMemory(device_ + 15, 5));
  EXPECT_FALSE(IsDeviceMemory(host_, 4));
}

TEST_F(EmulatedRuntimeTest, RowsAreCopiedWithTheirPitches) {
  for (int i = 0; i < 16; ++i) host_[i] = i;
  ASSERT_EQ(cudaMemcpy2DAsync(device_, 8, host_ + 1, 16, 8, 3, cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host_, device_, 24, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(std::vector<int>(host_, host_ + 6), (std::vector<int>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(Counts().bytes_to_device, 24);
  EXPECT_EQ(Counts().copies_to_device, 1);
  EXPECT_EQ(Counts().bytes_to_host, 24);
}

TEST_F(EmulatedRuntimeTest, APlannedCallFailsOnceAndDoesNothing) {
  FailCall("cudaMemsetAsync", 2, cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device_, 0, 4, stream_), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(device_, 1, 4, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device_ + 1, 0, 4, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(OnDevice(), 0);
  EXPECT_EQ(Calls("cudaMemsetAsync"), 3);
  // An error that ends the context lasts.
  FailCall("cudaMemsetAsync", 1, cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemsetAsync(device_, 1, 4, stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalAddress),
               "an illegal memory access was encountered");
}

TEST_F(EmulatedRuntimeTest, ABrokenDeviceFailsEveryCall) {
  BreakDevice(cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaFree(device_), cudaErrorIllegalAddress);
}

TEST_F(EmulatedRuntimeTest, ThreadsShareTheWorkOfAStream) {
  std::vector<int> order;
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(EnqueueOnStream(stream_, [&order, i] { order.push_back(i); }), cudaSuccess);
  }
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); });
    }
  }
  ASSERT_EQ(order.size(), 200U);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace twin::cuda_emulation
