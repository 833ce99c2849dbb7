// A group of ranks, each with a device of its own, over NCCL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/cuda/device_communicator.h"
#include "exec/cuda/nccl_library.h"

namespace twin::exec::cuda {

class NcclCommunicator final : public DeviceCommunicator {
 public:
  // Of the ranks of `host`, which is borrowed and must be used by this rank's thread alone; on the
  // current device. Collective. `limit` of this and all later waits. Throws CommunicationError, on
  // every rank where one fails. REQUIRES: library->usable().
  NcclCommunicator(std::shared_ptr<const NcclLibrary> library, Communicator& host,
                   Duration limit = kRankTimeout);
  // Waits for what was given, up to the limit; not where the group has failed or an exception
  // unwinds this object.
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
  // Throws unless the call succeeds, or is on its way and does so.
  void Finish(ncclResult_t result, const char* operation);
  // Gives the group up and throws.
  [[noreturn]] void Fail(const char* operation, const std::string& what);
  void CheckUsable(const char* operation) const;
  void CheckHealth(const char* operation);
  void GiveUp();

  std::shared_ptr<const NcclLibrary> library_;
  Communicator& host_;
  Duration limit_;
  ncclComm_t group_ = nullptr;
  bool failed_ = false;
  int exceptions_;  // in flight when it was made
};

}  // namespace twin::exec::cuda
