#include "tests/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>

#include "core/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace twin::cuda_emulation {
namespace {

namespace context = boost::context::detail;

constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kGuardBytes = 4 << 10;

}  // namespace

// `left` is the fiber that was left for `reached`; null: its caller was.
struct Fiber::Arrival {
  Fiber* reached;
  Fiber* left;
};

struct Fiber::Entry {
  static void Run(context::transfer_t from) {
    Fiber* const fiber = static_cast<Arrival*>(from.data)->reached;
    fiber->ArriveBehind(from.fctx, from.data);
    for (;;) {
      fiber->body_(fiber->argument_);
      fiber->body_ = nullptr;
      fiber->Suspend();
    }
  }
};

Fiber::Fiber() {
  void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  memory_ = static_cast<std::byte*>(memory);
  CHECK(mprotect(memory_, kGuardBytes, PROT_NONE) == 0);
  Prepare();
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory_ + kGuardBytes, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(fiber_race_context_);
#endif
  munmap(memory_, kStackBytes + kGuardBytes);
}

void Fiber::Prepare() {
  context_ = context::make_fcontext(memory_ + kGuardBytes + kStackBytes, kStackBytes, &Entry::Run);
  fiber_fake_stack_ = nullptr;
#if defined(__SANITIZE_THREAD__)
  fiber_race_context_ = __tsan_create_fiber(0);
#endif
}

// On this fiber's stack, behind a switch to it: `left` is where the stack that was left goes on.
void Fiber::ArriveBehind(void* left, void* arrival) {
  Fiber* const other = static_cast<Arrival*>(arrival)->left;
  if (other == nullptr) {
    caller_ = left;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fiber_fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
    return;
  }
  other->context_ = left;
  caller_ = other->caller_;
  caller_stack_ = other->caller_stack_;
  caller_stack_bytes_ = other->caller_stack_bytes_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fiber_fake_stack_, nullptr, nullptr);
#endif
#if defined(__SANITIZE_THREAD__)
  caller_race_context_ = other->caller_race_context_;
#endif
}

void Fiber::Switch() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, memory_ + kGuardBytes, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  caller_race_context_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber_race_context_, 0);
#endif
  Arrival arrival{.reached = this, .left = nullptr};
  const context::transfer_t back = context::jump_fcontext(context_, &arrival);
  // The fiber that comes back need not be the one that was gone to.
  static_cast<Fiber*>(back.data)->context_ = back.fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::Start(void (*body)(void*), void* argument) {
  CHECK(!busy());
  body_ = body;
  argument_ = argument;
  Switch();
}

void Fiber::Resume() {
  CHECK(busy());
  Switch();
}

void Fiber::Suspend() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fiber_fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(caller_race_context_, 0);
#endif
  const context::transfer_t back = context::jump_fcontext(caller_, this);
  ArriveBehind(back.fctx, back.data);
}

void Fiber::SuspendInFavourOf(Fiber& next) {
  CHECK(next.busy());
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fiber_fake_stack_, next.memory_ + kGuardBytes, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(next.fiber_race_context_, 0);
#endif
  Arrival arrival{.reached = &next, .left = this};
  const context::transfer_t back = context::jump_fcontext(next.context_, &arrival);
  ArriveBehind(back.fctx, back.data);
}

void Fiber::Abandon() {
  body_ = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory_ + kGuardBytes, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(fiber_race_context_);
#endif
  Prepare();
}

}  // namespace twin::cuda_emulation
