// Early end of work whose unfinished result is useless.
#pragma once

#include <stdexcept>

#include "run/run_control.h"

namespace twin::run {

// Throws std::runtime_error once `control` asks to stop. For work that writes its output only at
// its end. Costs as little as reading a flag.
inline void EndIfStopped(const RunControl& control) {
  if (control.StopRequested()) throw std::runtime_error("interrupted: no output was written");
}

}  // namespace twin::run
