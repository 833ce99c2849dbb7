#include "run/judge/system_calls.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

namespace twin::run {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif
// Numbers from here on are those of the x32 interface.
constexpr std::uint32_t kNumbersEnd = 0x40000000;

// clang-format off
// Frequent ones first.
constexpr std::initializer_list<int> kAllowed = {
    SYS_read, SYS_write, SYS_futex, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise,
    SYS_brk, SYS_clock_gettime, SYS_gettimeofday, SYS_getpid, SYS_gettid, SYS_getcpu,
    // Files, which are read only.
    SYS_close, SYS_close_range, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_lseek, SYS_readv,
    SYS_writev, SYS_pread64, SYS_preadv, SYS_faccessat, SYS_faccessat2, SYS_readlinkat,
    SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_statfs, SYS_fstatfs, SYS_dup,
    SYS_dup3, SYS_pipe2,
    // Waiting for descriptors of its own.
    SYS_ppoll, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2,
    // Clocks, signals and identity of its own.
    SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_getrandom, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait,
    SYS_sigaltstack, SYS_restart_syscall, SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid,
    SYS_getegid, SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_getpgid, SYS_getsid, SYS_uname,
    SYS_sysinfo, SYS_getrusage, SYS_times, SYS_sched_yield, SYS_sched_getaffinity,
    SYS_sched_getscheduler, SYS_sched_getparam, SYS_sched_get_priority_min,
    SYS_sched_get_priority_max, SYS_getpriority, SYS_set_robust_list, SYS_get_robust_list,
    SYS_set_tid_address, SYS_membarrier, SYS_rseq, SYS_capget, SYS_exit, SYS_exit_group,
#if defined(__x86_64__)
    SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_dup2, SYS_pipe, SYS_poll, SYS_select,
    SYS_epoll_create, SYS_epoll_wait, SYS_time, SYS_getrlimit, SYS_getpgrp,
#endif
};

// Calls that fail with an error.
struct FailingCall {
  int number;
  int error;
};
constexpr std::initializer_list<FailingCall> kFailing = {
    // The C library then asks for the other call, which has a name.
    {SYS_clone3, ENOSYS},
    {SYS_openat2, ENOSYS}, {SYS_memfd_create, ENOSYS}, {SYS_mkdirat, EROFS},
    {SYS_unlinkat, EROFS}, {SYS_renameat2, EROFS}, {SYS_linkat, EROFS}, {SYS_symlinkat, EROFS},
    {SYS_fchmod, EROFS}, {SYS_fchmodat, EROFS}, {SYS_fchownat, EROFS}, {SYS_fchown, EROFS},
    {SYS_truncate, EROFS}, {SYS_ftruncate, EROFS}, {SYS_utimensat, EROFS},
    {SYS_fallocate, EROFS}, {SYS_umask, EPERM},
    // Which parts of files are in memory tells who has read them.
    {SYS_mincore, EPERM}, {SYS_preadv2, EOPNOTSUPP}, {SYS_fadvise64, EPERM},
    {SYS_setrlimit, EPERM}, {SYS_sched_setaffinity, EPERM}, {SYS_setpriority, EPERM},
    {SYS_mlock, EPERM}, {SYS_munlock, EPERM}, {SYS_get_mempolicy, EPERM}, {SYS_mbind, EPERM},
    {SYS_set_mempolicy, EPERM}, {SYS_getxattr, ENOTSUP}, {SYS_lgetxattr, ENOTSUP},
    {SYS_listxattr, ENOTSUP}, {SYS_llistxattr, ENOTSUP},
#if defined(__x86_64__)
    {SYS_creat, EROFS}, {SYS_mkdir, EROFS}, {SYS_rmdir, EROFS}, {SYS_unlink, EROFS},
    {SYS_rename, EROFS}, {SYS_renameat, EROFS}, {SYS_link, EROFS}, {SYS_symlink, EROFS},
    {SYS_chmod, EROFS}, {SYS_chown, EROFS}, {SYS_utime, EROFS}, {SYS_utimes, EROFS},
    {SYS_arch_prctl, EPERM},
#endif
};

// Names of refused calls. The others are named by their number.
struct CallName {
  int number;
  const char* name;
};
#define TWIN_CALL(name) \
  CallName { SYS_##name, #name }
constexpr std::initializer_list<CallName> kNames = {
    TWIN_CALL(socket), TWIN_CALL(socketpair), TWIN_CALL(connect), TWIN_CALL(bind),
    TWIN_CALL(listen), TWIN_CALL(accept4), TWIN_CALL(sendto), TWIN_CALL(sendmsg),
    TWIN_CALL(recvfrom), TWIN_CALL(recvmsg), TWIN_CALL(shutdown), TWIN_CALL(clone),
    TWIN_CALL(execve), TWIN_CALL(execveat), TWIN_CALL(wait4), TWIN_CALL(waitid), TWIN_CALL(kill),
    TWIN_CALL(tkill), TWIN_CALL(tgkill), TWIN_CALL(rt_sigqueueinfo),
    TWIN_CALL(rt_tgsigqueueinfo), TWIN_CALL(pidfd_open), TWIN_CALL(pidfd_getfd),
    TWIN_CALL(pidfd_send_signal), TWIN_CALL(ptrace), TWIN_CALL(process_vm_readv),
    TWIN_CALL(process_vm_writev), TWIN_CALL(process_madvise), TWIN_CALL(kcmp), TWIN_CALL(setsid),
    TWIN_CALL(setpgid), TWIN_CALL(setns), TWIN_CALL(unshare), TWIN_CALL(mount),
    TWIN_CALL(umount2), TWIN_CALL(pivot_root), TWIN_CALL(chroot), TWIN_CALL(mknodat),
    TWIN_CALL(fcntl), TWIN_CALL(flock), TWIN_CALL(inotify_init1), TWIN_CALL(inotify_add_watch),
    TWIN_CALL(fanotify_init), TWIN_CALL(name_to_handle_at), TWIN_CALL(open_by_handle_at),
    TWIN_CALL(sendfile), TWIN_CALL(splice), TWIN_CALL(tee), TWIN_CALL(vmsplice),
    TWIN_CALL(copy_file_range), TWIN_CALL(shmget), TWIN_CALL(shmat), TWIN_CALL(shmctl),
    TWIN_CALL(semget), TWIN_CALL(semop), TWIN_CALL(msgget), TWIN_CALL(msgsnd), TWIN_CALL(msgrcv),
    TWIN_CALL(mq_open), TWIN_CALL(mq_unlink), TWIN_CALL(add_key), TWIN_CALL(request_key),
    TWIN_CALL(keyctl), TWIN_CALL(io_uring_setup), TWIN_CALL(io_uring_enter),
    TWIN_CALL(io_uring_register), TWIN_CALL(io_setup), TWIN_CALL(io_submit),
    TWIN_CALL(perf_event_open), TWIN_CALL(bpf), TWIN_CALL(userfaultfd), TWIN_CALL(personality),
    TWIN_CALL(prctl), TWIN_CALL(seccomp), TWIN_CALL(syslog), TWIN_CALL(setuid),
    TWIN_CALL(setgid), TWIN_CALL(capset), TWIN_CALL(timer_create), TWIN_CALL(timerfd_create),
    TWIN_CALL(setitimer), TWIN_CALL(sched_setscheduler), TWIN_CALL(sched_setattr),
    TWIN_CALL(ioprio_set), TWIN_CALL(pkey_alloc), TWIN_CALL(fsync), TWIN_CALL(sync),
#if defined(__x86_64__)
    TWIN_CALL(fork), TWIN_CALL(vfork), TWIN_CALL(accept), TWIN_CALL(alarm), TWIN_CALL(pause),
    TWIN_CALL(mknod), TWIN_CALL(inotify_init),
#endif
};
#undef TWIN_CALL
// clang-format on

// A filter in the machine of the kernel.
class Program {
 public:
  Program() {
    Load(offsetof(seccomp_data, arch));
    ReturnUnless(kArchitecture, SECCOMP_RET_KILL_PROCESS);
    Load(offsetof(seccomp_data, nr));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kNumbersEnd, 0, 1));
    Return(SECCOMP_RET_KILL_PROCESS);
  }

