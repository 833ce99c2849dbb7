// A message from a Unix socket with the control message beside it: descriptors, or its sender.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace twin::run {

struct ControlMessage {
  ssize_t bytes = 0;  // of the message; 0 at the end of the stream, negative for an error
  int type = 0;       // SCM_RIGHTS, SCM_CREDENTIALS; 0 = nothing came beside it
  std::array<std::byte, sizeof(ucred)> data{};

  // REQUIRES: `type` says that the data are of type T.
  template <class T>
  [[nodiscard]] T Get() const {
    static_assert(sizeof(T) <= sizeof(ucred));
    T value{};
    std::memcpy(&value, data.data(), sizeof value);
    return value;
  }
};

// Waits for a message and writes its bytes to `buffer`.
ControlMessage ReceiveControlMessage(int socket, std::span<std::byte> buffer);

}  // namespace twin::run
