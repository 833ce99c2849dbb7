// What holds a simulated world back to the time of a clock.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace twin::sim {

class Pace {
 public:
  virtual ~Pace() = default;

  enum class Turn : std::uint8_t {
    kGo,         // the time has come
    kLookAgain,  // something may happen earlier than was thought
    kEnd,        // the run is to end
  };

  // Waits for the next thing that is known to happen. `next` is kTimeNever if nothing is; kGo then
  // says that nothing will be.
  virtual Turn Await(TimePoint next) = 0;
};

}  // namespace twin::sim
