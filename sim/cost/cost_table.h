// Times measured at some sizes, for all sizes.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/fitted_config.h"

namespace twin::sim {

// Linear between the points; below the first as the first, 0 at 0. Beyond the last one the time
// grows by the least time per unit that any point shows: the slope of a roofline at the best rate
// achieved.
class CostTable {
 public:
  // Throws InputError (usage) naming `name` if there is no point, sizes are not positive and
  // ascending, or a time is negative or not finite.
  CostTable(const std::string& name, std::vector<CostPoint> points);

  // Seconds. Cost: log of the number of points.
  [[nodiscard]] double At(double size) const;

 private:
  std::vector<CostPoint> points_;
  double slope_beyond_;
};

}  // namespace twin::sim