  void On(int number, std::uint32_t answer) {
    ReturnIf(static_cast<std::uint32_t>(number), answer);
  }
  // Allowed if one of the values is that of the argument, else `answer`.
  void AllowIf(int number, int argument, std::initializer_list<std::uint32_t> values,
               std::uint32_t answer) {
    const std::size_t skip = Skip(number);
    LoadArgument(argument);
    for (const std::uint32_t value : values) ReturnIf(value, SECCOMP_RET_ALLOW);
    Return(answer);
    EndSkip(skip);
  }
  // `with` if the argument has one of the bits, else `without`.
  void OnBits(int number, int argument, std::uint32_t bits, std::uint32_t with,
              std::uint32_t without) {
    const std::size_t skip = Skip(number);
    LoadArgument(argument);
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0));
    Return(without);
    Return(with);
    EndSkip(skip);
  }
  // Allowed if the argument is a null pointer, else `answer`.
  void AllowNull(int number, int argument, std::uint32_t answer) {
    const std::size_t skip = Skip(number);
    LoadArgument(argument);
    ReturnUnless(0, answer);
    Load(OffsetOf(argument) + 4);
    ReturnUnless(0, answer);
    Return(SECCOMP_RET_ALLOW);
    EndSkip(skip);
  }
  void Return(std::uint32_t answer) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, answer)); }

  [[nodiscard]] bool Install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  static std::size_t OffsetOf(int argument) {
    return offsetof(seccomp_data, args) +
           sizeof(std::uint64_t) * static_cast<std::size_t>(argument);
  }
  void Load(std::size_t offset) {
    code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  }
  // The lower half, which is all of an int. Both architectures have it first.
  void LoadArgument(int argument) { Load(OffsetOf(argument)); }
  void ReturnIf(std::uint32_t value, std::uint32_t answer) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    Return(answer);
  }
  void ReturnUnless(std::uint32_t value, std::uint32_t answer) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    Return(answer);
  }
  // The rules up to EndSkip() are for one call.
  std::size_t Skip(int number) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 0));
    return code_.size();
  }
  void EndSkip(std::size_t begin) {
    code_[begin - 1].jf = static_cast<std::uint8_t>(code_.size() - begin);
  }

  std::vector<sock_filter> code_;
};

