// Reports of replicas to whatever places requests: they arrive after a delay, in the order sent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

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
      if (in_order_ > 0) --in_order_;
    }
  }

  // Where senders report one after the other, each up to the end of a window of time no longer than
  // the delay, `now` decreases from one to the next. Then call this at the end of each window;
  // nothing earlier than the end may follow. Changes of one time may come in any order.
  void EndWindow() {
    window_.clear();
    for (std::size_t i = in_order_; i < under_way_.size(); ++i) window_.push_back(under_way_[i]);
    std::ranges::sort(window_, {}, &News::sent);
    for (std::size_t i = 0; i < window_.size(); ++i) under_way_[in_order_ + i] = window_[i];
    in_order_ = under_way_.size();
  }

  [[nodiscard]] Duration delay() const { return delay_; }

 private:
  struct News {
    TimePoint sent;
    Change change;
  };

  Duration delay_;
  RingQueue<News> under_way_;
  std::size_t in_order_ = 0;  // leading entries of under_way_ that earlier windows have left
  std::vector<News> window_;  // scratch of EndWindow
};

}  // namespace twin
