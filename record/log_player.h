// Shows what logs have taken down, replica by replica, in the order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "record/log_page.h"
#include "record/packed_plans.h"
#include "record/plan_digest.h"
#include "record/run_listener.h"

namespace twin {

// Gives the digest and the listeners what Serve would have given them, in the same order. Borrows
// both. Memory: of the pages that are shown together.
class LogPlayer {
 public:
  LogPlayer(PlanDigest& digest, std::span<RunListener* const> listeners)
      : digest_(digest), listeners_(listeners.begin(), listeners.end()) {}

  [[nodiscard]] std::span<RunListener* const> listeners() const { return listeners_; }

  // Shows all instants. REQUIRES: the pages are in the order of their replicas, with the arrivals
  // anywhere, and none that is still to come holds anything earlier than they.
  void Show(std::span<const LogPage> pages);

 private:
  // Where an entry is.
  struct Place {
    TimePoint time;
    std::uint32_t rank = 0;
    std::uint32_t page = 0;
    const LogPage::Entry* entry = nullptr;
    // Entries of one time and rank are in the order of their replicas, or of their arrivals.
    [[nodiscard]] static bool Earlier(const Place& a, const Place& b) {
      return a.time != b.time ? a.time < b.time : a.rank < b.rank;
    }
  };

  // Fills places_ with all entries of the pages, in order.
  void Order(std::span<const LogPage> pages);
  static void SortSpan(std::span<Place> places);
  void ShowInstant(std::span<const LogPage> pages, std::span<const Place> places);
  void PassTo(TimePoint now);
  void Repeat(TimePoint now, const LogPage& page, std::uint32_t first, std::uint32_t count);
  void PrefetchAhead(std::span<const LogPage> pages, std::size_t i) const;

  PlanDigest& digest_;
  std::vector<RunListener*> listeners_;
  std::vector<Place> places_;
  std::vector<Place> unordered_;     // scratch of Order
  std::vector<std::uint32_t> ends_;  // in places_: of spans of time
  PlanUnpacker plans_;
  Load load_;  // of all replicas, between the instants that were shown
  TimePoint load_since_ = TimePoint::min();
};

}  // namespace twin
