// What the ranks of one replica tell each other from device to device.
#pragma once

#include <cstdint>
#include <memory>

#include "core/dtype.h"
#include "exec/comm/communicator.h"
#include "exec/cuda/stream.h"

namespace twin::exec::cuda {

// One rank's end of a group. Every call gives work to the stream and takes place in its order;
// memory is the device's. All ranks call the same in the same order and with equal sizes.
// Throws CommunicationError, at once where the group has failed; Await tells the rest.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;

  [[nodiscard]] virtual std::int32_t rank() const = 0;
  [[nodiscard]] virtual std::int32_t size() const = 0;

  // values[i] = the sum of all ranks' values[i]; bf16, fp16 or fp32. Equal bits on every rank.
  virtual void AllReduceSum(StreamView stream, void* values, std::int64_t count, DType dtype) = 0;
  // `all` = the ranks' `own`, `bytes` each, one behind the other.
  virtual void AllGather(StreamView stream, const void* own, void* all, std::int64_t bytes) = 0;
  virtual void Send(StreamView stream, const void* values, std::int64_t bytes, std::int32_t to) = 0;
  virtual void Receive(StreamView stream, void* values, std::int64_t bytes, std::int32_t from) = 0;

  // True if its calls may be captured into a graph.
  [[nodiscard]] virtual bool capturable() const = 0;
  // Waits for the event, behind calls of this group; gives up where another rank has failed or does
  // not come within the group's limit (never, where `patience` is unbounded).
  virtual void Await(const Event& event, Patience patience) = 0;
};

// Over NCCL where that is found and every rank of `host` has a device of its own, else staged
// through the host's memory. Collective over `host`, which is borrowed.
std::unique_ptr<DeviceCommunicator> ConnectDevices(Communicator& host);

}  // namespace twin::exec::cuda
