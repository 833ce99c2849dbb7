#include "run/judge/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace twin::run {
namespace {

// A signal that ended the inner process comes out of the outer one as this plus its number.
constexpr int kSignalExit = 128;

// How long a process may take to end after its pipes were closed.
constexpr int kEndingPolls = 100;
constexpr int kEndingPollMicroseconds = 5000;

[[noreturn]] void Throw(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// 2 pipes, whose ends close when another program starts.
struct Pipes {
  std::array<int, 2> in{-1, -1};
  std::array<int, 2> out{-1, -1};
  std::array<int, 2> kind{-1, -1};

  Pipes() {
    for (auto* pipe : {&in, &out, &kind}) {
      if (pipe2(pipe->data(), O_CLOEXEC) != 0) Throw("pipes of a process");
    }
  }
};

bool MakeReadOnly() {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  mount_attr read_only{};
  read_only.attr_set = MOUNT_ATTR_RDONLY;
  return syscall(SYS_mount_setattr, -1, "/", AT_RECURSIVE, &read_only, sizeof read_only) == 0;
}

// Namespaces without a network and other processes. The user id is mapped to nobody, so that the
// program that starts has no capability.
bool EnterNamespaces() {
  constexpr int kAll = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  if (unshare(CLONE_NEWUSER | kAll) != 0) return false;
  return MakeReadOnly();
}

// The other processes, whose command lines hold seeds, are not to be seen: /proc shows the inner
// namespace, or nothing where the kernel permits no such mount.
void HideProcesses() {
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0) return;
#if !defined(__SANITIZE_ADDRESS__)  // the sanitizer finds its stacks in /proc
  (void)mount("none", "/proc", "tmpfs", MS_RDONLY, "size=4k");
#endif
}

void SetLimit(__rlimit_resource resource, std::int64_t value) {
  const auto limit = static_cast<rlim_t>(value);
  const rlimit both{limit, limit};
  setrlimit(resource, &both);
}

// The signal at the soft limit says why the process ends.
void LimitCpu(const SandboxLimits& limits) {
  const auto seconds = static_cast<rlim_t>(limits.cpu_seconds);
  const rlimit limit{seconds, seconds + 1};
  setrlimit(RLIMIT_CPU, &limit);
}

void SetLimits(const SandboxLimits& limits) {
  LimitCpu(limits);
  if (limits.memory_bytes > 0) SetLimit(RLIMIT_AS, limits.memory_bytes);
  SetLimit(RLIMIT_FSIZE, 0);
  SetLimit(RLIMIT_CORE, 0);
  SetLimit(RLIMIT_NOFILE, 64);
}

void ReplaceStandardStreams() {
  const int nothing = open("/dev/null", O_RDWR);
  for (int stream = 0; stream <= 2; ++stream) dup2(nothing, stream);
  if (nothing > 2) close(nothing);
}

// Moves both pipes to their places, wherever they are. A descriptor above the others first: one may
// lie where the other one goes.
void PlacePipes(int in, int out) {
  constexpr int kAbove = 20;
  const int moved_in = fcntl(in, F_DUPFD_CLOEXEC, kAbove);
  const int moved_out = fcntl(out, F_DUPFD_CLOEXEC, kAbove);
  dup2(moved_in, kSandboxIn);
  dup2(moved_out, kSandboxOut);
}

// Waits for the inner process and ends as it did.
[[noreturn]] void EndAs(pid_t inner) {
  int status = 0;
  while (waitpid(inner, &status, 0) < 0 && errno == EINTR) {
  }
  _exit(WIFSIGNALED(status) ? kSignalExit + WTERMSIG(status) : WEXITSTATUS(status));
}

[[noreturn]] void BecomeProgram(const char* program, char* const* arguments,
                                char* const* environment, const SandboxLimits& limits,
                                const Pipes& pipes) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();  // a signal to the group of processes must not reach the judge
  ReplaceStandardStreams();
  const bool has_namespaces = EnterNamespaces();
  const char kind = has_namespaces ? 'n' : 'l';
  if (write(pipes.kind[1], &kind, 1) != 1) _exit(1);
  // A new namespace of processes begins with the next child.
  const pid_t inner = fork();
  if (inner < 0) _exit(1);
  if (inner > 0) {
    for (const auto* pipe : {&pipes.in, &pipes.out, &pipes.kind}) {
      close((*pipe)[0]);
      close((*pipe)[1]);
    }
    EndAs(inner);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (has_namespaces) HideProcesses();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  PlacePipes(pipes.in[0], pipes.out[1]);
  SetLimits(limits);
  execve(program, arguments, environment);
  _exit(kSignalExit - 1);
}

// The signal that ended a process, or the inner one of a process; 0 = none did.
int EndingSignal(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status);
  return WEXITSTATUS(status) > kSignalExit ? WEXITSTATUS(status) - kSignalExit : 0;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment() {
  // Equal orders of sets in every process; no files beside modules.
  std::vector<std::string> environment{"PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1",
                                       "PYTHONNOUSERSITE=1"};
  for (const char* name : {"PYTHONPATH", "LD_LIBRARY_PATH", "TWINSERVE_ENGINES", "XDG_DATA_HOME",
                           "HOME", "ASAN_OPTIONS", "UBSAN_OPTIONS"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) environment.push_back(fmt::format("{}={}", name, value));
  }
  return environment;
}

}  // namespace

