#include "record/replica_log.h"

#include <utility>

#include "core/check.h"

namespace twin {
void ReplicaLog::BeginInstant(std::int32_t replica, TimePoint now) {
  CHECK(page_.plans.used <= UINT32_MAX);
  std::uint32_t rank = replica == kArrival ? 1 : 0;
  if (replica != kArrival && replica == replica_ && page_.entries.back().time == now) {
    rank = page_.entries.back().rank + 2;
  }
  replica_ = replica;
  events_ = true;
  page_.entries.push_back({.time = now,
                           .rank = rank,
                           .replica = replica,
                           .first_plan = static_cast<std::uint32_t>(page_.plans.used),
                           .first_call = static_cast<std::uint32_t>(page_.calls.size())});
}

void ReplicaLog::AddPlan(const StepPlan& plan) {
  ++page_.entries.back().plans;
  packer_.Add(plan, page_.plans);
}

void ReplicaLog::EndInstant(const Load& before, const Load& after) {
  LogPage::Entry& entry = page_.entries.back();
  entry.plan_calls = CallsOfEntry() - entry.event_calls;
  entry.change = {.waiting = after.waiting - before.waiting,
                  .running = after.running - before.running,
                  .swapped = after.swapped - before.swapped,
                  .used_blocks = after.used_blocks - before.used_blocks};
}

void ReplicaLog::Turn(LogPage& page) {
  page.Clear();
  std::swap(page_, page);
  packer_.Restart();
  replica_ = kArrival;
}

void ReplicaLog::AddLife(LogPage::Call::Kind kind, const RequestLife& life) {
  page_.calls.push_back({.kind = kind, .life = static_cast<std::uint32_t>(page_.lives.size())});
  page_.lives.push_back(life);
}

void ReplicaLog::OnArrived(TimePoint /*now*/, const RequestLife& life) {
  AddLife(LogPage::Call::Kind::kArrived, life);
}

void ReplicaLog::OnEnded(const RequestLife& life) { AddLife(LogPage::Call::Kind::kEnded, life); }

void ReplicaLog::OnGaps(TimePoint /*now*/, Duration gap, std::int64_t count) {
  LogPage::Entry& entry = page_.entries.back();
  if (events_ && entry.gaps == 0 && CallsOfEntry() == 0 && count > 0 && count <= UINT32_MAX) {
    entry.gap = gap;
    entry.gaps = static_cast<std::uint32_t>(count);
    return;
  }
  page_.calls.push_back({.kind = LogPage::Call::Kind::kGaps, .gap = gap, .count = count});
}

void ReplicaLog::OnPlanned(TimePoint now, const StepPlan& plan) {
  for (RunListener* listener : listeners_) listener->OnPlanned(now, plan);
}

void ReplicaLog::OnStepEnded(const EndedStep& step) {
  for (RunListener* listener : listeners_) listener->OnStepEnded(step);
}

}  // namespace twin
