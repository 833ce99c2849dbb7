#include "record/replica_log.h"

#include <algorithm>

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
  CHECK(words_used_ <= UINT32_MAX);
  std::uint32_t rank = replica == kArrival ? 1 : 0;
  if (replica != kArrival && replica == replica_ && places_.back().time == now) {
    rank = places_.back().rank + 2;
  }
  replica_ = replica;
  places_.push_back({now, rank, static_cast<std::uint32_t>(entries_.size())});
  entries_.push_back({.first_word = static_cast<std::uint32_t>(words_used_),
                      .first_call = static_cast<std::uint32_t>(calls_.size())});
}

void ReplicaLog::AddPlan(const StepPlan& plan) {
  ++entries_.back().plans;
  const std::size_t most = words_used_ + 2 * PairsMax(plan);
  if (most > words_.size()) words_.resize(2 * most);
  std::uint64_t* word = words_.data() + words_used_;
  EncodePlan(plan, [&word](std::uint64_t first, std::uint64_t second) {
    *word++ = first;
    *word++ = second;
  });
  words_used_ = static_cast<std::size_t>(word - words_.data());
}

void ReplicaLog::EndInstant(const Load& before, const Load& after) {
  Entry& entry = entries_.back();
  entry.words = static_cast<std::uint32_t>(words_used_) - entry.first_word;
  entry.plan_calls = CallsOfEntry() - entry.event_calls;
  entry.change = {.waiting = after.waiting - before.waiting,
                  .running = after.running - before.running,
                  .swapped = after.swapped - before.swapped,
                  .used_blocks = after.used_blocks - before.used_blocks};
}

std::size_t ReplicaLog::Replay() {
  // Entries of one time and round are in the order of their replicas.
  std::ranges::sort(places_, [](const Place& a, const Place& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.rank != b.rank ? a.rank < b.rank : a.entry < b.entry;
  });
  const std::size_t count = places_.size();
  for (std::size_t i = 0; i < count;) {
    std::size_t end = i;
    for (; end < count && places_[end].time == places_[i].time &&
           places_[end].round() == places_[i].round();
         ++end) {
      PrefetchAhead(end);
    }
    ReplayInstant(std::span(places_).subspan(i, end - i));
    i = end;
  }
  entries_.clear();
  places_.clear();
  words_used_ = 0;
  calls_.clear();
  lives_.clear();
  replica_ = kArrival;
  return count;
}

// The entries lie in the order of the replicas, so that each one comes from another page.
void ReplicaLog::PrefetchAhead(std::size_t i) const {
  constexpr std::size_t kEntriesAhead = 16;
  constexpr std::size_t kWordsAhead = 8;
  constexpr std::size_t kWordsPerLine = 8;
  if (i + kEntriesAhead >= places_.size()) return;
  __builtin_prefetch(&entries_[places_[i + kEntriesAhead].entry]);
  const Entry& next = entries_[places_[i + kWordsAhead].entry];
  if (next.event_calls + next.plan_calls > 0) __builtin_prefetch(&calls_[next.first_call]);
  for (std::size_t word = 0; word < next.words; word += kWordsPerLine) {
    __builtin_prefetch(&words_[next.first_word + word]);
  }
}

void ReplicaLog::ReplayInstant(std::span<const Place> places) {
  const TimePoint now = places.front().time;
  PassTo(now);
  for (const Place& place : places) {
    const Entry& entry = entries_[place.entry];
    Repeat(now, entry.first_call, entry.event_calls);
  }
  for (const Place& place : places) {
    const Entry& entry = entries_[place.entry];
    digest_.OnEncoded(std::span(words_).subspan(entry.first_word, entry.words), entry.plans);
    Repeat(now, entry.first_call + entry.event_calls, entry.plan_calls);
    load_.waiting += entry.change.waiting;
    load_.running += entry.change.running;
    load_.swapped += entry.change.swapped;
    load_.used_blocks += entry.change.used_blocks;
  }
}

void ReplicaLog::PassTo(TimePoint now) {
  if (load_since_ != TimePoint::min() && now > load_since_) {
    for (RunListener* listener : listeners_) listener->OnLoad(load_since_, now, load_);
  }
  load_since_ = now;
}

void ReplicaLog::Repeat(TimePoint now, std::uint32_t first, std::uint32_t count) {
  for (const Call& call : std::span(calls_).subspan(first, count)) {
    for (RunListener* listener : listeners_) {
      switch (call.kind) {
        case Call::Kind::kArrived:
          listener->OnArrived(now, lives_[call.life]);
          break;
        case Call::Kind::kGaps:
          listener->OnGaps(now, call.gap, call.count);
          break;
        case Call::Kind::kEnded:
          listener->OnEnded(lives_[call.life]);
          break;
      }
    }
  }
}

void ReplicaLog::AddLife(Call::Kind kind, const RequestLife& life) {
  calls_.push_back({.kind = kind, .life = static_cast<std::uint32_t>(lives_.size())});
  lives_.push_back(life);
}

void ReplicaLog::OnArrived(TimePoint /*now*/, const RequestLife& life) {
  AddLife(Call::Kind::kArrived, life);
}

void ReplicaLog::OnEnded(const RequestLife& life) { AddLife(Call::Kind::kEnded, life); }

void ReplicaLog::OnGaps(TimePoint /*now*/, Duration gap, std::int64_t count) {
  calls_.push_back({.kind = Call::Kind::kGaps, .gap = gap, .count = count});
}

void ReplicaLog::OnPlanned(TimePoint now, const StepPlan& plan) {
  for (RunListener* listener : listeners_) listener->OnPlanned(now, plan);
}

void ReplicaLog::OnStepEnded(const EndedStep& step) {
  for (RunListener* listener : listeners_) listener->OnStepEnded(step);
}

}  // namespace twin
