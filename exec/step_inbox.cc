#include "exec/step_inbox.h"

#include <utility>

namespace twin::exec {

void StepInbox::Deliver(ReturnedStep step) {
  {
    const std::lock_guard lock(mutex_);
    delivered_.PushBack(std::move(step));
  }
  changed_.notify_one();
}

void StepInbox::Fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::move(failure);
  }
  changed_.notify_one();
}

void StepInbox::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void StepInbox::Await(Clock::time_point deadline, RingQueue<ReturnedStep>& returned) {
  std::unique_lock lock(mutex_);
  const auto has_news = [this] { return !delivered_.empty() || woken_ || failure_ != nullptr; };
  changed_.wait_until(lock, deadline, has_news);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  woken_ = false;
  while (!delivered_.empty()) returned.PushBack(delivered_.PopFront());
}

}  // namespace twin::exec
