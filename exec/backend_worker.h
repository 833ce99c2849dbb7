// The thread that drives a backend, so that the scheduler never blocks on a device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "core/ring_queue.h"
#include "exec/backend.h"
#include "exec/step_inbox.h"

namespace twin::exec {

// A request whose keys and values are copied here from another backend.
struct BlockTransfer {
  RequestId request{};
  std::int32_t from = 0;                         // replica
  const kernels::KvCacheView* source = nullptr;  // the other cache; borrowed
  std::vector<kernels::BlockCopy> copies;
};

// Runs commands in order on its own thread. All calls must come from a single other thread.
class BackendWorker {
 public:
  // Borrows the backend and the inbox for its lifetime. What the backend computes or throws is
  // delivered to the inbox as that of `replica`. After a failure the worker does nothing more.
  BackendWorker(Backend& backend, StepInbox& inbox, std::int32_t replica = 0);
  // Waits at most for the step that is being computed; later commands are dropped.
  ~BackendWorker();
  BackendWorker(const BackendWorker&) = delete;
  BackendWorker& operator=(const BackendWorker&) = delete;

  // The calls of Backend, executed later on the worker's thread.
  void Open(RequestId id, std::vector<std::int32_t> prompt,
            const kernels::SamplingParameters& sampling = {});
  void Close(RequestId id);
  // Borrows the plan until its step has been delivered.
  void Launch(const StepPlan& plan);
  // Copies the blocks after the steps launched so far. REQUIRES: until the transfer has been
  // delivered, later steps leave the target blocks alone and the source blocks do not change.
  void Transfer(BlockTransfer transfer);

 private:
  struct OpenCommand {
    RequestId id{};
    std::vector<std::int32_t> prompt;
    kernels::SamplingParameters sampling;
  };
  struct CloseCommand {
    RequestId id{};
  };
  using Command = std::variant<OpenCommand, CloseCommand, const StepPlan*, BlockTransfer>;
  struct QueuedTransfer {
    BlockTransfer transfer;
    std::int64_t after_steps = 0;  // launched before it
  };

  void Send(Command command);
  void Work();
  // Waits for commands, at most for `patience`; the largest value is for ever. False if nothing
  // more is to be done.
  bool TakeCommands(std::chrono::microseconds patience, std::vector<Command>& taken);
  void Execute(Command& command);
  // Makes the transfers before which all steps have been collected.
  void CopyDue();
  void Deliver(const ComputedStep& step);

  Backend& backend_;
  StepInbox& inbox_;
  const std::int32_t replica_;

  // Used by the worker's thread alone.
  std::int64_t launched_ = 0;   // steps
  std::int64_t collected_ = 0;  // of these
  RingQueue<QueuedTransfer> transfers_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable commanded_;
  std::vector<Command> commands_;
  bool closing_ = false;

  std::thread thread_;  // the last member, because it uses all members above
};

}  // namespace twin::exec
