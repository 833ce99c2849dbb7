// The side of a sandbox's program, which makes its processes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "run/judge/sandbox.h"

namespace twin::run {

// Messages of the judge.
class SandboxControl {
 public:
  explicit SandboxControl(int socket) : socket_(socket) {}

  // Waits for a message; false if there is nobody any more. Descriptors that come with it replace
  // those of the message before.
  bool Receive();
  [[nodiscard]] std::span<const std::byte> message() const { return message_; }
  [[nodiscard]] int in() const { return in_; }
  [[nodiscard]] int out() const { return out_; }
  void Send(std::span<const std::byte> message) const;
  // Closes the descriptors that came with the last message.
  void CloseDescriptors();

 private:
  int socket_;
  int in_ = -1;
  int out_ = -1;
  std::vector<std::byte> message_;
};

// In a new process of a sandbox's program: gives up everything but the pipes, and tells the judge
// that the process has started. `folder` becomes the current one if it can be seen.
void EnterSandbox(const SandboxControl& control, const SandboxLimits& limits,
                  const std::string& folder);

// Gives the next process of this namespace the number that each of them gets: it says nothing about
// how many there were. Without effect where the kernel cannot.
void ForgetProcessNumbers();

}  // namespace twin::run
