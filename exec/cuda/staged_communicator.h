// Ranks whose devices exchange what they have through the host's memory: for several ranks on one
// device, and where there is no NCCL.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/device_communicator.h"
#include "exec/cuda/device_memory.h"

namespace twin::exec::cuda {

// Every call waits for its stream, and for the other ranks: nothing can be captured.
// Sums are taken in fp32, in ascending order of ranks, and rounded once.
class StagedCommunicator final : public DeviceCommunicator {
 public:
  // Borrows `host`, which this rank's thread alone uses.
  explicit StagedCommunicator(Communicator& host) : host_(host) {}

  [[nodiscard]] std::int32_t rank() const override { return host_.rank(); }
  [[nodiscard]] std::int32_t size() const override { return host_.size(); }

  void AllReduceSum(StreamView stream, void* values, std::int64_t count, DType dtype) override;
  void AllGather(StreamView stream, const void* own, void* all, std::int64_t bytes) override;
  void Send(StreamView stream, const void* values, std::int64_t bytes, std::int32_t to) override;
  void Receive(StreamView stream, void* values, std::int64_t bytes, std::int32_t from) override;
  [[nodiscard]] bool capturable() const override { return false; }
  // No work on the device waits for other ranks.
  void Await(const Event& event, Patience) override { event.Await(); }

 private:
  // Makes the staging memory large enough.
  void Reserve(std::int64_t bytes);
  // Into the staging memory, and waits.
  void Fetch(StreamView stream, const void* values, std::int64_t bytes);
  // From pinned memory, and waits.
  void Put(StreamView stream, const std::byte* from, void* values, std::int64_t bytes);

  Communicator& host_;
  PinnedBuffer staged_;
  PinnedBuffer gathered_;
};

}  // namespace twin::exec::cuda
