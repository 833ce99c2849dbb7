// Communication between devices through host memory: for several ranks on one device, and for
// machines without NCCL.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/device_communicator.h"
#include "exec/cuda/device_memory.h"

namespace twin::exec::cuda {

// Every call waits for its stream and for the other ranks; therefore, calls cannot be captured.
// Sums are computed in fp32 in ascending order of ranks and rounded once.
class StagedCommunicator final : public DeviceCommunicator {
 public:
  // Borrows `host`, which only this rank's thread may use.
  explicit StagedCommunicator(Communicator& host) : host_(host) {}

  [[nodiscard]] std::int32_t rank() const override { return host_.rank(); }
  [[nodiscard]] std::int32_t size() const override { return host_.size(); }

  void AllReduceSum(StreamView stream, void* values, std::int64_t count, DType dtype) override;
  void AllGather(StreamView stream, const void* own, void* all, std::int64_t bytes) override;
  void Send(StreamView stream, const void* values, std::int64_t bytes, std::int32_t to) override;
  void Receive(StreamView stream, void* values, std::int64_t bytes, std::int32_t from) override;
  [[nodiscard]] bool capturable() const override { return false; }
  // Has no time limit: work on the device never waits for other ranks.
  void Await(const Event& event, Patience) override { event.Await(); }

 private:
  // Grows the staging memory to at least `bytes`.
  void Reserve(std::int64_t bytes);
  // Copies from the device to the staging memory and waits.
  void Fetch(StreamView stream, const void* values, std::int64_t bytes);
  // Copies from pinned memory to the device and waits.
  void Put(StreamView stream, const std::byte* from, void* values, std::int64_t bytes);

  Communicator& host_;
  PinnedBuffer staged_;
  PinnedBuffer gathered_;
};

}  // namespace twin::exec::cuda
