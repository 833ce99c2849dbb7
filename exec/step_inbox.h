// The inbox to which the threads of backends report steps and transfers, and on which a world
// waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "core/ring_queue.h"
#include "exec/backend.h"

namespace twin::exec {

// The result of a step. The steps of a replica arrive in launch order.
struct ReturnedStep {
  std::int32_t replica = 0;
  std::vector<SampledToken> sampled;
  LapTimer::Clock::time_point started;
  LapTimer::Clock::time_point finished;
  StepParts parts;
  std::vector<ItemDrafts> drafts;
  std::vector<kernels::TokenLogprob> logprobs;
};

// A finished copy of a request's keys and values to replica `to`.
struct ReturnedTransfer {
  RequestId request{};
  std::int32_t from = 0;  // replica
  std::int32_t to = 0;
  LapTimer::Clock::time_point started;
};

// Steps and transfers that were delivered and not taken yet, in the order of delivery.
struct Deliveries {
  RingQueue<ReturnedStep> steps;
  RingQueue<ReturnedTransfer> transfers;
};

// Await() is called from one thread, the other functions from any thread.
class StepInbox {
 public:
  using Clock = LapTimer::Clock;

  void Deliver(ReturnedStep step);
  void Deliver(const ReturnedTransfer& transfer);
  // Reports a failure of a backend. The first failure counts.
  void Fail(std::exception_ptr failure);
  // Ends the current wait, or the next one.
  void Wake();

  // Waits until something has been delivered, Wake() has been called (since the last call), or
  // `deadline` has passed, and appends what has been delivered. After Fail() every call throws the
  // failure.
  void Await(Clock::time_point deadline, Deliveries& returned);

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Deliveries delivered_;
  std::exception_ptr failure_;
  bool woken_ = false;
};

}  // namespace twin::exec
