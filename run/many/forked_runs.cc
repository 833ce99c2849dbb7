#include "run/many/forked_runs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "run/many/parallel_runs.h"
#include "sched/policy/own_policy.h"

namespace twin::run {
namespace {

constexpr int kPollMilliseconds = 100;

// The kinds of messages from a child. The last one is a result or an error.
enum class Kind : char { kWarning, kNote, kResult, kUsageError, kDataError, kError };

// Writes a message: its kind, its length, its text. A parent that is gone ends the child.
void Send(int pipe, Kind kind, std::string_view text) {
  const auto length = static_cast<std::uint64_t>(text.size());
  std::string bytes(1, static_cast<char>(kind));
  bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
  bytes.append(text);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t wrote = write(pipe, bytes.data() + sent, bytes.size() - sent);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) _exit(1);
    sent += static_cast<std::size_t>(wrote);
  }
}

// The control of a piece in its child, which the parent kills where it is to stop.
class ChildControl final : public RunControl {
 public:
  explicit ChildControl(int pipe) : pipe_(pipe) {}
  void OnWarning(const std::string& text) override { Send(pipe_, Kind::kWarning, text); }
  void OnNote(const std::string& text) override { Send(pipe_, Kind::kNote, text); }

 private:
  const int pipe_;
};

// The life of a child.
[[noreturn]] void DoPiece(std::size_t index, int pipe,
                          const std::function<std::string(std::size_t, RunControl&)>& run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);  // of the whole group: the parent decides
  ChildControl control(pipe);
  try {
    Send(pipe, Kind::kResult, run(index, control));
  } catch (const InputError& error) {
    const bool usage = error.exit_code() == static_cast<int>(InputError::Kind::kUsage);
    Send(pipe, usage ? Kind::kUsageError : Kind::kDataError, error.what());
  } catch (const std::exception& error) {
    Send(pipe, Kind::kError, error.what());
  }
  _exit(0);
}

// A child that works on a piece. Kills it unless it has ended.
class Child {
 public:
  Child(std::size_t index, const std::function<int()>& fork,
        const std::function<std::string(std::size_t, RunControl&)>& run)
      : index_(index) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "a process for a run");
    }
    pipe_ = ends[0];
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      DoPiece(index, ends[1], run);
    }
    const int error = errno;
    close(ends[1]);
    if (process_ > 0) return;
    close(pipe_);
    throw std::system_error(error, std::generic_category(), "a process for a run");
  }
  ~Child() {
    close(pipe_);
    if (ended_) return;
    kill(process_, SIGKILL);
    (void)Wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] std::size_t index() const { return index_; }
  [[nodiscard]] int pipe() const { return pipe_; }

  // Reads what is there; false at the end.
  [[nodiscard]] bool Read() {
    std::array<char, 65536> part{};
    const ssize_t got = read(pipe_, part.data(), part.size());
    if (got < 0) return errno == EINTR;
    bytes_.append(part.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  // Waits for the end, passes on the reports, and returns the result. Throws what the piece threw.
  std::string Finish(RunControl& control) {
    const int status = Wait();
    std::string_view rest = bytes_;
    std::uint64_t length = 0;
    while (rest.size() >= 1 + sizeof length) {
      const auto kind = static_cast<Kind>(rest.front());
      std::memcpy(&length, rest.data() + 1, sizeof length);
      rest.remove_prefix(1 + sizeof length);
      if (rest.size() < length) break;
      std::string text(rest.substr(0, length));
      rest.remove_prefix(length);
      if (kind == Kind::kResult) return text;
      if (kind == Kind::kUsageError) throw InputError(InputError::Kind::kUsage, "", text);
      if (kind == Kind::kDataError) throw InputError(InputError::Kind::kData, "", text);
      if (kind == Kind::kError) throw PolicyFailure(text);
      kind == Kind::kWarning ? control.OnWarning(text) : control.OnNote(text);
    }
    throw PolicyFailure(
        WIFSIGNALED(status)
            ? fmt::format("the process of a run was ended by signal {}", WTERMSIG(status))
            : std::string("the process of a run ended before the run did"));
  }

 private:
  int Wait() {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    ended_ = true;
    return status;
  }

  const std::size_t index_;
  int pipe_ = -1;
  pid_t process_ = -1;
  bool ended_ = false;
  std::string bytes_;
};

using Children = std::vector<std::unique_ptr<Child>>;

// Waits until a child has written something or ended. Returns those that have ended.
Children TakeEnded(Children& running) {
  std::vector<pollfd> pipes;
  for (const auto& child : running) pipes.push_back({child->pipe(), POLLIN, 0});
  poll(pipes.data(), pipes.size(), kPollMilliseconds);
  Children ended;
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    if (pipes[i].revents != 0 && !running[i]->Read()) ended.push_back(std::move(running[i]));
  }
  std::erase(running, nullptr);
  return ended;
}

}  // namespace

std::function<int()> ForkOf(const ExperimentConfig& config) {
  return config.own_policy == nullptr ? nullptr : config.own_policy->fork;
}

void RunInProcesses(std::size_t count, int jobs, RunControl& control,
                    const std::function<int()>& fork,
                    const std::function<std::string(std::size_t, RunControl& inner)>& run,
                    const std::function<void(std::size_t, const std::string& bytes)>& done) {
  const auto at_once = static_cast<std::size_t>(jobs > 0 ? jobs : DefaultJobs());
  Children running;
  for (std::size_t next = 0; next < count || !running.empty();) {
    if (control.StopRequested()) return;
    while (next < count && running.size() < at_once) {
      // A child must not write what this process has not written yet.
      std::cout.flush();
      std::fflush(stdout);
      running.push_back(std::make_unique<Child>(next++, fork, run));
    }
    for (const auto& child : TakeEnded(running)) {
      const std::string bytes = child->Finish(control);
      done(child->index(), bytes);
    }
  }
}

}  // namespace twin::run
