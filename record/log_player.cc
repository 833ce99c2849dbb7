#include "record/log_player.h"

#include <algorithm>

namespace twin {

void LogPlayer::Show(std::span<const LogPage> pages) {
  Merge(pages);
  const std::size_t count = places_.size();
  for (std::size_t i = 0; i < count;) {
    const LogPage::Place& first = places_[i].at;
    std::size_t end = i;
    for (; end < count && places_[end].at.time == first.time &&
           places_[end].at.round() == first.round();
         ++end) {
      PrefetchAhead(end);
    }
    ShowInstant(std::span(places_).subspan(i, end - i));
    i = end;
  }
}

// Neighbouring runs, two by two, until there is only one: places of one time and rank keep the
// order of their pages.
void LogPlayer::Merge(std::span<const LogPage> pages) {
  places_.clear();
  ends_.clear();
  for (const LogPage& page : pages) {
    for (const LogPage::Place& place : page.places) places_.push_back({place, &page});
    ends_.push_back(places_.size());
  }
  const auto earlier = [](const Place& a, const Place& b) {
    return LogPage::Place::Earlier(a.at, b.at);
  };
  merged_.resize(places_.size());
  while (ends_.size() > 1) {
    std::size_t runs = 0;
    auto out = merged_.begin();
    auto begin = places_.begin();
    for (std::size_t i = 0; i < ends_.size(); i += 2) {
      const auto middle = places_.begin() + static_cast<std::ptrdiff_t>(ends_[i]);
      const std::size_t end = i + 1 < ends_.size() ? ends_[i + 1] : ends_[i];
      const auto last = places_.begin() + static_cast<std::ptrdiff_t>(end);
      out = std::merge(begin, middle, middle, last, out, earlier);
      begin = last;
      ends_[runs++] = end;
    }
    ends_.resize(runs);
    places_.swap(merged_);
  }
}

// The entries lie in the order of the replicas, so that each one comes from another page of memory.
void LogPlayer::PrefetchAhead(std::size_t i) const {
  constexpr std::size_t kEntriesAhead = 16;
  constexpr std::size_t kWordsAhead = 8;
  constexpr std::size_t kWordsPerLine = 8;
  if (i + kEntriesAhead >= places_.size()) return;
  __builtin_prefetch(&places_[i + kEntriesAhead].entry());
  const LogPage& page = *places_[i + kWordsAhead].page;
  const LogPage::Entry& next = places_[i + kWordsAhead].entry();
  if (next.event_calls + next.plan_calls > 0) __builtin_prefetch(&page.calls[next.first_call]);
  for (std::size_t word = 0; word < next.words; word += kWordsPerLine) {
    __builtin_prefetch(&page.words[next.first_word + word]);
  }
}

void LogPlayer::ShowInstant(std::span<const Place> places) {
  const TimePoint now = places.front().at.time;
  PassTo(now);
  for (const Place& place : places) {
    const LogPage::Entry& entry = place.entry();
    Repeat(now, *place.page, entry.first_call, entry.event_calls);
  }
  for (const Place& place : places) {
    const LogPage::Entry& entry = place.entry();
    digest_.OnEncoded(std::span(place.page->words).subspan(entry.first_word, entry.words),
                      entry.plans);
    Repeat(now, *place.page, entry.first_call + entry.event_calls, entry.plan_calls);
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
