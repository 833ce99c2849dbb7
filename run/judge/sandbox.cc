#include "run/judge/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "run/judge/control_message.h"
#include "run/judge/message_pipe.h"

namespace twin::run {
namespace {

// A signal that ended the inner process comes out of the outer one as this plus its number.
constexpr int kSignalExit = 128;

// How long a program may take to end after its socket was closed.
constexpr int kEndingPolls = 100;
constexpr int kEndingPollMicroseconds = 5000;

// The user of the namespace, who is nobody: programs then start without a capability.
constexpr int kNobody = 65534;

[[noreturn]] void Throw(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// 2 descriptors that close when another program starts, and here with the object.
class Pair {
 public:
  explicit Pair(const char* what, bool is_socket = false) {
    const int made = is_socket ? socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_.data())
                               : pipe2(ends_.data(), O_CLOEXEC);
    if (made != 0) Throw(what);
  }
  ~Pair() {
    Close(0);
    Close(1);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  [[nodiscard]] int operator[](std::size_t end) const { return ends_[end]; }
  int Take(std::size_t end) { return std::exchange(ends_[end], -1); }
  void Close(std::size_t end) {
    if (ends_[end] >= 0) close(Take(end));
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

bool WriteFile(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  const bool wrote = file >= 0 && write(file, text, std::strlen(text)) >= 0;
  if (file >= 0) close(file);
  return wrote;
}

// Null, or the call that failed.
const char* EnterNamespaces(const std::string& user_map, const std::string& group_map) {
  constexpr int kAll = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  if (unshare(CLONE_NEWUSER | kAll) != 0) return "unshare";
  if (!WriteFile("/proc/self/setgroups", "deny")) return "setgroups";
  if (!WriteFile("/proc/self/uid_map", user_map.c_str())) return "uid_map";
  return WriteFile("/proc/self/gid_map", group_map.c_str()) ? nullptr : "gid_map";
}

// The one capability that the program needs: to choose the number of its next process.
void KeepProcessNumbers() {
#if defined(CAP_CHECKPOINT_RESTORE)
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  data[CAP_CHECKPOINT_RESTORE / 32] = {1u << CAP_CHECKPOINT_RESTORE % 32,
                                       1u << CAP_CHECKPOINT_RESTORE % 32,
                                       1u << CAP_CHECKPOINT_RESTORE % 32};
  if (syscall(SYS_capset, &header, data.data()) != 0) return;
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHECKPOINT_RESTORE, 0, 0);
#endif
}

// Also at kProcessNumbers, to which the program writes: where there is no such file, the judge may
// have another one open there.
void ReplaceStandardStreams() {
  const int nothing = open("/dev/null", O_RDWR);
  for (const int place : {0, 1, 2, kProcessNumbers}) {
    if (place != nothing) dup2(nothing, place);
  }
  if (nothing > 2 && nothing != kProcessNumbers) close(nothing);
}

// Waits for the inner process and ends as it did.
[[noreturn]] void EndAs(pid_t inner) {
  int status = 0;
  while (waitpid(inner, &status, 0) < 0 && errno == EINTR) {
  }
  _exit(WIFSIGNALED(status) ? kSignalExit + WTERMSIG(status) : WEXITSTATUS(status));
}

// Made before the new process begins, which may not ask for memory while others do.
struct Start {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const FileView& view;
  std::string user_map = fmt::format("{} {} 1", kNobody, geteuid());
  std::string group_map = fmt::format("{} {} 1", kNobody, getegid());
};

// Tells the call that failed, and why.
void TellProblem(int pipe, const char* call) {
  const std::string text =
      call == nullptr ? std::string() : fmt::format("{}: {}", call, std::strerror(errno));
  (void)!write(pipe, text.data(), text.size());
}

[[noreturn]] void BecomeProgram(const Start& start, Pair& controls, Pair& reports) {
  // Away from the numbers that the program expects.
  constexpr int kAbove = 20;
  const int control = fcntl(controls[1], F_DUPFD_CLOEXEC, kAbove);
  const int report = fcntl(reports[1], F_DUPFD_CLOEXEC, kAbove);
  for (Pair* const pair : {&controls, &reports}) {
    pair->Close(0);
    pair->Close(1);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();  // a signal to the group of processes must not reach the judge
  ReplaceStandardStreams();
  const char* const failed = EnterNamespaces(start.user_map, start.group_map);
  if (failed != nullptr) TellProblem(report, failed);
  // A new namespace of processes begins with the next child.
  const pid_t inner = fork();
  if (inner < 0) _exit(1);
  if (inner > 0) {
    close(control);
    close(report);
    EndAs(inner);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (failed == nullptr) {
    TellProblem(report, start.view.Enter());
    KeepProcessNumbers();
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  dup2(control, kSandboxControl);
  (void)!chdir("/");
  execve(start.program, start.arguments, start.environment);
  _exit(kSignalExit - 1);
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Paths that colons separate, from the root on: the program may begin in another folder.
std::string Absolute(std::string_view paths) {
  std::string result;
  for (bool more = true; more;) {
    const std::size_t end = std::min(paths.find(':'), paths.size());
    if (!result.empty()) result += ':';
    result += end == 0 ? "" : std::filesystem::absolute(paths.substr(0, end)).string();
    more = end < paths.size();
    paths.remove_prefix(more ? end + 1 : end);
  }
  return result;
}

std::vector<std::string> Environment() {
  // Equal orders of sets in every process; no files beside modules; one thread.
  std::vector<std::string> environment{"PYTHONHASHSEED=0",       "PYTHONDONTWRITEBYTECODE=1",
                                       "PYTHONNOUSERSITE=1",     "OMP_NUM_THREADS=1",
                                       "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1",
                                       "NUMEXPR_NUM_THREADS=1"};
  for (const char* name :
       {"PYTHONPATH", "LD_LIBRARY_PATH", "TWINSERVE_ENGINES", "XDG_DATA_HOME", "HOME"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) environment.push_back(fmt::format("{}={}", name, Absolute(value)));
  }
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) environment.push_back(fmt::format("{}={}", name, value));
  }
  return environment;
}

// Sends bytes with descriptors.
bool SendWith(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  return sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

// The process here that sent the next message, if this is of the kind; 0 if not.
pid_t SenderOf(int socket, SandboxMessage kind) {
  SandboxMessage got{};
  const ControlMessage message =
      ReceiveControlMessage(socket, std::as_writable_bytes(std::span(&got, 1)));
  if (message.bytes != sizeof got || got != kind || message.type != SCM_CREDENTIALS) return 0;
  return message.Get<ucred>().pid;
}

}  // namespace

Sandbox::Sandbox(const std::string& program, const std::vector<std::string>& arguments,
                 const FileView& view) {
  std::signal(SIGPIPE, SIG_IGN);  // a process that has ended is noticed by its answers
  prctl(PR_SET_DUMPABLE, 0);      // its memory holds seeds: no process may read it
  Pair control("the socket of a sandbox", true);
  Pair report("a pipe of a sandbox");
  constexpr int kOn = 1;
  if (setsockopt(control[0], SOL_SOCKET, SO_PASSCRED, &kOn, sizeof kOn) != 0) Throw("SO_PASSCRED");
  std::vector<std::string> words = arguments;
  std::vector<std::string> environment = Environment();
  const std::vector<char*> word_pointers = Pointers(words);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const Start start{program.c_str(), word_pointers.data(), environment_pointers.data(), view};
  process_ = fork();
  if (process_ < 0) Throw("the process of a sandbox");
  if (process_ == 0) BecomeProgram(start, control, report);
  control_ = control.Take(0);
  control.Close(1);
  report.Close(1);
  std::array<char, 256> text{};
  for (ssize_t got = 0; (got = read(report[0], text.data(), text.size())) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got > 0) problem_.append(text.data(), static_cast<std::size_t>(got));
  }
}

Sandbox::~Sandbox() {
  // Without its socket the program ends by itself, and its CPU time is known.
  close(control_);
  int status = 0;
  for (int i = 0; i < kEndingPolls; ++i) {
    if (waitpid(process_, &status, WNOHANG) == process_) return;
    usleep(kEndingPollMicroseconds);
  }
  kill(process_, SIGKILL);
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::optional<std::vector<std::byte>> Sandbox::Ask(std::span<const std::byte> message) {
  if (send(control_, message.data(), message.size(), MSG_NOSIGNAL) < 0) return std::nullopt;
  constexpr std::size_t kBytesMax = 1 << 16;
  std::vector<std::byte> answer(kBytesMax);
  ssize_t bytes = 0;
  while ((bytes = recv(control_, answer.data(), answer.size(), 0)) < 0 && errno == EINTR) {
  }
  if (bytes <= 0) return std::nullopt;
  answer.resize(static_cast<std::size_t>(bytes));
  return answer;
}

SandboxedProcess::SandboxedProcess(Sandbox& sandbox, const SandboxLimits& limits)
    : sandbox_(sandbox) {
  Pair in("pipes of a process");
  Pair out("pipes of a process");
  MessageWriter start;
  start.Put(SandboxMessage::kStart);
  start.Put(limits);
  start.PutText(std::filesystem::current_path().string());
  const std::array<int, 2> descriptors{in[0], out[1]};
  const pid_t process = SendWith(sandbox_.control_, start.bytes(), descriptors)
                            ? SenderOf(sandbox_.control_, SandboxMessage::kStarted)
                            : 0;
  if (process == 0 || clock_getcpuclockid(process, &clock_) != 0) {
    throw std::runtime_error("no process could be made for a run");
  }
  waits_[0] = open(fmt::format("/proc/{}/schedstat", process).c_str(), O_RDONLY | O_CLOEXEC);
  waits_[1] = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  to_ = in.Take(1);
  from_ = out.Take(0);
  fcntl(to_, F_SETFL, O_NONBLOCK);
  runs_ = true;
}

SandboxedProcess::~SandboxedProcess() {
  (void)Stop(false);
  for (const int descriptor : {from_, to_, waits_[0], waits_[1]}) close(descriptor);
}

double SandboxedProcess::CpuSeconds() const {
  timespec time{};
  if (clock_gettime(clock_, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double SandboxedProcess::WaitedSeconds() const {
  double seconds = 0;
  for (const int file : waits_) {
    std::array<char, 96> text{};  // nanoseconds of running and of waiting, and how often
    unsigned long long waited = 0;
    if (pread(file, text.data(), text.size() - 1, 0) <= 0) continue;
    if (std::sscanf(text.data(), "%*u %llu", &waited) == 1) {
      seconds += 1e-9 * static_cast<double>(waited);
    }
  }
  return seconds;
}

int SandboxedProcess::Stop(bool ends) {
  if (!std::exchange(runs_, false)) return status_;
  MessageWriter stop;
  stop.Put(SandboxMessage::kStop);
  stop.Put(ends);
  const auto answer = sandbox_.Ask(stop.bytes());
  status_ =
      answer && answer->size() == sizeof status_ ? MessageReader(*answer).Get<int>() : SIGKILL;
  return status_;
}

std::string EndingText(int status, const SandboxLimits& limits) {
  if (UsedUpCpu(status)) return fmt::format("used more than {} CPU seconds", limits.cpu_seconds);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) {
    return "made a system call that policies may not make, with signals blocked, as at the start "
           "of "
           "a program";
  }
  if (WIFSIGNALED(status)) {
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

bool UsedUpCpu(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU; }

}  // namespace twin::run
