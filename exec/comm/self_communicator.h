// A group of one rank: nothing to wait for.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "exec/comm/communicator.h"

namespace twin::exec {

// Sums and gathers give back what they got. REQUIRES: nothing is sent or received.
class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator() : Communicator(0, 1) {}

  void AllReduceSum(std::span<float> values) override;
  void AllGather(std::span<const std::byte> own, std::span<std::byte> all) override;
  void Broadcast(std::span<std::byte> bytes, std::int32_t root) override;
  void Barrier() override;
  void Send(std::span<const std::byte> bytes, std::int32_t to) override;
  void Receive(std::span<std::byte> bytes, std::int32_t from, Patience patience) override;
  bool HasMessage(std::int32_t from) override;
  std::unique_ptr<Communicator> Split(std::int32_t color) override;
  void Abort(const std::string& reason) noexcept override;

 private:
  void CheckAlive(const char* operation) const;

  bool aborted_ = false;
  std::string reason_;
};

}  // namespace twin::exec
