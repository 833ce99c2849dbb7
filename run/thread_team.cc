#include "run/thread_team.h"

#include <atomic>
#include <exception>
#include <limits>

#include "core/check.h"

namespace twin::run {

// The pieces of work of one call, which threads take one by one.
class ThreadTeam::Pieces {
 public:
  Pieces(std::size_t count, const std::function<void(std::size_t)>& work)
      : count_(count), work_(work) {}

  // Works on pieces until all have been taken. Keeps exceptions for ThrowError().
  void DoAll() {
    for (std::size_t i = next_++; i < count_; i = next_++) {
      try {
        work_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (i < failed_) {
          failed_ = i;
          error_ = std::current_exception();
        }
      }
    }
  }

  // REQUIRES: no thread works on them any more.
  void ThrowError() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::size_t failed_ = std::numeric_limits<std::size_t>::max();
  std::exception_ptr error_;  // of failed_
};

ThreadTeam::ThreadTeam(int threads) {
  CHECK(threads >= 1);
  for (int i = 1; i < threads; ++i) others_.emplace_back([this] { Help(); });
}

ThreadTeam::~ThreadTeam() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

// A thread that wakes up after the last piece finds no work, so that nobody waits for it.
void ThreadTeam::Help() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ended_ || (pieces_ != nullptr && calls_ != seen); });
    if (ended_) return;
    seen = calls_;
    ++helping_;
    Pieces& pieces = *pieces_;
    lock.unlock();
    pieces.DoAll();
    lock.lock();
    --helping_;
    changed_.notify_all();
  }
}

void ThreadTeam::Run(std::size_t count, const std::function<void()>& first,
                     const std::function<void(std::size_t)>& work) {
  Pieces pieces(count, work);
  {
    const std::lock_guard lock(mutex_);
    pieces_ = &pieces;
    ++calls_;
    changed_.notify_all();
  }
  std::exception_ptr error;
  try {
    first();
  } catch (...) {
    error = std::current_exception();
  }
  pieces.DoAll();
  {
    std::unique_lock lock(mutex_);
    pieces_ = nullptr;
    changed_.wait(lock, [this] { return helping_ == 0; });
  }
  if (error) std::rethrow_exception(error);
  pieces.ThrowError();
}

}  // namespace twin::run
