// The thread pool of the CPU kernels, with their instruction set and scratch memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/aligned_buffer.h"
#include "kernels/instruction_set.h"

namespace twin::kernels {

// A fixed number of threads, including the calling one. Only one thread may call at a time.
//
// Waiting threads spin for some ten microseconds and then sleep. A call never waits for a thread
// that has not started to work: if cores are contended, the caller does the work itself.
class ThreadPool {
 public:
  // REQUIRES: threads >= 1; this machine can execute `set`.
  explicit ThreadPool(std::int32_t threads, InstructionSet set = BestInstructionSet());
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] std::int32_t threads() const { return thread_count_; }
  [[nodiscard]] InstructionSet instruction_set() const { return set_; }

  // Calls body(begin, end, thread) for ranges of at most `grain` indices that together cover each
  // of 0..count-1 once, and returns when all are done. Ranges begin at multiples of `grain`. Which
  // thread (0..threads-1) gets which range is unspecified, so no result may depend on it. With one
  // thread or one range, the calls happen inline, in order.
  // REQUIRES: grain >= 1; the body does not throw and calls no ParallelFor of this pool.
  // Cost: about a microsecond while the threads are awake.
  template <class Body>
  void ParallelFor(std::int64_t count, std::int64_t grain, const Body& body) {
    Run(
        count, grain,
        [](const void* context, std::int64_t begin, std::int64_t end, std::int32_t thread) {
          (*static_cast<const Body*>(context))(begin, end, thread);
        },
        &body);
  }

  // Scratch memory of one thread, for use within a body. Its content is undefined between calls.
  [[nodiscard]] AlignedBuffer& scratch(std::int32_t thread) {
    return scratch_[static_cast<std::size_t>(thread)];
  }
  // Scratch memory that the caller writes and bodies may read. Kernels overwrite this and
  // scratch().
  [[nodiscard]] AlignedBuffer& shared_scratch() { return shared_scratch_; }

 private:
  using Call = void (*)(const void*, std::int64_t, std::int64_t, std::int32_t);

  void Run(std::int64_t count, std::int64_t grain, Call call, const void* context);
  bool RunOneRange(std::uint32_t generation, std::int32_t thread);
  void Work(std::int32_t thread);
  std::uint32_t AwaitGeneration(std::uint32_t seen);

  const std::int32_t thread_count_;
  const InstructionSet set_;
  std::vector<AlignedBuffer> scratch_;
  AlignedBuffer shared_scratch_;

  // The current call. A worker reads it and then claims a range by advancing `claim_`, which fails
  // if the generation has changed. The call cannot return before each claimed range is counted as
  // finished.
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> context_{nullptr};
  std::atomic<std::int64_t> count_{0};
  std::atomic<std::int64_t> grain_{1};
  alignas(64) std::atomic<std::uint64_t> claim_{0};  // generation << 32 | ranges claimed
  alignas(64) std::atomic<std::int64_t> unfinished_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::int32_t> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace twin::kernels
