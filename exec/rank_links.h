// The communication partners of one rank of a grid.
#pragma once

#include "exec/comm/communicator.h"
#include "exec/model/model_share.h"

namespace twin::exec {

// A rank's place in its grid, and its groups: both borrowed, ranked by tensor
// rank and by stage, null where they would hold this rank alone.
struct RankLinks {
  GridPlace place;
  Communicator* tensor = nullptr;
  Communicator* stages = nullptr;
};

}  // namespace twin::exec
