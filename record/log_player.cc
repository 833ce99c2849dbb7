#include "record/log_player.h"

#include <algorithm>
#include <numeric>

namespace twin {

void LogPlayer::Show(std::span<const LogPage> pages) {
  Order(pages);
  const std::size_t count = places_.size();
  for (std::size_t i = 0; i < count;) {
    const Place& first = places_[i];
    std::size_t end = i;
    for (;
         end < count && places_[end].time == first.time && places_[end].rank / 2 == first.rank / 2;
         ++end) {
      PrefetchAhead(pages, end);
    }
    ShowInstant(pages, std::span(places_).subspan(i, end - i));
    i = end;
  }
}

// Entries come evenly over the time of a window, so that equal spans of time hold about as many:
// sorted into such spans first, in the order of the pages, and then in each span, they cost a
// constant time each.
void LogPlayer::Order(std::span<const LogPage> pages) {
  unordered_.clear();
  TimePoint first = kTimeNever;
  TimePoint last = TimePoint::min();
  for (std::uint32_t page = 0; page < pages.size(); ++page) {
    for (const LogPage::Entry& entry : pages[page].entries) {
      unordered_.push_back({entry.time, entry.rank, page, &entry});
      first = std::min(first, entry.time);
      last = std::max(last, entry.time);
    }
  }
  places_.resize(unordered_.size());
  if (unordered_.empty()) return;
  const auto since_first = [first](TimePoint time) {
    return static_cast<std::uint64_t>((time - first).count());
  };
  constexpr std::size_t kEntriesPerSpan = 2;
  int shift = 0;
  while (since_first(last) >> shift > unordered_.size() / kEntriesPerSpan) ++shift;
  const auto span_of = [&](const Place& place) { return since_first(place.time) >> shift; };
  ends_.assign((since_first(last) >> shift) + 2, 0);
  for (const Place& place : unordered_) ++ends_[span_of(place) + 1];
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  for (const Place& place : unordered_) places_[ends_[span_of(place)]++] = place;
  std::size_t begin = 0;
  for (const std::uint32_t end : ends_) {
    SortSpan(std::span(places_).subspan(begin, end - begin));
    begin = end;
  }
}

void LogPlayer::SortSpan(std::span<Place> places) {
  constexpr std::size_t kFew = 16;
  if (places.size() > kFew) {
    std::stable_sort(places.begin(), places.end(), Place::Earlier);
    return;
  }
  for (std::size_t i = 1; i < places.size(); ++i) {
    const Place place = places[i];
    std::size_t at = i;
    for (; at > 0 && Place::Earlier(place, places[at - 1]); --at) places[at] = places[at - 1];
    places[at] = place;
  }
}

// The entries lie in the order of the replicas, so that each one comes from another page of memory.
void LogPlayer::PrefetchAhead(std::span<const LogPage> pages, std::size_t i) const {
  constexpr std::size_t kEntriesAhead = 16;
  constexpr std::size_t kPlansAhead = 8;
  if (i + kEntriesAhead >= places_.size()) return;
  __builtin_prefetch(places_[i + kEntriesAhead].entry);
  const LogPage& page = pages[places_[i + kPlansAhead].page];
  const LogPage::Entry& next = *places_[i + kPlansAhead].entry;
  if (next.event_calls + next.plan_calls > 0) __builtin_prefetch(&page.calls[next.first_call]);
  if (next.plans > 0) {
    plans_.Prefetch(page.plans, next.first_plan, static_cast<std::size_t>(next.replica));
  }
}

void LogPlayer::ShowInstant(std::span<const LogPage> pages, std::span<const Place> places) {
  const TimePoint now = places.front().time;
  PassTo(now);
  for (const Place& place : places) {
    const LogPage::Entry& entry = *place.entry;
    if (entry.gaps > 0) {
      for (RunListener* listener : listeners_) listener->OnGaps(now, entry.gap, entry.gaps);
    }
    Repeat(now, pages[place.page], entry.first_call, entry.event_calls);
  }
  for (const Place& place : places) {
    const LogPage::Entry& entry = *place.entry;
    const LogPage& page = pages[place.page];
    std::size_t plan = entry.first_plan;
    for (std::uint32_t i = 0; i < entry.plans; ++i) {
      plan = plans_.Show(page.plans, plan, static_cast<std::size_t>(entry.replica), digest_);
    }
    Repeat(now, page, entry.first_call + entry.event_calls, entry.plan_calls);
    load_.waiting += entry.change.waiting;
    load_.running += entry.change.running;
    load_.swapped += entry.change.swapped;
    load_.used_blocks += entry.change.used_blocks;
  }
}

void LogPlayer::PassTo(TimePoint now) {
  if (load_since_ != TimePoint::min() && now > load_since_) {
    for (RunListener* listener : listeners_) listener->OnLoad(load_since_, now, load_);
  }
  load_since_ = now;
}

void LogPlayer::Repeat(TimePoint now, const LogPage& page, std::uint32_t first,
                       std::uint32_t count) {
  for (const LogPage::Call& call : std::span(page.calls).subspan(first, count)) {
    for (RunListener* listener : listeners_) {
      switch (call.kind) {
        case LogPage::Call::Kind::kArrived:
          listener->OnArrived(now, page.lives[call.life]);
          break;
        case LogPage::Call::Kind::kGaps:
          listener->OnGaps(now, call.gap, call.count);
          break;
        case LogPage::Call::Kind::kEnded:
          listener->OnEnded(page.lives[call.life]);
          break;
      }
    }
  }
}

}  // namespace twin
