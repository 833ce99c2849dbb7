// Processes that may compute, and do nothing else: for code that nobody has read.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/judge/file_view.h"

namespace twin::run {

struct SandboxLimits {
  std::int64_t cpu_seconds = 20;          // of each process
  std::int64_t memory_bytes = 2LL << 30;  // address space; 0 = no limit
};

// Where the program of a sandbox finds its socket (and kProcessNumbers), and each process of it its
// pipes.
inline constexpr int kSandboxControl = 3;
inline constexpr int kSandboxIn = 3;
inline constexpr int kSandboxOut = 4;

// Messages to the program of a sandbox.
enum class SandboxMessage : std::uint8_t {
  kPrepare,  // the file of a policy; the answer is a text, empty if it could be prepared
  kStart,    // SandboxLimits, the current folder, 2 descriptors; no answer but kStarted's sender
  kStarted,
  kStop,  // bool: it ends by itself; the answer is the status of waitpid()
};

class SandboxedProcess;

// A program that this one trusts, in namespaces of its own: without a network, without other
// processes, and with a view of the file system that is read only. It makes the processes in which
// untrusted code runs (host_loop.h): copies of itself in which no such code has run before. One
// process at a time. Ends the program in the destructor.
class Sandbox {
 public:
  // Starts `program` with `arguments`, of which the first one is its name, in the root folder: the
  // current one may hold modules that are not to be trusted. The environment holds
  // paths of this process alone: of modules, libraries, engines and the user's data. Throws
  // std::system_error.
  Sandbox(const std::string& program, const std::vector<std::string>& arguments,
          const FileView& view);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  // The call that denied a namespace, and why; empty if the sandbox has all of them.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  // The program's answer to a message; nullopt if it has ended.
  std::optional<std::vector<std::byte>> Ask(std::span<const std::byte> message);

 private:
  friend class SandboxedProcess;

  pid_t process_ = -1;
  int control_ = -1;
  std::string problem_;
};

// A process of a sandbox. It reads from kSandboxIn what is written to `to`. What it writes to
// kSandboxOut comes out of `from`; it has no other open files but /dev/null. Kills the process in
// the destructor. Borrows the sandbox.
class SandboxedProcess {
 public:
  // Throws std::system_error, std::runtime_error.
  SandboxedProcess(Sandbox& sandbox, const SandboxLimits& limits);
  ~SandboxedProcess();
  SandboxedProcess(const SandboxedProcess&) = delete;
  SandboxedProcess& operator=(const SandboxedProcess&) = delete;

  [[nodiscard]] int from() const { return from_; }
  [[nodiscard]] int to() const { return to_; }
  // CPU time of all its threads so far, as the kernel counts it.
  [[nodiscard]] double CpuSeconds() const;
  // How long the process, and this thread, could have run so far, but other processes did. 0 where
  // the kernel does not count it.
  [[nodiscard]] double WaitedSeconds() const;

  // Kills the process, or waits a moment for one that `ends` by itself; the status of waitpid().
  int Stop(bool ends);

 private:
  Sandbox& sandbox_;
  clockid_t clock_{};
  int from_ = -1;
  int to_ = -1;
  std::array<int, 2> waits_{-1, -1};  // where the kernel counts them
  bool runs_ = false;
  int status_ = 0;
};

// How a process ended, from the status of waitpid(), in one line: "used more than 20 CPU seconds",
// "was ended by signal 11 (Segmentation fault)", "ended with exit code 3".
std::string EndingText(int status, const SandboxLimits& limits);
bool UsedUpCpu(int status);

}  // namespace twin::run
