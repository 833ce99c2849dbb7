#include "kernels/thread_pool.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "kernels/cpu_features.h"

namespace twin::kernels {
namespace {

constexpr int kSpinsBeforeSleep = 2000;
constexpr int kSpinsBeforeYield = 2000;
constexpr std::uint64_t kClosed = std::numeric_limits<std::uint32_t>::max();

void Pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

std::uint64_t Claim(std::uint32_t generation, std::uint64_t ranges) {
  return std::uint64_t{generation} << 32 | ranges;
}

}  // namespace

ThreadPool::ThreadPool(std::int32_t threads, InstructionSet set)
    : thread_count_(threads), set_(set) {
  CHECK(threads >= 1);
  CHECK(std::ranges::count(UsableInstructionSets(DetectCpu()), set) == 1);
  scratch_.resize(static_cast<std::size_t>(threads));
  for (std::int32_t thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { Work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(std::int64_t count, std::int64_t grain, Call call, const void* context) {
  CHECK(grain >= 1);
  if (count <= 0) return;
  if (thread_count_ == 1 || count <= grain) {
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      call(context, begin, std::min(count, begin + grain), 0);
    }
    return;
  }
  const std::int64_t ranges = (count + grain - 1) / grain;
  CHECK(ranges < static_cast<std::int64_t>(kClosed));
  const std::uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  // Closes claims before the fields change: a late worker that reads fields of this call then fails
  // to claim a range with the previous call's generation.
  claim_.store(Claim(generation, kClosed), std::memory_order_release);
  call_.store(call, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  count_.store(count, std::memory_order_release);
  grain_.store(grain, std::memory_order_release);
  unfinished_.store(ranges, std::memory_order_release);
  claim_.store(Claim(generation, 0), std::memory_order_release);
  generation_.store(generation);
  if (sleepers_.load() > 0) generation_.notify_all();
  while (RunOneRange(generation, 0)) {
  }
  for (int spins = 0; unfinished_.load(std::memory_order_acquire) > 0; ++spins) {
    if (spins < kSpinsBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

bool ThreadPool::RunOneRange(std::uint32_t generation, std::int32_t thread) {
  std::uint64_t claim = claim_.load(std::memory_order_acquire);
  while (true) {
    const auto range = static_cast<std::int64_t>(claim & kClosed);
    const std::int64_t grain = grain_.load(std::memory_order_acquire);
    const std::int64_t count = count_.load(std::memory_order_acquire);
    const Call call = call_.load(std::memory_order_acquire);
    const void* context = context_.load(std::memory_order_acquire);
    if (claim >> 32 != generation || range * grain >= count) return false;
    if (claim_.compare_exchange_weak(claim, claim + 1, std::memory_order_acq_rel)) {
      const std::int64_t begin = range * grain;
      call(context, begin, std::min(count, begin + grain), thread);
      unfinished_.fetch_sub(1, std::memory_order_release);
      return true;
    }
  }
}

std::uint32_t ThreadPool::AwaitGeneration(std::uint32_t seen) {
  for (int spins = 0; spins < kSpinsBeforeSleep; ++spins) {
    const std::uint32_t generation = generation_.load(std::memory_order_acquire);
    if (generation != seen) return generation;
    Pause();
  }
  sleepers_.fetch_add(1);
  generation_.wait(seen);
  sleepers_.fetch_sub(1);
  return generation_.load(std::memory_order_acquire);
}

void ThreadPool::Work(std::int32_t thread) {
  std::uint32_t seen = 0;
  while (true) {
    seen = AwaitGeneration(seen);
    if (stopping_.load()) return;
    while (RunOneRange(seen, thread)) {
    }
  }
}

}  // namespace twin::kernels
