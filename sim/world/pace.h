// Holds a simulated world back to the time of a clock.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace twin::sim {

class Pace {
 public:
  virtual ~Pace() = default;

  enum class Turn : std::uint8_t {
    kGo,         // the time has come
    kLookAgain,  // the next event may have changed: call Await again
    kEnd,        // the run is to end
  };

  // Waits for the next thing that is known to happen. `next` is kTimeNever if nothing is; kGo then
  // says that nothing will be.
  virtual Turn Await(TimePoint next) = 0;
};

}  // namespace twin::sim
