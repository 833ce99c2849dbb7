// The next request of a source, asked for once.
#pragma once

#include "core/arrival_source.h"

namespace twin::sim {

// An ArrivalSource whose Peek() and next_time() take a few instructions: what the source said is
// kept until that may have changed. Its owner is the only one to take requests and to report their
// ends. Borrows the source. Not thread-safe.
class NextArrival {
 public:
  explicit NextArrival(ArrivalSource& source) : source_(source), reacts_(source.reacts()) {}

  // As in ArrivalSource. The pointer is valid until Take() or OnDone().
  [[nodiscard]] const TracedRequest* Peek() {
    if (!is_known_) Ask();
    return next_;
  }
  // When the next request arrives, as the source says; kTimeNever: none is known.
  [[nodiscard]] TimePoint next_time() {
    if (!is_known_) Ask();
    return time_;
  }
  // REQUIRES: Peek() != nullptr.
  void Take() {
    source_.Take();
    is_known_ = false;
  }
  void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) {
    source_.OnDone(id, now, answer_tokens);
    if (reacts_) is_known_ = false;
  }
  [[nodiscard]] bool reacts() const { return reacts_; }

 private:
  void Ask() {
    // Asked for before the request: other threads may bring one and close the source in between.
    const bool is_open = source_.open();
    next_ = source_.Peek();
    time_ = next_ == nullptr ? kTimeNever : next_->arrival;
    is_known_ = !is_open;
  }

  ArrivalSource& source_;
  bool reacts_;
  bool is_known_ = false;
  const TracedRequest* next_ = nullptr;
  TimePoint time_ = kTimeNever;
};

}  // namespace twin::sim
