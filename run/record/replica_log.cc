#include "run/record/replica_log.h"

#include <utility>

#include "core/check.h"

namespace twin {
void ReplicaLog::BeginInstant(std::int32_t replica, TimePoint now) {
  std::uint32_t rank = replica == kArrival ? 1 : 0;
  if (replica != kArrival && replica == replica_ && page_.entries.back().time == now) {
    rank = page_.entries.back().rank + 2;
  }
  replica_ = replica;
  plans_ = false;
  page_.entries.push_back({.time = now, .rank = rank});
}

void ReplicaLog::EndInstant(const Load& before, const Load& after) {
  page_.entries.back().change = {.waiting = after.waiting - before.waiting,
                                 .running = after.running - before.running,
                                 .swapped = after.swapped - before.swapped,
                                 .used_blocks = after.used_blocks - before.used_blocks};
}

void ReplicaLog::Turn(LogPage& page) {
  page.Clear();
  std::swap(page_, page);
  replica_ = kArrival;
}

void ReplicaLog::AddCall(LogPage::Call call) {
  CHECK(page_.calls.size() < UINT32_MAX);
  LogPage::Entry& entry = page_.entries.back();
  if (entry.calls++ == 0) entry.first_call = static_cast<std::uint32_t>(page_.calls.size());
  call.by_plans = plans_;
  page_.calls.push_back(call);
}

void ReplicaLog::AddLife(LogPage::Call::Kind kind, const RequestLife& life) {
  AddCall({.kind = kind, .life = static_cast<std::uint32_t>(page_.lives.size())});
  page_.lives.push_back(life);
}

void ReplicaLog::OnArrived(TimePoint /*now*/, const RequestLife& life) {
  AddLife(LogPage::Call::Kind::kArrived, life);
}

void ReplicaLog::OnEnded(const RequestLife& life) { AddLife(LogPage::Call::Kind::kEnded, life); }

void ReplicaLog::OnGaps(TimePoint /*now*/, Duration gap, std::int64_t count) {
  LogPage::Entry& entry = page_.entries.back();
  if (!plans_ && entry.gaps == 0 && entry.calls == 0 && count > 0 && count <= UINT32_MAX) {
    entry.gap = gap;
    entry.gaps = static_cast<std::uint32_t>(count);
    return;
  }
  AddCall({.kind = LogPage::Call::Kind::kGaps, .gap = gap, .count = count});
}

void ReplicaLog::OnPlanned(TimePoint now, const StepPlan& plan) {
  for (RunListener* listener : listeners_) listener->OnPlanned(now, plan);
}

void ReplicaLog::OnStepEnded(const EndedStep& step) {
  for (RunListener* listener : listeners_) listener->OnStepEnded(step);
}

}  // namespace twin
