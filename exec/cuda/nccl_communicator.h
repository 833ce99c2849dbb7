// Communication between devices over NCCL, for ranks that each have a separate device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/cuda/device_communicator.h"
#include "exec/cuda/nccl_library.h"

namespace twin::exec::cuda {

class NcclCommunicator final : public DeviceCommunicator {
 public:
  // Connects the ranks of `host`, each on its current device. Collective. Borrows `host`, which
  // only this rank's thread may use. `limit` applies to this and all later waits. If one rank
  // fails, throws CommunicationError on every rank. REQUIRES: library->usable().
  NcclCommunicator(std::shared_ptr<const NcclLibrary> library, Communicator& host,
                   Duration limit = kRankTimeout);
  // Waits for enqueued work up to the limit. Does not wait if the group has failed or the object is
  // destroyed by an exception.
  ~NcclCommunicator() override;

  [[nodiscard]] std::int32_t rank() const override { return host_.rank(); }
  [[nodiscard]] std::int32_t size() const override { return host_.size(); }

  void AllReduceSum(StreamView stream, void* values, std::int64_t count, DType dtype) override;
  void AllGather(StreamView stream, const void* own, void* all, std::int64_t bytes) override;
  void Send(StreamView stream, const void* values, std::int64_t bytes, std::int32_t to) override;
  void Receive(StreamView stream, void* values, std::int64_t bytes, std::int32_t from) override;
  [[nodiscard]] bool capturable() const override { return true; }
  void Await(const Event& event, Patience patience) override;

 private:
  void Connect();
  // Waits until a non-blocking call has finished; throws unless it succeeds.
  void Finish(ncclResult_t result, const char* operation);
  // Abandons the group and throws.
  [[noreturn]] void Fail(const char* operation, const std::string& what);
  void CheckUsable(const char* operation) const;
  void CheckHealth(const char* operation);
  void GiveUp();

  std::shared_ptr<const NcclLibrary> library_;
  Communicator& host_;
  Duration limit_;
  ncclComm_t group_ = nullptr;
  bool failed_ = false;
  int exceptions_;  // in flight at construction
};

}  // namespace twin::exec::cuda
