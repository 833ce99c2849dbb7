// Requests that other threads bring while a world runs.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "core/arrival_source.h"

namespace twin::run {

// Push(), Close() and open() may be called from any thread, everything else by the world that takes
// the requests. The world must be woken after Push() and Close().
class LiveRequests final : public ArrivalSource {
 public:
  // REQUIRES: not earlier than the request before; Close() was not called.
  void Push(TracedRequest request) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(request));
  }
  // No more requests will come.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

  const TracedRequest* Peek() override {
    if (!front_) {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) return nullptr;
      front_ = std::move(queue_.front());
      queue_.pop_front();
    }
    return &*front_;
  }
  void Take() override { front_.reset(); }
  void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {}
  [[nodiscard]] bool open() const override {
    const std::lock_guard lock(mutex_);
    return !closed_;
  }

 private:
  std::optional<TracedRequest> front_;  // of the world's thread
  mutable std::mutex mutex_;            // guards the members below
  std::deque<TracedRequest> queue_;
  bool closed_ = false;
};

}  // namespace twin::run
