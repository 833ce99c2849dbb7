// Ahead of the clock: replicas advance one after the other, or several at once, each in a world of
// its own (docs/decisions/0016-replicas-one-after-the-other.md).
#include <cstddef>
#include <utility>
#include <variant>

#include "core/check.h"
#include "sim/world/sim_world.h"

namespace twin::sim {
namespace {

// The source of worlds whose requests come from another world. All of them share one: it has no
// state.
class NoArrivals final : public ArrivalSource {
 public:
  const TracedRequest* Peek() override { return nullptr; }
  void Take() override { CHECK(false); }
  void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {}
  [[nodiscard]] bool reacts() const override { return false; }
};

}  // namespace

std::unique_ptr<SimWorld> SimWorld::WorldOf(std::int32_t replica) const {
  static NoArrivals no_arrivals;
  CHECK(replicas_are_separate() && options_.only_replica < 0);
  const Replica& model = replicas_.at(static_cast<std::size_t>(replica));
  SimWorldOptions options = options_;
  options.replicas = 1;
  options.only_replica = replica;
  options.groups.assign(1, {1, model.cost, model.forgets_stale_tokens, model.overlaps_own_steps});
  return std::make_unique<SimWorld>(no_arrivals, *model.cost, options);
}

std::span<const Event> SimWorld::ArrivalsBefore(TimePoint until, bool prefix_keys) {
  CHECK(replicas_are_separate() && steps_.empty());
  events_.clear();
  prompt_keys_used_ = 0;
  for (const TracedRequest* arrival = source_.Peek();
       arrival != nullptr && arrival->arrival < until; arrival = source_.Peek()) {
    Announce(*arrival, Duration{0}, prefix_keys);
    source_.Take();
  }
  arrivals_.swap(events_);
  return arrivals_;
}

TimePoint SimWorld::next_arrival() {
  const TracedRequest* const arrival = source_.Peek();
  return arrival == nullptr ? kTimeNever : std::max(arrival->arrival, kTimeZero);
}

void SimWorld::TakeOver(RequestId id, SimWorld& from) {
  hidden_requests_.Open(id) = from.hidden_requests_[id];
  if (keeps_token_times_) tokens_at_.Open(id) = from.tokens_at_[id];
  // HiddenDetails::content borrows from `chunks`, which moves along.
  if (keeps_details_) std::swap(details_.Open(id), from.details_[id]);
}

Instant SimWorld::AdvanceTo(TimePoint now, std::span<const Event> arrivals) {
  now_ = now;
  events_.clear();
  if (steps_.next_time() <= now) ReturnSteps();
  prompt_keys_used_ = 0;
  for (const Event& event : arrivals) {
    Request& request = std::get<RequestArrived>(events_.emplace_back(event)).request;
    if (options_.named_block_size > 0) request.prefix_keys = ComputePromptKeys(request);
  }
  if (events_.empty()) events_.emplace_back(WakeUp{});
  return {now_, events_};
}

}  // namespace twin::sim
