#include "record/replica_log.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "record/plan_encoding.h"

namespace twin {
namespace {

// Pairs of words in the encoding of the plan, at most.
std::size_t PairsMax(const StepPlan& plan) {
  constexpr std::size_t kHeader = 3;
  return kHeader + 2 * plan.work.size() + plan.kv.size() + plan.preempted.size() +
         plan.admitted.size() + plan.resumed.size() + plan.released.size() +
         plan.padding_rows.size() + plan.rejected.size() + plan.hits.size();
}

}  // namespace

void ReplicaLog::BeginInstant(std::int32_t replica, TimePoint now) {
  CHECK(page_.words_used <= UINT32_MAX);
  std::uint32_t rank = replica == kArrival ? 1 : 0;
  if (replica != kArrival && replica == replica_ && page_.places.back().time == now) {
    rank = page_.places.back().rank + 2;
  }
  replica_ = replica;
  page_.places.push_back({now, rank, static_cast<std::uint32_t>(page_.entries.size())});
  page_.entries.push_back({.first_word = static_cast<std::uint32_t>(page_.words_used),
                           .first_call = static_cast<std::uint32_t>(page_.calls.size())});
}

void ReplicaLog::AddPlan(const StepPlan& plan) {
  ++page_.entries.back().plans;
  const std::size_t most = page_.words_used + 2 * PairsMax(plan);
  if (most > page_.words.size()) page_.words.resize(2 * most);
  std::uint64_t* word = page_.words.data() + page_.words_used;
  EncodePlan(plan, [&word](std::uint64_t first, std::uint64_t second) {
    *word++ = first;
    *word++ = second;
  });
  page_.words_used = static_cast<std::size_t>(word - page_.words.data());
}

void ReplicaLog::EndInstant(const Load& before, const Load& after) {
  LogPage::Entry& entry = page_.entries.back();
  entry.words = static_cast<std::uint32_t>(page_.words_used) - entry.first_word;
  entry.plan_calls = CallsOfEntry() - entry.event_calls;
  entry.change = {.waiting = after.waiting - before.waiting,
                  .running = after.running - before.running,
                  .swapped = after.swapped - before.swapped,
                  .used_blocks = after.used_blocks - before.used_blocks};
}

void ReplicaLog::EndPage() {
  std::ranges::sort(page_.places, [](const LogPage::Place& a, const LogPage::Place& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.rank != b.rank ? a.rank < b.rank : a.entry < b.entry;
  });
  replica_ = kArrival;
}

void ReplicaLog::Turn(LogPage& page) {
  page.Clear();
  std::swap(page_, page);
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
  page_.calls.push_back({.kind = LogPage::Call::Kind::kGaps, .gap = gap, .count = count});
}

void ReplicaLog::OnPlanned(TimePoint now, const StepPlan& plan) {
  for (RunListener* listener : listeners_) listener->OnPlanned(now, plan);
}

void ReplicaLog::OnStepEnded(const EndedStep& step) {
  for (RunListener* listener : listeners_) listener->OnStepEnded(step);
}

}  // namespace twin
