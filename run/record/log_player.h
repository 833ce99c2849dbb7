// Passes the events that logs hold, replica by replica, to listeners in the order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "run/record/replica_log.h"
#include "run/record/run_listener.h"

namespace twin {

// Calls the listeners, which it borrows, as Serve would have done, in the same order. Memory: in
// proportion to the pages that are shown together.
class LogPlayer {
 public:
  explicit LogPlayer(std::span<RunListener* const> listeners)
      : listeners_(listeners.begin(), listeners.end()) {}

  [[nodiscard]] std::span<RunListener* const> listeners() const { return listeners_; }

  // Shows all instants of the pages. REQUIRES: the pages are in the order of their replicas, with
  // the arrivals anywhere, and no later call has an instant earlier than these.
  void Show(std::span<const LogPage> pages);

 private:
  // A copy of an entry, made so that reading entries in the order of time stays in one place of the
  // memory.
  struct Place {
    LogPage::Entry entry;
    std::uint32_t page = 0;
    // Entries of one time and rank are in the order of their replicas, or of their arrivals.
    [[nodiscard]] static bool Earlier(const Place& a, const Place& b) {
      return a.entry.time != b.entry.time ? a.entry.time < b.entry.time
                                          : a.entry.rank < b.entry.rank;
    }
  };

  // Copies all entries of the pages to slices_.
  void Slice(std::span<const LogPage> pages);
  // Fills places_ with the places of a slice, in order.
  void Order(std::span<const Place> slice);
  static void SortSpan(std::span<Place> places);
  // Shows places_.
  void ShowPlaces(std::span<const LogPage> pages);
  // Shows the entries of one time and round.
  void ShowInstant(std::span<const LogPage> pages, std::span<const Place> places);
  void PassTo(TimePoint now);
  // Repeats the calls that the events of the instant caused, or the calls that its plans caused.
  void Repeat(const LogPage& page, const LogPage::Entry& entry, bool by_plans);

  std::vector<RunListener*> listeners_;
  std::vector<std::vector<Place>> slices_;  // by time; the entries of one are sorted in the caches
  std::vector<Place> places_;
  std::vector<std::uint32_t> ends_;  // ends of spans of time, in places_
  Load load_;                        // load of all replicas, between the instants that were shown
  TimePoint load_since_ = TimePoint::min();
};

}  // namespace twin
