// An honest policy that also does what the parameter `does` says, when it is loaded or when it
// plans for the first time.
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "config/policy_library.h"
#include "docs/examples/my_policy/shortest_prompt_first.h"

namespace {

constexpr int kJudge = 4;  // the descriptor on which the judge reads answers

// Counts the processes that share memory with the one that loaded the library.
int* SharedCount() {
  void* const memory =
      mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<int*>(memory);
}
int* const shared_count = SharedCount();

void RequireInvisible(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  if (file >= 0) throw std::runtime_error("sees " + path);
}

void RequireFewDescriptors() {
  for (int descriptor = kJudge + 1; descriptor < 1024; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0) throw std::runtime_error("has more files open");
  }
}

void WriteToFile(const std::string& path) {
  for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_CREAT, O_RDONLY | O_TRUNC}) {
    if (open(path.c_str(), flags | O_NONBLOCK, 0600) >= 0) {
      throw std::runtime_error("opens a file for writing");
    }
  }
}

// Reads what others write to a pipe of the file system.
void HearFrom(const std::string& path) {
  const int pipe = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  std::array<char, 16> text{};
  if (pipe >= 0 && read(pipe, text.data(), text.size()) > 0) {
    throw std::runtime_error("hears " + std::string(text.data()));
  }
}

void StartProgram() {
  std::array<char*, 1> none{};
  pid_t process = 0;
  (void)posix_spawn(&process, "/bin/true", nullptr, nullptr, none.data(), none.data());
}

void Answer(std::size_t bytes) {
  const std::string text(bytes, 'x');
  (void)!write(kJudge, text.data(), text.size());
}

class Hostile final : public twin::Policy {
 public:
  explicit Hostile(const twin::PolicyParameters& given)
      : inner_(given),
        does_(given.Text("does", "")),
        path_(given.Text("path", "")),
        call_(given.Integer("call", -1)),
        argument_(given.Integer("argument", 0)),
        traits_(inner_.traits()) {
    if (does_ == "changes its traits") {
      traits_.sequences_per_step_max = 1 + static_cast<int>(std::random_device()() % 100);
    }
    if (does_ == "calls when it is loaded") (void)syscall(call_, 0, argument_, 0, 0, 0, 0);
  }

  const twin::PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const twin::Sequence& sequence) override { inner_.Enqueue(sequence); }
  void Remove(const twin::Sequence& sequence) override { inner_.Remove(sequence); }
  void Plan(twin::StepBuilder& step) override {
    if (steps_ == 0) ++*shared_count;
    if (steps_++ == 0) DoOnce();
    if (does_ == "sleeps") std::this_thread::sleep_for(std::chrono::microseconds(1500));
    if (does_ == "works") Work();
    inner_.Plan(step);
  }

 private:
  void DoOnce() {
    if (does_ == "calls") (void)syscall(call_, 0, argument_, 0, 0, 0, 0);
    if (does_ == "forks") (void)fork();
    if (does_ == "starts a program") StartProgram();
    if (does_ == "starts a thread") std::thread([] {}).join();
    if (does_ == "counts its runs" && *shared_count > 1) {
      throw std::runtime_error("knows of another run");
    }
    if (does_ == "counts its runs" && getpid() != 2) throw std::runtime_error("knows its number");
    if (does_ == "looks") RequireInvisible(path_);
    if (does_ == "looks") RequireFewDescriptors();
    if (does_ == "writes") WriteToFile(path_);
    if (does_ == "hears") HearFrom(path_);
    if (does_ == "answers early") Answer(4);
    if (does_ == "answers too much") Answer(1 << 20);
    if (does_ == "closes its answers") close(kJudge);
    if (does_ == "ends") _exit(3);
    if (does_ == "aborts") std::abort();
    if (does_ == "crashes") (void)std::raise(SIGSEGV);
    if (does_ == "ends with the program") (void)kill(getppid(), SIGKILL);
    if (does_ == "never answers") {
      for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
  }

  // Half a millisecond of CPU time.
  static void Work() {
    const std::clock_t begin = std::clock();
    while (std::clock() - begin < CLOCKS_PER_SEC / 2000) {
    }
  }

  ShortestPromptFirst inner_;
  std::string does_;
  std::string path_;
  int call_;
  int argument_;
  twin::PolicyTraits traits_;
  int steps_ = 0;
};

}  // namespace

TWIN_POLICY(Hostile)
