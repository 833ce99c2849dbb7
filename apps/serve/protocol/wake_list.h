// Passes the receivers of new tokens from the service's thread to one of the server's.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace twin::serve {

// A step tells hundreds of answers at once. They share one turn of the server's loop for each time
// that its thread comes round, instead of one each.
template <typename Waker>
class WakeList {
 public:
  static constexpr std::array<std::size_t, 3> kAhead = {6, 4, 2};

  // From any thread. True: the caller must see to it that the server's thread calls WakeAll().
  [[nodiscard]] bool Add(std::shared_ptr<Waker> waker) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(waker));
    return !std::exchange(called_, true);
  }

  // On the server's thread: calls `wake` with each waker, in order, and then `afterwards`, while
  // all of them are still held. Before each call of `wake`, calls `ahead` for each stage, with the
  // waker that is kAhead[stage] places further. True: more were added meanwhile, and the caller
  // must see to it that WakeAll() is called again. Between two calls the thread can look after its
  // sockets.
  template <typename Ahead, typename Wake, typename Afterwards>
  [[nodiscard]] bool WakeAll(const Ahead& ahead, const Wake& wake, const Afterwards& afterwards) {
    {
      const std::lock_guard lock(mutex_);
      awake_.swap(waiting_);
    }
    for (std::size_t i = 0; i < awake_.size(); ++i) {
      for (std::size_t stage = 0; stage < kAhead.size(); ++stage) {
        if (i + kAhead[stage] < awake_.size()) ahead(*awake_[i + kAhead[stage]], stage);
      }
      wake(*awake_[i]);
    }
    afterwards();
    awake_.clear();
    const std::lock_guard lock(mutex_);
    called_ = !waiting_.empty();
    return called_;
  }

 private:
  std::vector<std::shared_ptr<Waker>> awake_;  // of the server's thread; here for its memory

  std::mutex mutex_;  // guards the members below
  std::vector<std::shared_ptr<Waker>> waiting_;
  bool called_ = false;  // WakeAll() is on its way
};

}  // namespace twin::serve
