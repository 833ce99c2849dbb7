// Messages between ranks, whose size the receiver does not know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/message.h"
#include "exec/comm/communicator.h"

namespace twin::exec {

inline void SendSized(Communicator& group, std::span<const std::byte> bytes, std::int32_t to) {
  const std::uint64_t size = bytes.size();
  group.Send(std::as_bytes(std::span(&size, 1)), to);
  if (size > 0) group.Send(bytes, to);
}

// Replaces `bytes` by the message. `patience` is for its beginning.
inline void ReceiveSized(Communicator& group, std::int32_t from, Patience patience,
                         std::vector<std::byte>& bytes) {
  std::uint64_t size = 0;
  group.Receive(std::as_writable_bytes(std::span(&size, 1)), from, patience);
  bytes.resize(static_cast<std::size_t>(size));
  if (size > 0) group.Receive(bytes, from, Patience::kBounded);
}

}  // namespace twin::exec
