// A process that may compute, and do nothing else: for code that nobody has read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace twin::run {

struct SandboxLimits {
  std::int64_t cpu_seconds = 20;          // of the process and of each of its children
  std::int64_t memory_bytes = 2LL << 30;  // address space; 0 = no limit
};

// Where the new process finds the pipes.
inline constexpr int kSandboxIn = 3;
inline constexpr int kSandboxOut = 4;

// The process reads from kSandboxIn what is written to `to`. What it writes to kSandboxOut comes
// out of `from`; its standard input and outputs are /dev/null. Where the kernel permits, it runs in
// namespaces of its own: without a network, without other processes, and with the file system read
// only. Kills the process in the destructor.
class SandboxedProcess {
 public:
  // Starts `program` with `arguments`, of which the first one is its name. The environment holds
  // paths of this process alone: of modules, libraries, engines and the user's data. Throws
  // std::system_error.
  SandboxedProcess(const std::string& program, const std::vector<std::string>& arguments,
                   const SandboxLimits& limits);
  ~SandboxedProcess();
  SandboxedProcess(const SandboxedProcess&) = delete;
  SandboxedProcess& operator=(const SandboxedProcess&) = delete;

  [[nodiscard]] int from() const { return from_; }
  [[nodiscard]] int to() const { return to_; }
  // "namespaces", or "limits" where the kernel permits no namespaces.
  [[nodiscard]] const std::string& kind() const { return kind_; }

  // Waits for the end of the process; the status of waitpid().
  int Wait();
  void Kill();

 private:
  pid_t process_ = -1;
  int from_ = -1;
  int to_ = -1;
  int status_ = 0;
  std::string kind_;
};

// How a process ended, from the status of waitpid(), in one line: "used more than 20 CPU seconds",
// "was ended by signal 11 (Segmentation fault)", "ended with exit code 3".
std::string EndingText(int status, const SandboxLimits& limits);
bool UsedUpCpu(int status);

// Forbids this process to start others, and limits its CPU time.
void LimitToOneProcess(const SandboxLimits& limits);

}  // namespace twin::run
