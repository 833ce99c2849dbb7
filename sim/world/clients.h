// The clients of a simulated system, on the far side of a boundary that requests and tokens need
// time to cross.
//
// A request is sent when its source says, and reaches the engine after its request delay, but never
// before a request that was sent earlier: the server's front end keeps the order. Its tokens reach
// the client after its response delay. The source hears of the end after the response delay and
// the client's reaction time, so that closed loops send their next request from then on. A client
// with a time-out gives up that long after it sent; the engine learns of it a request delay later,
// unless the request has ended by then, and only then does the client act on it. A client may also
// be told to leave (SimWorld::Cancel).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/arrival_source.h"
#include "core/id_window.h"
#include "core/ring_queue.h"
#include "core/traced_request.h"
#include "sched/event.h"
#include "sim/cost/boundary_config.h"
#include "sim/world/event_queue.h"
#include "sim/world/next_arrival.h"

namespace twin::sim {

// Memory: proportional to the requests in the system. Equal seeds give the k-th request equal
// delays, whatever the engine does.
class Clients {
 public:
  // Borrows the source, from which nobody else takes requests. timeout: nullopt = never.
  Clients(ArrivalSource& source, const BoundaryConfig& boundary, std::optional<Duration> timeout,
          std::uint64_t seed);

  // When something happens next: a request is sent or reaches the engine, a client reacts or gives
  // up; kTimeNever: nothing.
  [[nodiscard]] TimePoint next_time() {
    const TimePoint reached = under_way_.empty() ? kTimeNever : under_way_.front().time;
    return std::min({reactions_.next_time(), leaving_.next_time(), reached, source_.next_time()});
  }

  // Sends the requests and lets the clients react whose time has come. REQUIRES: now <=
  // next_time(), and `now` never decreases.
  void AdvanceTo(TimePoint now);

  // The engine learns at `time` that the client has left.
  void Leave(const RequestCancelled& cancelled, TimePoint time);
  // A request whose client left and whose engine learns of it by `now`; it may have ended.
  std::optional<RequestCancelled> TakeLeft(TimePoint now);

  struct Reached {
    TracedRequest request;
    Duration response_delay{0};
  };
  // The next request that has reached the engine by `now`, in the order of sending.
  std::optional<Reached> TakeReached(TimePoint now);

  // The request left the engine. `answer_tokens`: ArrivalSource::OnDone.
  void OnLeft(RequestId id, TimePoint now, std::int32_t answer_tokens);

 private:
  struct UnderWay {
    Reached reached;
    TimePoint time;
  };

  struct Reaction {
    RequestId request{};
    std::int32_t answer_tokens = 0;
  };

  void Send(const TracedRequest& request);

  NextArrival source_;
  BoundarySampler sampler_;
  std::optional<Duration> timeout_;
  RingQueue<UnderWay> under_way_;  // to the engine
  TimePoint last_reached_ = TimePoint::min();
  std::uint32_t sent_ = 0;
  IdWindow<Duration> ways_back_;  // of requests in the engine or on the way: response + reaction
  EventQueue<Reaction> reactions_;
  EventQueue<RequestCancelled> leaving_;
};

}  // namespace twin::sim
