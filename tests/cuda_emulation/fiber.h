// A stack of its own on which a function runs that can be left half-way and gone on with.
#pragma once

#include <cstddef>

namespace twin::cuda_emulation {

// Told to address and thread sanitizers. A fiber stays on the thread that started it.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs `body(argument)` until it suspends or ends. REQUIRES: nothing is suspended here.
  void Start(void (*body)(void*), void* argument);
  // Goes on behind the Suspend() that left it. REQUIRES: suspended.
  void Resume();
  // Called on the fiber: back to whoever started or resumed it.
  void Suspend();
  // Called on the fiber: leaves it and goes on with `next`, which suspends to whoever started or
  // resumed this one. REQUIRES: `next` is suspended.
  void SuspendInFavourOf(Fiber& next);
  // True from Start() until the body has ended.
  [[nodiscard]] bool busy() const { return body_ != nullptr; }
  // Forgets a suspended body: its frames' destructors do not run.
  void Abandon();

 private:
  struct Entry;    // what runs at the bottom of the stack
  struct Arrival;  // what a switch hands over
  void Switch();
  void Prepare();
  void ArriveBehind(void* left, void* arrival);

  std::byte* memory_ = nullptr;
  void* context_ = nullptr;  // where the fiber goes on
  void* caller_ = nullptr;   // where its caller does
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  // What the sanitizers keep of each stack.
  void* fiber_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
  void* fiber_race_context_ = nullptr;
  void* caller_race_context_ = nullptr;
};

}  // namespace twin::cuda_emulation
