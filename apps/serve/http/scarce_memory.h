// Work that must be done although there is no memory for it now.
#pragma once

#include <chrono>
#include <new>
#include <thread>

namespace twin::serve {

// Repeats `work` until there is memory for it: connections that end give some back.
template <class Work>
void DoWhenThereIsMemory(const Work& work) noexcept {
  for (;;) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

}  // namespace twin::serve
