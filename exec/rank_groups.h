// The place of a rank in its grid, and the groups that it belongs to.
#pragma once

#include <memory>

#include "core/check.h"
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

// Splits all ranks of a grid into its stages (ranks that share layers) and its columns (ranks that
// pass activations on).
class RankGroups {
 public:
  // Collective over `world`. REQUIRES: the grid has world.size() devices.
  RankGroups(Communicator& world, const Parallelism& grid) : place_(PlaceOf(grid, world.rank())) {
    CHECK(world.size() == grid.devices());
    tensor_ = world.Split(place_.stage);
    stages_ = world.Split(place_.tensor_rank);
  }

  [[nodiscard]] const GridPlace& place() const { return place_; }
  // The links borrow this object's groups.
  [[nodiscard]] RankLinks links() const {
    return {.place = place_,
            .tensor = place_.grid.tensor > 1 ? tensor_.get() : nullptr,
            .stages = place_.grid.pipeline > 1 ? stages_.get() : nullptr};
  }

 private:
  GridPlace place_;
  std::unique_ptr<Communicator> tensor_;
  std::unique_ptr<Communicator> stages_;
};

}  // namespace twin::exec
