#include "run/judge/sandbox_inside.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "run/judge/control_message.h"

namespace twin::run {
namespace {

void SetLimit(__rlimit_resource resource, std::int64_t value) {
  const auto limit = static_cast<rlim_t>(value);
  const rlimit both{limit, limit};
  setrlimit(resource, &both);
}

void SetLimits(const SandboxLimits& limits) {
  // The signal at the soft limit says why the process ends.
  const auto seconds = static_cast<rlim_t>(limits.cpu_seconds);
  const rlimit cpu{seconds, seconds + 1};
  setrlimit(RLIMIT_CPU, &cpu);
  if (limits.memory_bytes > 0) SetLimit(RLIMIT_AS, limits.memory_bytes);
  SetLimit(RLIMIT_FSIZE, 0);
  SetLimit(RLIMIT_CORE, 0);
  SetLimit(RLIMIT_NOFILE, 64);
  SetLimit(RLIMIT_NPROC, 0);
  SetLimit(RLIMIT_MEMLOCK, 0);
}

// Both descriptors at their places, wherever they are, and no others. One above the others first:
// one may lie where the other one goes. Those of /dev/null are new: the flags of an open file are
// the same in all processes that have it from another one.
void ReplaceDescriptors(int in, int out) {
  constexpr int kAbove = 20;
  const int moved_in = fcntl(in, F_DUPFD, kAbove);
  const int moved_out = fcntl(out, F_DUPFD, kAbove);
  dup2(moved_in, kSandboxIn);
  dup2(moved_out, kSandboxOut);
  for (int stream = 0; stream <= 2; ++stream) close(stream);
  for (int stream = 0; stream <= 2; ++stream) (void)open("/dev/null", O_RDWR);
  constexpr int kFirst = kSandboxOut + 1;
  if (syscall(SYS_close_range, kFirst, ~0u, 0) == 0) return;
  for (int descriptor = kFirst; descriptor < 1024; ++descriptor) close(descriptor);
}

void DropCapabilities() {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, 2> none{};
  (void)syscall(SYS_capset, &header, none.data());
}

}  // namespace

bool SandboxControl::Receive() {
  constexpr std::size_t kBytesMax = 1 << 18;
  message_.resize(kBytesMax);
  const ControlMessage message = ReceiveControlMessage(socket_, message_);
  if (message.bytes <= 0) return false;
  message_.resize(static_cast<std::size_t>(message.bytes));
  if (message.type == SCM_RIGHTS) {
    const auto descriptors = message.Get<std::array<int, 2>>();
    in_ = descriptors[0];
    out_ = descriptors[1];
  }
  return true;
}

void SandboxControl::Send(std::span<const std::byte> message) const {
  (void)send(socket_, message.data(), message.size(), MSG_NOSIGNAL);
}

void SandboxControl::CloseDescriptors() {
  close(in_);
  close(out_);
}

void EnterSandbox(const SandboxControl& control, const SandboxLimits& limits,
                  const std::string& folder) {
  constexpr auto kStarted = SandboxMessage::kStarted;
  control.Send(std::as_bytes(std::span(&kStarted, 1)));
  ReplaceDescriptors(control.in(), control.out());
  SetLimits(limits);
  (void)!chdir(folder.c_str());
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  DropCapabilities();
}

void ForgetProcessNumbers() { (void)!pwrite(kProcessNumbers, "1", 1, 0); }

}  // namespace twin::run
