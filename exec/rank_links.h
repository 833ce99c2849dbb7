// Whom one rank of a grid talks to.
#pragma once

#include "exec/comm/communicator.h"
#include "exec/model/model_share.h"

namespace twin::exec {

// Where a rank stands in its grid, and whom it talks to: both groups borrowed, ranked by tensor
// rank and by stage, null where they would hold this rank alone.
struct RankLinks {
  GridPlace place;
  Communicator* tensor = nullptr;
  Communicator* stages = nullptr;
};

}  // namespace twin::exec
