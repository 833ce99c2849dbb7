#include "run/judge/control_message.h"

#include <algorithm>
#include <cerrno>

namespace twin::run {

ControlMessage ReceiveControlMessage(int socket, std::span<std::byte> buffer) {
  ControlMessage received;
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof received.data)> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  while ((received.bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  const cmsghdr* const header = received.bytes > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr) return received;
  received.type = header->cmsg_type;
  std::memcpy(received.data.data(), CMSG_DATA(header),
              std::min(received.data.size(), header->cmsg_len - CMSG_LEN(0)));
  return received;
}

}  // namespace twin::run
