// What replicas report to those who place requests: it arrives after a delay, in the order sent.
#pragma once

#include <utility>

#include "core/ring_queue.h"
#include "core/time.h"

namespace twin {

// REQUIRES: `now` never decreases, in all calls. Memory: constant per change of the latest `delay`.
template <class Change>
class DelayedNews {
 public:
  explicit DelayedNews(Duration delay) : delay_(delay) {}

  void Send(TimePoint now, Change change) { under_way_.PushBack({now, std::move(change)}); }

  // Calls take(change) for the changes of instants up to now - delay.
  template <class Take>
  void Receive(TimePoint now, Take take) {
    while (!under_way_.empty() && now - under_way_.front().sent >= delay_) {
      take(under_way_.PopFront().change);
    }
  }

 private:
  struct News {
    TimePoint sent;
    Change change;
  };

  Duration delay_;
  RingQueue<News> under_way_;
};

}  // namespace twin
