// Communication between the devices of one replica: collectives and messages on streams.
#pragma once

#include <cstdint>
#include <memory>

#include "core/dtype.h"
#include "exec/comm/communicator.h"
#include "exec/cuda/stream.h"

namespace twin::exec::cuda {

// One rank's member of a group. Calls are enqueued on the stream and executed in stream order;
// pointers are device memory. All ranks must make the same calls in the same order with equal
// sizes. Throws CommunicationError: immediately if the group has already failed; later failures are
// thrown by Await.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;

  [[nodiscard]] virtual std::int32_t rank() const = 0;
  [[nodiscard]] virtual std::int32_t size() const = 0;

  // Sets values[i] to the sum of values[i] over all ranks; bf16 or fp32. Bit-identical on all
  // ranks.
  virtual void AllReduceSum(StreamView stream, void* values, std::int64_t count, DType dtype) = 0;
  // Sets `all` to the concatenation of `own` over the ranks in ascending order, `bytes` each.
  virtual void AllGather(StreamView stream, const void* own, void* all, std::int64_t bytes) = 0;
  virtual void Send(StreamView stream, const void* values, std::int64_t bytes, std::int32_t to) = 0;
  virtual void Receive(StreamView stream, void* values, std::int64_t bytes, std::int32_t from) = 0;

  // True if its calls may be captured into a graph.
  [[nodiscard]] virtual bool capturable() const = 0;
  // Waits for an event recorded after calls of this group. Throws if another rank has failed, or if
  // the wait exceeds the time limit of the group; an unbounded `patience` has no limit.
  virtual void Await(const Event& event, Patience patience) = 0;
};

// Connects the current devices of the ranks of `host`: with NCCL if it is found and every rank has
// a separate device, otherwise with copies staged through host memory. Collective over `host`,
// which is borrowed.
std::unique_ptr<DeviceCommunicator> ConnectDevices(Communicator& host);

}  // namespace twin::exec::cuda
