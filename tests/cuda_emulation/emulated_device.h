// A CUDA device that is not there: the C functions of the CUDA runtime, carried out by the CPU, so
// that code for a device runs in tests, under sanitizers too. This header is for the tests.
//
// Streams are lazy: an operation is carried out when something waits for it (a synchronisation, a
// query, a blocking copy, or a wait of another stream for an event), on the thread that waits. So
// host memory that is changed too early, and results that are read too early, show. Fresh device
// memory and shared memory are bytes 0xFF (NaN). Several host threads may use one device.
//
// As with a real device: copies from pageable memory take it at once and copies to it wait;
// a capture is invalidated by what would break it; after a failed kernel every call fails.
// Stricter: copies of pageable memory are refused under capture; what a block leaves undefined
// (block.h) is a failed kernel. Not there: other devices' memory, memory pools, textures, the
// driver API. Kernels of one device run one after the other, as do all parts of a graph; but the
// first blocks of a kernel with programmatic stream serialization run up to their wait
// (cudaGridDependencySynchronize) before the kernel in front of it runs, if one thread carries out
// both: so what is read or written before the wait shows.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace twin::cuda_emulation {

struct DeviceOptions {
  int devices = 1;
  std::size_t memory_bytes = std::size_t{2} << 30;  // of each
  int multiprocessors = 4;
  int compute_capability = 90;  // 80: 8.0
  std::string name = "Emulated GPU";
};

// As a fresh process: options as given, no memory, no streams, no error, counts at zero.
// REQUIRES: no other thread uses the device; handles and memory from before are not used again.
void ResetDevice(const DeviceOptions& options = {});

// The `nth` call (1: the next one) of the runtime's function of that name fails with `error` and
// does nothing. "cudaLaunchKernelEx" stands for kernels.
void FailCall(std::string_view function, int nth, cudaError_t error);
// All calls fail from now on, as behind a kernel's illegal access.
void BreakDevice(cudaError_t error);
// No work that is enqueued from now on is ever done: queries answer that it is not, and calls that
// would wait for it count as blocked for ever.
void HangDevice();
// Why a kernel failed last; empty if none did.
std::string LastKernelFailure();

struct DeviceCounts {
  std::int64_t kernels = 0;                // carried out, those of graphs too
  std::int64_t kernels_started_early = 0;  // of these, before the kernel in front had ended
  std::int64_t functions = 0;              // different kernels that were launched or captured
  std::int64_t graph_launches = 0;
  std::int64_t nodes_of_last_graph = 0;    // of the graph that was launched last
  std::int64_t kernels_of_last_graph = 0;  // of these, kernels, ours and libraries'
  std::int64_t synchronisations = 0;       // of streams, events, the device; blocking copies
  std::int64_t allocations = 0;            // of device memory
  std::int64_t bytes_to_device = 0;        // of copies carried out
  std::int64_t bytes_to_host = 0;
  std::int64_t bytes_within_device = 0;
  std::int64_t copies = 0;
  std::int64_t copies_to_device = 0;  // of these, from the host
  std::int64_t blocked_for_ever = 0;  // calls that would have been, behind HangDevice()
};
// Since ResetDevice().
DeviceCounts Counts();
// How often a function of the runtime was called since ResetDevice().
std::int64_t Calls(std::string_view function);
// Bytes of device memory in use, and allocations of any kind that were not given back.
std::size_t DeviceBytesInUse();
std::int64_t LiveAllocations();

// Runs `operation` in the order of a stream, under capture as a part of the graph: for the kernels
// of emulated libraries.
cudaError_t EnqueueOnStream(cudaStream_t stream, std::function<void()> operation);
// True if the bytes are within one allocation of device memory.
bool IsDeviceMemory(const void* memory, std::size_t bytes);

}  // namespace twin::cuda_emulation