SandboxedProcess::SandboxedProcess(const std::string& program,
                                   const std::vector<std::string>& arguments,
                                   const SandboxLimits& limits) {
  std::signal(SIGPIPE, SIG_IGN);  // a process that has ended is noticed by its answers
  prctl(PR_SET_DUMPABLE, 0);      // its memory holds seeds: no process may read it
  const Pipes pipes;
  std::vector<std::string> words = arguments;
  std::vector<std::string> environment = Environment();
  const std::vector<char*> word_pointers = Pointers(words);
  const std::vector<char*> environment_pointers = Pointers(environment);
  process_ = fork();
  if (process_ < 0) Throw("a process for a policy");
  if (process_ == 0) {
    BecomeProgram(program.c_str(), word_pointers.data(), environment_pointers.data(), limits,
                  pipes);
  }
  close(pipes.in[0]);
  close(pipes.out[1]);
  close(pipes.kind[1]);
  to_ = pipes.in[1];
  from_ = pipes.out[0];
  char kind = 0;
  while (read(pipes.kind[0], &kind, 1) < 0 && errno == EINTR) {
  }
  close(pipes.kind[0]);
  kind_ = kind == 'n' ? "namespaces" : "limits";
}

SandboxedProcess::~SandboxedProcess() {
  // Without its pipes the process ends by itself, and its CPU time is known.
  close(from_);
  close(to_);
  for (int i = 0; i < kEndingPolls && process_ > 0; ++i) {
    if (waitpid(process_, &status_, WNOHANG) == process_) process_ = -1;
    if (process_ > 0) usleep(kEndingPollMicroseconds);
  }
  Kill();
}

void SandboxedProcess::Kill() {
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  (void)Wait();
}

int SandboxedProcess::Wait() {
  if (process_ > 0) {
    while (waitpid(process_, &status_, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
  }
  return status_;
}

std::string EndingText(int status, const SandboxLimits& limits) {
  const int signal = EndingSignal(status);
  if (signal == SIGXCPU) return fmt::format("used more than {} CPU seconds", limits.cpu_seconds);
  if (signal != 0) return fmt::format("was ended by signal {} ({})", signal, strsignal(signal));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

bool UsedUpCpu(int status) { return EndingSignal(status) == SIGXCPU; }

void LimitToOneProcess(const SandboxLimits& limits) {
  LimitCpu(limits);
  SetLimit(RLIMIT_NPROC, 0);
}

}  // namespace twin::run
