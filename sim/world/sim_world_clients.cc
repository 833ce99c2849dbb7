// The simulated world with clients that do more than send.
#include <algorithm>
#include <cstddef>
#include <optional>

#include "core/check.h"
#include "sim/world/sim_world.h"

namespace twin::sim {

void SimWorld::Cancel(const RequestCancelled& cancelled, TimePoint time) {
  CHECK(clients_ != nullptr && time > now_ && Index(cancelled.request) < next_id_);
  clients_->Leave(cancelled, time);
}

Instant SimWorld::AdvanceWithClients(TimePoint wake_at) {
  // Events among clients alone make no instant for the engine.
  while (events_.empty()) {
    const TimePoint next = std::min(NextResult(), clients_->next_time());
    if (options_.pace != nullptr) {
      const Pace::Turn turn = options_.pace->Await(std::min(next, wake_at));
      if (turn == Pace::Turn::kEnd) return {};
      if (turn == Pace::Turn::kLookAgain) continue;
    }
    if (wake_at < next) return WakeUpAt(wake_at);
    if (next == kTimeNever) return {};
    now_ = std::max(now_, next);
    if (NextResult() <= now_) ReturnResults();
    TakeFromClients();
  }
  return {now_, events_};
}

void SimWorld::TakeFromClients() {
  clients_->AdvanceTo(now_);
  while (const std::optional<RequestCancelled> left = clients_->TakeLeft(now_)) {
    const HiddenRequest* const hidden = hidden_requests_.Find(left->request);
    if (hidden == nullptr) continue;
    EndStreak(replicas_[static_cast<std::size_t>(hidden->streak)].streak);
    events_.emplace_back(*left);
    Depart(left->request, left->answered ? hidden->answer_tokens - hidden->remaining_tokens : 0);
  }
  // Clients react without delay to requests that have just left.
  clients_->AdvanceTo(now_);
  while (const auto reached = clients_->TakeReached(now_)) {
    Announce(reached->request, reached->response_delay);
  }
}

}  // namespace twin::sim
