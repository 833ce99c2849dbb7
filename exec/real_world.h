// The real world: devices compute the steps, and times are read from the machine's steady clock.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/arrival_source.h"
#include "core/id_window.h"
#include "core/ring_queue.h"
#include "exec/backend_worker.h"
#include "exec/output_ledger.h"
#include "exec/real_world_options.h"
#include "exec/request_tokens.h"
#include "exec/step_inbox.h"
#include "sched/world.h"

namespace twin::exec {

// Time zero is the first Advance(), unless the options name it. An instant carries everything that
// has happened by then: finished transfers, then finished steps (replica by replica, in the order
// of launching), then cancellations, then arrivals. Request::arrival is the time at which the
// request was due; the instant that carries it may be later. Thread safety: Advance() and Launch()
// are called from one thread, Cancel(), Wake() and Stop() from any. Advance() throws what a backend
// threw.
//
// Each replica is a backend with its own thread, so that replicas compute at the same time. The
// plan that admits a request tells the world which replica gets it; the world then opens the
// request there. If prefill is separate from decode, the world opens the request a second time,
// with its first token, at the replica whose plan takes blocks for it. A transfer is copied by the
// thread of its target, between two steps.
class RealWorld final : public World {
 public:
  // Borrows the source and the backends, one for each replica. REQUIRES: no request is open in any
  // backend; backends share nothing that a step changes; all have a readable cache if the options
  // set prefill_replicas; this object is destroyed before the engines, which own the plans in
  // flight.
  RealWorld(ArrivalSource& source, std::span<Backend* const> backends,
            const RealWorldOptions& options);
  // A world with one replica.
  RealWorld(ArrivalSource& source, Backend& backend, const RealWorldOptions& options);

  Instant Advance(TimePoint wake_at) override;
  void Launch(const StepPlan& plan) override;
  void Transfer(const KvTransfer& transfer) override;

  // Cancels a request, as if its client had closed the connection. A request that has not arrived
  // yet is cancelled when it arrives. Has no effect if the request has left. `answered`: see
  // RequestCancelled.
  void Cancel(RequestId id, bool answered = false);
  // The source has a new request, or has been closed.
  void Wake();
  // Ends the run: no further arrivals, cancellations, steps or transfers. Advance() still returns
  // the steps and transfers in flight, and then an empty instant.
  void Stop();

  // True if Stop() ended the run before all requests were served. Valid after the empty instant.
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
    std::int32_t replica = 0;
    TimePoint started;
    std::size_t outcomes_end = 0;  // end of the step's range in outcomes_
    std::size_t filled_end = 0;    // end of the step's range in filled_
  };
  struct Departure {
    RequestId id{};
    StepId after{};  // the last step that may carry work for it
  };
  struct Timeout {
    RequestId id{};
    TimePoint time;
  };

  struct Replica {
    Replica(Backend& backend, StepInbox& inbox, std::int32_t index)
        : cache(backend.readable_cache()), worker(backend, inbox, index) {}

    const kernels::KvCacheView* cache;  // may be null

    TimePoint device_free = kTimeZero;  // end of the last step returned
    StepId last_launched{};
    StepId last_returned{};
    RingQueue<LaunchedStep> in_flight;
    RingQueue<ReturnedStep> returned;  // and not yet part of an instant
    RingQueue<Departure> departing;
    BackendWorker worker;
  };
  // A request in the system.
  struct Placement {
    std::int32_t replica = kNowhere;  // where it is open
    bool moved = false;               // away from the replica that computed its prompt
    std::int32_t output_tokens = 0;   // sampled so far
    // Prompt and output so far, kept while a further replica may have to open the request.
    std::vector<std::int32_t> tokens;
    kernels::SamplingParameters sampling;
  };
  static constexpr std::int32_t kNowhere = -1;

  [[nodiscard]] TimePoint TimeOf(Clock::time_point time) const;
  [[nodiscard]] Replica& ReplicaAt(std::int32_t index) {
    return *replicas_[static_cast<std::size_t>(index)];
  }
  // Takes over the calls of Cancel() and Stop() since the last time.
  void TakeCalls();
  void ReturnTransfers();
  void ReturnSteps();
  void ReturnSteps(std::int32_t index);
  StepTimes Measure(Replica& replica, const LaunchedStep& launched, const ReturnedStep& returned);
  void TakeTokens(const ReturnedStep& returned);
  // Counts the token and announces it. False if it is dropped.
  bool TakeToken(const SampledToken& sampled, std::span<const kernels::TokenLogprob> logprobs);
  void CancelSome();
  void CancelOpen(const RequestCancelled& cancelled);
  void TakeArrivals();
  void Announce(const TracedRequest& traced);
  // The prompt, tokens and sampling of a request. The prompt is empty if it is too long for the
  // model and the client gave none.
  RequestContent ContentOf(const TracedRequest& traced, RequestId id);
  [[nodiscard]] OutputEnd DecideOutputEnd(const TracedRequest& traced,
                                          const RequestContent& content, std::int32_t limit) const;
  // Opens the requests of the plan that are not yet open at its replica.
  void OpenNew(const StepPlan& plan);
  void OpenAt(std::int32_t index, RequestId id);
  void CloseAt(std::int32_t index, RequestId id);
  // Removes the request from the system. `answer_tokens`: see ArrivalSource::OnDone.
  void Depart(RequestId id, std::int32_t answer_tokens);
  void CloseDeparted();
  // The time until which to wait for a result before looking for arrivals, timeouts and `wake_at`;
  // nullopt if nothing more will happen.
  [[nodiscard]] std::optional<Clock::time_point> NextLook(TimePoint wake_at);

  ArrivalSource& source_;
  RealWorldOptions options_;
  OutputLedger ledger_;
  RequestTokens tokens_;

  std::optional<Clock::time_point> start_;
  TimePoint now_ = kTimeZero;
  std::uint32_t next_id_ = 0;
  std::int64_t in_flight_ = 0;  // steps of all replicas, and transfers
  bool stopping_ = false;
  bool stopped_early_ = false;
  IdWindow<Placement> placements_;
  Deliveries returned_;
  RingQueue<Timeout> timeouts_;

  // Content of the current instant; reused.
  std::vector<Event> events_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
  std::vector<ToldStep> told_;
  std::vector<std::vector<BlockKey>> prompt_keys_;  // of the instant's arrivals
  std::size_t prompt_keys_used_ = 0;
  std::vector<RequestCancelled> cancels_;  // also of requests that have not arrived

  std::mutex calls_mutex_;  // guards the two members that follow
  std::vector<RequestCancelled> asked_cancels_;
  bool asked_stop_ = false;

  StepInbox inbox_;
  // The last member, because its threads borrow the other members.
  std::vector<std::unique_ptr<Replica>> replicas_;
};

}  // namespace twin::exec
