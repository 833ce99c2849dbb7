#include "tests/cuda_emulation/emulated_stream.h"

#include <utility>

namespace twin::cuda_emulation {

std::uint64_t Stream::Enqueue(Operation operation) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(operation));
  return ++enqueued_;
}

std::uint64_t Stream::enqueued() const {
  const std::lock_guard lock(mutex_);
  return enqueued_;
}

void Stream::DrainTo(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  while (completed_ < number) {
    if (busy_) {
      done_.wait(lock);
      continue;
    }
    const Operation operation = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    operation();
    lock.lock();
    busy_ = false;
    ++completed_;
    done_.notify_all();
  }
}

void Capture::Add(Stream* stream, GraphPart part) {
  parts.push_back(std::move(part));
  seen[stream][stream] = ++given[stream];
}

bool Capture::Joined() {
  for (const auto& [stream, count] : given) {
    if (seen[origin][stream] < count) return false;
  }
  return true;
}

}  // namespace twin::cuda_emulation
