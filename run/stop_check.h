// How work that has nothing to keep ends early.
#pragma once

#include <stdexcept>

#include "run/run_control.h"

namespace twin::run {

// Throws std::runtime_error once `control` asks to stop. For work that writes its output at the
// end, so that nothing is left behind. Costs as little as a read of a flag.
inline void EndIfStopped(const RunControl& control) {
  if (control.StopRequested()) throw std::runtime_error("interrupted: no output was written");
}

}  // namespace twin::run
