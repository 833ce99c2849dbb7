#include "exec/cuda/decode_graphs.h"

namespace twin::exec::cuda {

bool DecodeGraph::NextIsDetailed() {
  if (until_detailed > 0) {
    --until_detailed;
    return false;
  }
  if (laps_in_use) return false;
  until_detailed = kDetailInterval - 1;
  laps_in_use = true;
  return true;
}

void DecodeGraph::ReadLaps() {
  shares = laps.Parts();
  laps_in_use = false;
}

}  // namespace twin::exec::cuda
