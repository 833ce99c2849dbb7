#include "exec/cuda/decode_graphs.h"

namespace twin::exec::cuda {

bool DecodeGraph::NextIsDetailed() {
  if (!turns.Next(!laps_in_use)) return false;
  laps_in_use = true;
  return true;
}

void DecodeGraph::ReadLaps() {
  shares = laps.Parts();
  laps_in_use = false;
}

}  // namespace twin::exec::cuda
