// Shows what logs have taken down, replica by replica, in the order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "run/record/replica_log.h"
#include "run/record/run_listener.h"

namespace twin {

// Gives the listeners, which it borrows, what Serve would have given them, in the same order.
// Memory: of the pages that are shown together.
class LogPlayer {
 public:
  explicit LogPlayer(std::span<RunListener* const> listeners)
      : listeners_(listeners.begin(), listeners.end()) {}

  [[nodiscard]] std::span<RunListener* const> listeners() const { return listeners_; }

  // Shows all instants. REQUIRES: the pages are in the order of their replicas, with the arrivals
  // anywhere, and none that is still to come holds anything earlier than they.
  void Show(std::span<const LogPage> pages);

 private:
  // A copy of an entry: in the order of time, each entry would come from another place.
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
  // Fills places_ with those of a slice, in order.
  void Order(std::span<const Place> slice);
  static void SortSpan(std::span<Place> places);
  // Shows places_.
  void ShowPlaces(std::span<const LogPage> pages);
  // Shows entries of one time and round.
  void ShowInstant(std::span<const LogPage> pages, std::span<const Place> places);
  void PassTo(TimePoint now);
  // Repeats the calls of the instant that its events caused, or those that its plans caused.
  void Repeat(const LogPage& page, const LogPage::Entry& entry, bool by_plans);

  std::vector<RunListener*> listeners_;
  std::vector<std::vector<Place>> slices_;  // of time: each holds entries that are sorted in caches
  std::vector<Place> places_;
  std::vector<std::uint32_t> ends_;  // in places_: of spans of time
  Load load_;                        // of all replicas, between the instants that were shown
  TimePoint load_since_ = TimePoint::min();
};

}  // namespace twin
