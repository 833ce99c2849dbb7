#include "sim/world/clients.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::sim {
namespace {

// time + delay. Throws InputError (data) if the sum exceeds the range of the clock.
TimePoint Later(TimePoint time, Duration delay) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(time.time_since_epoch().count(), delay.count(), &sum)) {
    throw InputError(InputError::Kind::kData, "system.boundary",
                     "delays pass 292 years; allowed: shorter ones");
  }
  return TimePoint{Duration{sum}};
}

}  // namespace

Clients::Clients(ArrivalSource& source, const BoundaryConfig& boundary,
                 std::optional<Duration> timeout, std::uint64_t seed)
    : source_(source), sampler_(boundary, seed), timeout_(timeout) {}

void Clients::AdvanceTo(TimePoint now) {
  while (reactions_.next_time() <= now) {
    const TimePoint time = reactions_.next_time();
    const Reaction reaction = reactions_.Pop();
    source_.OnDone(reaction.request, time, reaction.answer_tokens);
  }
  for (; source_.next_time() <= now; source_.Take()) Send(*source_.Peek());
}

void Clients::Send(const TracedRequest& request) {
  const RequestId id{sent_++};
  const TimePoint sent = std::max(request.arrival, kTimeZero);
  const BoundaryDelays delays = sampler_.Draw();
  last_reached_ = std::max(last_reached_, Later(sent, delays.request));
  ways_back_.Open(id) = delays.response + delays.client_reaction;
  // An engine cannot hear that a request it does not know is cancelled.
  if (timeout_) {
    const TimePoint gives_up = Later(sent, *timeout_);
    leaving_.Push(std::max(Later(gives_up, delays.request), Later(last_reached_, Duration{1})),
                  {id});
  }
  under_way_.PushBack({{request, delays.response}, last_reached_});
}

void Clients::Leave(const RequestCancelled& cancelled, TimePoint time) {
  leaving_.Push(time, cancelled);
}

std::optional<RequestCancelled> Clients::TakeLeft(TimePoint now) {
  if (leaving_.next_time() > now) return std::nullopt;
  return leaving_.Pop();
}

std::optional<Clients::Reached> Clients::TakeReached(TimePoint now) {
  if (under_way_.empty() || under_way_.front().time > now) return std::nullopt;
  return std::move(under_way_.PopFront().reached);
}

void Clients::OnLeft(RequestId id, TimePoint now, std::int32_t answer_tokens) {
  CHECK(ways_back_.contains(id));
  reactions_.Push(Later(now, ways_back_[id]), {id, answer_tokens});
  ways_back_.Close(id);
}

}  // namespace twin::sim
