// The communication partners of one rank of a grid.
#pragma once

#include "exec/comm/communicator.h"
#include "exec/model/model_share.h"

namespace twin::exec {

// A rank's place in its grid, and the groups that it belongs to: `tensor`, ranked by tensor rank,
// and `stages`, ranked by stage. Both are borrowed, and null if they would contain this rank alone.
struct RankLinks {
  GridPlace place;
  Communicator* tensor = nullptr;
  Communicator* stages = nullptr;
};

}  // namespace twin::exec
