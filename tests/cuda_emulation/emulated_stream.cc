#include "tests/cuda_emulation/emulated_stream.h"

#include <ctime>
#include <map>
#include <mutex>
#include <utility>

namespace twin::cuda_emulation {
namespace {

using std::chrono::nanoseconds;

class BusyTimes {
 public:
  void Add(int device, nanoseconds time) {
    const std::lock_guard lock(mutex_);
    times_[device] += time;
  }
  [[nodiscard]] nanoseconds Of(int device) {
    const std::lock_guard lock(mutex_);
    return times_[device];
  }

 private:
  std::mutex mutex_;
  std::map<int, nanoseconds> times_;
};

BusyTimes& TheBusyTimes() {
  static BusyTimes times;
  return times;
}

nanoseconds CpuTimeOfThread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + nanoseconds{time.tv_nsec};
}

// Adds the CPU time of its lifetime to a device, less what others on the same thread have added
// meanwhile: a wait for another stream carries out that stream's operations.
class BusyScope {
 public:
  explicit BusyScope(int device) : device_(device), begin_(NotYetAdded()) {}
  ~BusyScope() {
    const nanoseconds own = NotYetAdded() - begin_;
    added_ += own;
    TheBusyTimes().Add(device_, own);
  }
  BusyScope(const BusyScope&) = delete;
  BusyScope& operator=(const BusyScope&) = delete;

 private:
  static nanoseconds NotYetAdded() { return CpuTimeOfThread() - added_; }

  static thread_local nanoseconds added_;
  int device_;
  nanoseconds begin_;
};
thread_local nanoseconds BusyScope::added_{0};

}  // namespace

nanoseconds BusyTime(int device) { return TheBusyTimes().Of(device); }

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
  std::function<void()> rest;  // of the next operation, if it has started early
  while (completed_ < number) {
    if (busy_) {
      done_.wait(lock);
      continue;
    }
    const Operation operation = std::move(waiting_.front());
    waiting_.pop_front();
    const std::function<void()> run = rest ? std::exchange(rest, nullptr) : operation.run;
    // Only what this call carries out next: threads of a kernel stay on the thread that started
    // them.
    std::function<std::function<void()>()> start_next;
    if (operation.is_kernel && completed_ + 1 < number) start_next = waiting_.front().start;
    busy_ = true;
    lock.unlock();
    {
      const BusyScope busy(device);
      if (start_next) rest = start_next();
      run();
    }
    lock.lock();
    busy_ = false;
    ++completed_;
    done_.notify_all();
  }
}

void Capture::Add(Stream* stream, GraphPart part) {
  // Kernels overlap with the one in front of them in their own stream alone.
  if (stream != last) part.operation.start = nullptr;
  last = stream;
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