void AddArgumentRules(Program& program) {
  constexpr auto kFails = [](int error) {
    return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
  };
  constexpr std::uint32_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
  const auto self = static_cast<std::uint32_t>(getpid());
  program.OnBits(SYS_openat, 2, kWrites, kFails(EROFS), SECCOMP_RET_ALLOW);
#if defined(__x86_64__)
  program.OnBits(SYS_open, 1, kWrites, kFails(EROFS), SECCOMP_RET_ALLOW);
#endif
  program.AllowIf(SYS_fcntl, 1,
                  {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD, F_DUPFD_CLOEXEC, F_GETPIPE_SZ},
                  SECCOMP_RET_TRAP);
  program.AllowIf(SYS_ioctl, 1, {FIOCLEX, FIONCLEX, FIONBIO, FIONREAD, TCGETS}, kFails(ENOTTY));
  program.AllowIf(SYS_prctl, 0, {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_VMA},
                  kFails(EPERM));
  program.AllowNull(SYS_prlimit64, 2, kFails(EPERM));
  // A thread fails as where there are too many, for libraries that go on without; a process ends
  // it.
  program.OnBits(SYS_clone, 0, CLONE_THREAD, kFails(EAGAIN), SECCOMP_RET_TRAP);
  // abort() and raise().
  program.AllowIf(SYS_kill, 0, {self}, SECCOMP_RET_TRAP);
  program.AllowIf(SYS_tgkill, 0, {self}, SECCOMP_RET_TRAP);
  program.AllowIf(SYS_tkill, 0, {self}, SECCOMP_RET_TRAP);
}

void (*refused_call)(const char* call) = nullptr;

// The number as text that stays.
const char* NumberText(int number) {
  static char text[] = "number           ";
  char* at = text + sizeof "number " - 1;
  char digits[10];
  int count = 0;
  for (int rest = number; count == 0 || rest > 0; rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  while (count > 0) *at++ = digits[--count];
  *at = 0;
  return text;
}

// fork() blocks signals before it calls the kernel.
void OnFork() { refused_call("fork"); }

void OnRefused(int /*signal*/, siginfo_t* info, void* /*context*/) {
  for (const CallName& known : kNames) {
    if (known.number == info->si_syscall) refused_call(known.name);
  }
  refused_call(NumberText(info->si_syscall));
}

}  // namespace

bool FilterSystemCalls(void (*refused)(const char* call)) {
  if (kArchitecture == 0) return false;
  refused_call = refused;
  struct sigaction action {};
  action.sa_sigaction = &OnRefused;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  if (pthread_atfork(&OnFork, nullptr, nullptr) != 0) return false;
  Program program;
  for (const int number : kAllowed) program.On(number, SECCOMP_RET_ALLOW);
  AddArgumentRules(program);
  for (const FailingCall& call : kFailing) {
    program.On(call.number, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(call.error));
  }
  program.Return(SECCOMP_RET_TRAP);
  return program.Install();
}

}  // namespace twin::run
