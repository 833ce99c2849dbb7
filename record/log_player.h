// Shows what logs have taken down, replica by replica, in the order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "record/log_page.h"
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

  // Shows all instants. REQUIRES: the pages have ended (ReplicaLog::EndPage), are in the order of
  // their replicas, with the arrivals anywhere, and none that is still to come holds anything
  // earlier than they.
  void Show(std::span<const LogPage> pages);

 private:
  struct Place {
    LogPage::Place at;
    const LogPage* page = nullptr;
    [[nodiscard]] const LogPage::Entry& entry() const { return page->entries[at.entry]; }
  };

  // Fills places_ with those of all pages, in order.
  void Merge(std::span<const LogPage> pages);
  void ShowInstant(std::span<const Place> places);
  void PassTo(TimePoint now);
  void Repeat(TimePoint now, const LogPage& page, std::uint32_t first, std::uint32_t count);
  void PrefetchAhead(std::size_t i) const;

  PlanDigest& digest_;
  std::vector<RunListener*> listeners_;
  std::vector<Place> places_;
  std::vector<Place> merged_;      // scratch of Merge
  std::vector<std::size_t> ends_;  // in places_: of runs in order
  Load load_;                      // of all replicas, between the instants that were shown
  TimePoint load_since_ = TimePoint::min();
};

}  // namespace twin
