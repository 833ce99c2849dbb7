#include "exec/comm/self_communicator.h"

#include <algorithm>

#include "core/check.h"

namespace twin::exec {

void SelfCommunicator::CheckAlive(const char* operation) const {
  if (aborted_) throw CommunicationError(0, operation, "aborted: " + reason_);
}

void SelfCommunicator::AllReduceSum(std::span<float> /*values*/) { CheckAlive("all-reduce"); }

void SelfCommunicator::AllGather(std::span<const std::byte> own, std::span<std::byte> all) {
  CheckAlive("all-gather");
  CHECK(own.size() == all.size());
  std::copy(own.begin(), own.end(), all.begin());
}

void SelfCommunicator::Broadcast(std::span<std::byte> /*bytes*/, std::int32_t root) {
  CheckAlive("broadcast");
  CHECK(root == 0);
}

void SelfCommunicator::Barrier() { CheckAlive("barrier"); }

void SelfCommunicator::Send(std::span<const std::byte> /*bytes*/, std::int32_t /*to*/) {
  CHECK(false);
}

void SelfCommunicator::Receive(std::span<std::byte> /*bytes*/, std::int32_t /*from*/,
                               Patience /*patience*/) {
  CHECK(false);
}

bool SelfCommunicator::HasMessage(std::int32_t /*from*/) { return false; }

std::unique_ptr<Communicator> SelfCommunicator::Split(std::int32_t /*color*/) {
  CheckAlive("split");
  return std::make_unique<SelfCommunicator>();
}

void SelfCommunicator::Abort(const std::string& reason) noexcept {
  if (aborted_) return;
  aborted_ = true;
  reason_ = reason;
}

}  // namespace twin::exec
