#include "run/record/log_player.h"

#include <algorithm>
#include <numeric>

namespace twin {
namespace {

// Larger slices would leave the nearer caches when they are sorted.
constexpr std::size_t kEntriesPerSlice = 2048;

// Number of bits by which times of at most `length` after the first one are shifted, so that at
// most `most` further values remain.
int ShiftTo(std::uint64_t length, std::uint64_t most) {
  int shift = 0;
  while (length >> shift > most) ++shift;
  return shift;
}

std::uint64_t Since(TimePoint first, TimePoint time) {
  return static_cast<std::uint64_t>((time - first).count());
}

}  // namespace

void LogPlayer::Show(std::span<const LogPage> pages) {
  Slice(pages);
  for (std::vector<Place>& slice : slices_) {
    if (slice.empty()) continue;
    Order(slice);
    ShowPlaces(pages);
    slice.clear();
  }
}

// Entries are spread evenly over a window, so that equal spans of time hold about as many of them.
// Distributing entries to spans, in the order of the pages, and then sorting each span costs
// constant time per entry. This is done twice, first by slices, because all entries together fit in
// no cache.
void LogPlayer::Slice(std::span<const LogPage> pages) {
  TimePoint first = kTimeNever;
  TimePoint last = TimePoint::min();
  std::size_t entries = 0;
  for (const LogPage& page : pages) {
    for (const LogPage::Entry& entry : page.entries) {
      first = std::min(first, entry.time);
      last = std::max(last, entry.time);
    }
    entries += page.entries.size();
  }
  if (entries == 0) return;
  const int shift = ShiftTo(Since(first, last), entries / kEntriesPerSlice);
  slices_.resize(std::max<std::size_t>(slices_.size(), (Since(first, last) >> shift) + 1));
  for (std::uint32_t page = 0; page < pages.size(); ++page) {
    for (const LogPage::Entry& entry : pages[page].entries) {
      slices_[Since(first, entry.time) >> shift].push_back({entry, page});
    }
  }
}

void LogPlayer::Order(std::span<const Place> slice) {
  constexpr std::size_t kEntriesPerSpan = 2;
  const auto earlier = [](const Place& a, const Place& b) { return a.entry.time < b.entry.time; };
  const auto [least, most] = std::minmax_element(slice.begin(), slice.end(), earlier);
  const TimePoint first = least->entry.time;
  const std::uint64_t length = Since(first, most->entry.time);
  const int shift = ShiftTo(length, slice.size() / kEntriesPerSpan);
  const auto span_of = [&](const Place& place) { return Since(first, place.entry.time) >> shift; };
  ends_.assign((length >> shift) + 2, 0);
  for (const Place& place : slice) ++ends_[span_of(place) + 1];
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  places_.resize(slice.size());
  for (const Place& place : slice) places_[ends_[span_of(place)]++] = place;
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
    if (!Place::Earlier(places[i], places[i - 1])) continue;
    const Place place = places[i];
    std::size_t at = i;
    for (; at > 0 && Place::Earlier(place, places[at - 1]); --at) places[at] = places[at - 1];
    places[at] = place;
  }
}

void LogPlayer::ShowPlaces(std::span<const LogPage> pages) {
  constexpr std::size_t kPlacesAhead = 16;
  const std::size_t count = places_.size();
  for (std::size_t i = 0; i < count;) {
    const LogPage::Entry& first = places_[i].entry;
    std::size_t end = i;
    for (; end < count && places_[end].entry.time == first.time &&
           places_[end].entry.rank / 2 == first.rank / 2;
         ++end) {
      if (end + kPlacesAhead >= count) continue;
      const Place& ahead = places_[end + kPlacesAhead];
      if (ahead.entry.calls == 0) continue;
      __builtin_prefetch(&pages[ahead.page].calls[ahead.entry.first_call]);
    }
    ShowInstant(pages, std::span(places_).subspan(i, end - i));
    i = end;
  }
}

void LogPlayer::ShowInstant(std::span<const LogPage> pages, std::span<const Place> places) {
  const TimePoint now = places.front().entry.time;
  PassTo(now);
  for (const auto& [entry, page] : places) {
    if (entry.gaps > 0) {
      for (RunListener* listener : listeners_) listener->OnGaps(now, entry.gap, entry.gaps);
    }
    if (entry.calls > 0) Repeat(pages[page], entry, /*by_plans=*/false);
  }
  for (const auto& [entry, page] : places) {
    if (entry.calls > 0) Repeat(pages[page], entry, /*by_plans=*/true);
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

void LogPlayer::Repeat(const LogPage& page, const LogPage::Entry& entry, bool by_plans) {
  for (const LogPage::Call& call : std::span(page.calls).subspan(entry.first_call, entry.calls)) {
    if (call.by_plans != by_plans) continue;
    for (RunListener* listener : listeners_) {
      switch (call.kind) {
        case LogPage::Call::Kind::kArrived:
          listener->OnArrived(entry.time, page.lives[call.life]);
          break;
        case LogPage::Call::Kind::kGaps:
          listener->OnGaps(entry.time, call.gap, call.count);
          break;
        case LogPage::Call::Kind::kEnded:
          listener->OnEnded(page.lives[call.life]);
          break;
      }
    }
  }
}

}  // namespace twin
