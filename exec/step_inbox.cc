#include "exec/step_inbox.h"

#include <utility>

namespace twin::exec {

void StepInbox::Deliver(ReturnedStep step) {
  {
    const std::lock_guard lock(mutex_);
    delivered_.steps.PushBack(std::move(step));
  }
  changed_.notify_one();
}

void StepInbox::Deliver(const ReturnedTransfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    delivered_.transfers.PushBack(transfer);
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

void StepInbox::Await(Clock::time_point deadline, Deliveries& returned) {
  std::unique_lock lock(mutex_);
  const auto has_news = [this] {
    const bool delivered = !delivered_.steps.empty() || !delivered_.transfers.empty();
    return delivered || woken_ || failure_ != nullptr;
  };
  changed_.wait_until(lock, deadline, has_news);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  woken_ = false;
  while (!delivered_.steps.empty()) returned.steps.PushBack(delivered_.steps.PopFront());
  while (!delivered_.transfers.empty()) {
    returned.transfers.PushBack(delivered_.transfers.PopFront());
  }
}

}  // namespace twin::exec
