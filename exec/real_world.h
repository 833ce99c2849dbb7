// The real world: a device computes the steps, and the machine's steady clock says when.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "core/arrival_source.h"
#include "core/ring_queue.h"
#include "core/step_times.h"
#include "exec/backend_worker.h"
#include "exec/output_ledger.h"
#include "exec/request_tokens.h"
#include "sched/world.h"

namespace twin::exec {

// Hears what a real world measures and computes, before the engine does and on its thread.
class RealWorldListener {
 public:
  virtual ~RealWorldListener() = default;

  // Steps in the order of launching.
  virtual void OnStep(StepId /*id*/, const StepTimes& /*times*/) {}
  // The next token of a request's output.
  virtual void OnToken(RequestId /*id*/, std::int32_t /*token*/) {}
};

struct RealWorldOptions {
  // Prompt + output tokens that the model can hold. An output ends where it is reached, with its
  // first token if the prompt alone reaches it. 0 = no limit. The engine must reject longer prompts
  // by themselves: the backend never hears of them.
  std::int32_t max_model_length = 0;
  std::int32_t named_block_size = 0;  // tokens per block named by content; 0 = they are not
  // Outputs are as long as the workload says, whatever the model emits.
  bool pins_output_lengths = true;
  std::vector<std::int32_t> end_tokens = {};  // of the model, otherwise
  std::int32_t vocab = 1;                     // prompts are drawn from tokens below it,
  std::uint64_t seed = 0;                     // by this seed
  // A client that has waited so long for the whole answer goes away.
  std::optional<Duration> client_timeout = std::nullopt;
  RealWorldListener* listener = nullptr;  // borrowed
};

// Time zero is the first Advance(). What happened up to an instant is told in it: steps in the
// order of launching, departures, arrivals. Request::arrival is when the request was due; an
// instant that tells it may come later.
// Advance() and Launch() belong to one thread, Cancel() and Stop() to any. Advance() throws what
// the backend threw.
class RealWorld final : public World {
 public:
  // Borrows the source and the backend, in which no request is open. It must go before the engine
  // whose plans are in flight.
  RealWorld(ArrivalSource& source, Backend& backend, const RealWorldOptions& options);

  Instant Advance() override;
  void Launch(const StepPlan& plan) override;

  // The client goes away. Nothing happens if the request is not in the system (any more).
  void Cancel(RequestId id);
  // No arrival or departure is told any more, and no step begins; when those in flight have been
  // told, nothing more happens.
  void Stop();

  // Stop() has kept something from happening. Meaningful when nothing more happens.
  [[nodiscard]] bool stopped_early() const { return stopped_early_; }
  [[nodiscard]] TimePoint now() const { return now_; }

 private:
  using Clock = LapTimer::Clock;

  struct LaunchedStep {
    StepId id{};
    TimePoint planned;
  };
  struct ToldStep {
    StepId id{};
    TimePoint started;
    std::size_t outcomes_end = 0;  // of its own in outcomes_
    std::size_t filled_end = 0;    // likewise
  };
  struct Departure {
    RequestId id{};
    StepId after{};  // no later step carries work for it
  };
  struct Timeout {
    RequestId id{};
    TimePoint time;
  };

  [[nodiscard]] TimePoint TimeOf(Clock::time_point time) const;
  void TakeRequests();
  void ReturnSteps();
  StepTimes Measure(const LaunchedStep& launched, const ReturnedStep& returned);
  void TakeTokens(const ReturnedStep& returned);
  void CancelSome();
  void CancelOpen(RequestId id);
  void TakeArrivals();
  void Announce(const TracedRequest& traced);
  [[nodiscard]] OutputEnd EndOf(const TracedRequest& traced, std::int32_t limit) const;
  // The request is out of the system; the backend forgets it when no step in flight carries it.
  void Depart(RequestId id, StepId after);
  void CloseDeparted();
  // When to look again though nothing has been computed; nullopt: nothing more will happen.
  [[nodiscard]] std::optional<Clock::time_point> NextLook();

  ArrivalSource& source_;
  RealWorldOptions options_;
  OutputLedger ledger_;
  RequestTokens tokens_;

  std::optional<Clock::time_point> start_;
  TimePoint now_ = kTimeZero;
  TimePoint device_free_ = kTimeZero;  // end of the last step returned
  std::uint32_t next_id_ = 0;
  StepId last_launched_{};
  StepId last_returned_{};
  bool stopping_ = false;
  bool stopped_early_ = false;
  RingQueue<LaunchedStep> in_flight_;
  RingQueue<ReturnedStep> returned_;
  RingQueue<Departure> departing_;
  RingQueue<Timeout> timeouts_;

  // Of the present instant.
  std::vector<Event> events_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
  std::vector<ToldStep> told_;
  std::vector<std::vector<BlockKey>> prompt_keys_;  // of its arrivals
  std::size_t prompt_keys_used_ = 0;
  std::vector<RequestId> cancels_;

  std::mutex requests_mutex_;  // guards what follows
  std::vector<RequestId> asked_cancels_;
  bool asked_stop_ = false;

  BackendWorker worker_;  // the last member: its thread borrows plans
};

}  // namespace twin::exec
