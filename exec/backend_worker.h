// The thread that drives a backend, so that the scheduler never blocks on a device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "core/ring_queue.h"
#include "exec/backend.h"

namespace twin::exec {

// The result of a step. Results arrive in launch order.
struct ReturnedStep {
  std::vector<SampledToken> sampled;
  LapTimer::Clock::time_point started;
  LapTimer::Clock::time_point finished;
  StepParts parts;
  std::vector<ItemDrafts> drafts;
};

// Runs commands in order on its own thread. All calls but Wake() must come from a single other
// thread.
class BackendWorker {
 public:
  using Clock = LapTimer::Clock;

  // Borrows the backend for its lifetime.
  explicit BackendWorker(Backend& backend);
  // Waits for the step that is being computed, at most; later commands are dropped.
  ~BackendWorker();
  BackendWorker(const BackendWorker&) = delete;
  BackendWorker& operator=(const BackendWorker&) = delete;

  // As Backend's; the prompt is sampled greedily.
  void Open(RequestId id, std::vector<std::int32_t> prompt);
  void Close(RequestId id);
  // Borrows the plan until its step has been returned.
  void Launch(const StepPlan& plan);

  // Waits until a step has been computed, Wake() was called (since the last call) or `deadline`,
  // and appends the steps computed by then.
  // Throws what the backend threw, at every call from then on.
  void Await(Clock::time_point deadline, RingQueue<ReturnedStep>& returned);

  // Ends the current wait, or the next one. Thread-safe.
  void Wake();

 private:
  struct OpenCommand {
    RequestId id{};
    std::vector<std::int32_t> prompt;
  };
  struct CloseCommand {
    RequestId id{};
  };
  using Command = std::variant<OpenCommand, CloseCommand, const StepPlan*>;

  void Send(Command command);
  void Work();
  // Waits for a command, at most for so long; the largest value is for ever. False where nothing
  // more is to be done.
  bool TakeCommands(std::chrono::microseconds patience, std::vector<Command>& taken);
  void Deliver(const ComputedStep& step);

  Backend& backend_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable commanded_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  RingQueue<ReturnedStep> computed_;
  std::exception_ptr failure_;
  bool woken_ = false;
  bool closing_ = false;

  std::thread thread_;  // the last member: it uses all others
};

}  // namespace twin::exec
